"""What a kernel was compiled for is found again by content: every place × every kind of value.

A place is where a value can stand that a kernel is made of: an attribute, a global, a closure.  In
each of them, values that are easily taken for one another must give what a new process gives, which
is what the op means: its input plus a number that is made of all of the value.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import struct
import sys
import threading
import types
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.recording_key import key_of
from pyrite.backend.device import Device, device_problem
from pyrite.errors import ArgumentError, KernelError
from pyrite.extension import kernel
from pyrite.op import OPS
from pyrite.op.plan import form_of
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import TensorType

# ---- values that are easily taken for one another ----


class Silent:
    """An object that looks like all others of its class."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "Silent"


class Equal(Silent):
    """One that says that it equals them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 0


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "Slotted"


@dataclasses.dataclass(frozen=True)
class Frozen:
    factor: Any
    table: Any = dataclasses.field(default=None, compare=False, repr=False)


@dataclasses.dataclass
class Open:
    number: float


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Pair(NamedTuple):
    x: Any
    y: Any


def table(at: int, value: float, size: int = 2000) -> np.ndarray:
    made = np.zeros(size, np.float32)
    made[at] = value
    return made


def nan(payload: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 | payload))[0])


def adding(number: float) -> Callable[[float], float]:
    return lambda x: x + number


#: Of each kind two or more values: a new process tells them apart.
TWINS: dict[str, tuple[Any, ...]] = {
    "middle of an array": (table(1000, 0), table(1000, 5)),
    "dtype of an array": (table(3, 1), table(3, 1).view(np.int32)),
    "shape of an array": (table(3, 1), table(3, 1).reshape(2, 1000)),
    "array in a tuple": ((table(1000, 0),), (table(1000, 5),)),
    "array of objects": (np.array([0.0, None]), np.array([-0.0, None])),
    "constant repr": (Silent(0), Silent(5)),
    "constant equality": (Equal(0), Equal(5)),
    "slots": (Slotted(0), Slotted(5)),
    "sign of zero": (0.0, -0.0),
    "sign of zero in a tuple": ((0.0, 1), (-0.0, 1)),
    "sign of zero in tuples": (((0.0,), (1,)), ((-0.0,), (1,)), ((0.0,), (True,))),
    "sign of zero in NumPy": (np.float64(0.0), np.float64(-0.0), np.float32(0.0), np.float32(-0.0)),
    "sign of zero in a complex": (complex(0, 0.0), complex(0, -0.0), complex(-0.0, 0)),
    "sign of zero in a named tuple": (Pair(0.0, 1), Pair(-0.0, 1), (0.0, 1)),
    "one": (1, True, 1.0, np.int64(1), np.float32(1), Level.LOW, np.bool_(True)),
    "one in a tuple": ((1,), (True,), (1.0,), (np.int64(1),), (Level.LOW,)),
    "one in a frozen set": (frozenset({1}), frozenset({True}), frozenset({1.0})),
    "payload of NaN": (nan(1), nan(2), math.inf),
    "payload of NaN in a tuple": ((nan(1),), (nan(2),)),
    "a float's last bit": (1.0, math.nextafter(1.0, 2.0)),
    "frozen dataclass": (Frozen(1), Frozen(1.0), Frozen(True), Frozen(1, table(1000, 5))),
    "list": ([0, 1], [0, 2], [0, 1.0]),
    "dict": ({"a": 0.0}, {"a": -0.0}, {"b": 0.0}),
    "set": ({1, 2}, {1, 3}),
    "str and bytes": ("1", b"1", bytearray(b"1"), "1" * 5000, "1" * 4999 + "2"),
    "lambda of one code": (adding(0.0), adding(5.0), adding(-0.0)),
    "partial": (types.MethodType(adding(1.0), 2.0), types.MethodType(adding(1.0), 3.0)),
    "empty": (None, (), [], {}, "", 0, False, 0.0, frozenset()),
}

#: A value, and what changes it where it lies.
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "array": (lambda: table(1000, 0), lambda x: x.__setitem__(1000, 5)),
    "array in a tuple": (lambda: (table(1000, 0), 1), lambda x: x[0].__setitem__(1000, 5)),
    "list": (lambda: [0, 1], lambda x: x.append(2)),
    "dict": (lambda: {"a": 1}, lambda x: x.update(a=True)),
    "object": (lambda: Silent(0), lambda x: setattr(x, "number", 5)),
    "equal object": (lambda: Equal(0), lambda x: setattr(x, "number", 5)),
    "dataclass": (lambda: Open(0.0), lambda x: setattr(x, "number", -0.0)),
    "array in a dataclass": (
        lambda: Frozen(1, table(1000, 0)),
        lambda x: x.table.__setitem__(1000, 5),
    ),
    "closure": (lambda: adding(0.0), lambda x: setattr(x.__closure__[0], "cell_contents", 5.0)),
    "list in an object": (lambda: Silent([0]), lambda x: x.number.append(1)),  # type: ignore[arg-type]
}


def described(value: Any) -> bytes:  # noqa: C901 - a table
    """Return bytes of all that a value is."""
    kind = type(value).__name__.encode() + b":"
    match value:
        case enum.Enum():
            return kind + value.name.encode()
        case np.ndarray() if value.dtype == object:
            return kind + b",".join(map(described, value.ravel().tolist()))
        case np.ndarray() | np.generic():
            return kind + str((value.dtype, value.shape)).encode() + value.tobytes()
        case float():
            return kind + struct.pack("<d", value)
        case complex():
            return kind + struct.pack("<dd", value.real, value.imag)
        case tuple() | list():
            return kind + b"(" + b",".join(map(described, value)) + b")"
        case frozenset() | set():
            return kind + b",".join(sorted(map(described, value)))
        case dict():
            return kind + described(tuple(value.items()))
        case types.MethodType():
            return kind + described(value.__func__) + described(value.__self__)
        case types.FunctionType():
            return kind + described(tuple(c.cell_contents for c in value.__closure__ or ()))
        case Silent() | Slotted():
            return kind + described(value.number)
        case _ if dataclasses.is_dataclass(value):
            return kind + described([getattr(value, f.name) for f in dataclasses.fields(value)])
        case _:
            return kind + repr(value).encode()


def number_of(value: Any) -> float:
    """Return a number that differs where values do."""
    return float(zlib.crc32(described(value)) % (1 << 20))


def test_the_numbers_of_twins_differ() -> None:
    for name, values in TWINS.items():
        assert len({number_of(v) for v in values}) == len(values), name


# ---- the places where values stand ----

#: How a place is read: a number is made of what it holds.
Place = Callable[[], Callable[[Any, Tensor], Tensor]]


def same(x: TensorType, **_: Any) -> TensorType:
    return x


def attribute_of_a_rule() -> Callable[[Any, Tensor], Tensor]:
    @custom_op(scalar=lambda k, x, *, value: x + number_of(value))
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    return lambda value, x: op(x, value=value)


def positional_attribute() -> Callable[[Any, Tensor], Tensor]:
    @custom_op(scalar=lambda k, x, *, value: x + number_of(value))
    def op(x: Tensor, /, value: Any) -> Tensor: ...

    return lambda value, x: op(x, value)


def attribute_of_a_kernel() -> Callable[[Any, Tensor], Tensor]:
    @kernel(static=("value",))
    def adds(k: Any, x: Any, out: Any, *, value: Any) -> None:
        out[k.at] = x[k.at] + number_of(value)

    @custom_op(
        infer=same, kernels=[adds], reference=lambda x, *, value: x + np.float32(number_of(value))
    )
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    return lambda value, x: op(x, value=value)


def attribute_of_a_body() -> Callable[[Any, Tensor], Tensor]:
    @custom_op(infer=same, body=lambda x, *, value: x + number_of(value))
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    return lambda value, x: op(x, value=value)


def attribute_of_infer() -> Callable[[Any, Tensor], Tensor]:
    """The result has as many elements as the number says."""

    def sized(value: Any) -> int:
        return 1 + int(number_of(value)) % 4093

    @custom_op(
        infer=lambda x, *, value: TensorType((sized(value),), x.dtype),
        body=lambda x, *, value: x.sum().expand((sized(value),)),
    )
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    def run(value: Any, x: Tensor) -> Tensor:
        got = op(x, value=value)
        assert got.shape == got.numpy().shape == (sized(value),)
        return x + number_of(value)

    return run


def attribute_of_canonical() -> Callable[[Any, Tensor], Tensor]:
    @custom_op(
        canonical=lambda x, *, value: {"value": number_of(value)},
        scalar=lambda k, x, *, value: x + value,
    )
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    return lambda value, x: op(x, value=value)


def attribute_of_a_derivative() -> Callable[[Any, Tensor], Tensor]:
    @custom_op(
        scalar=lambda k, x, *, value: x * 1.0,
        vjp=lambda g, out, x, *, value: (g * number_of(value),),
    )
    def op(x: Tensor, /, *, value: Any) -> Tensor: ...

    def run(value: Any, x: Tensor) -> Tensor:
        grad: Tensor = pyrite.grad(lambda w: op(w, value=value).sum())(x)
        return x + grad

    return run


def closure_of_a_rule() -> Callable[[Any, Tensor], Tensor]:
    held: Any = None

    @custom_op(scalar=lambda k, x: x + number_of(held))
    def op(x: Tensor, /) -> Tensor: ...

    def run(value: Any, x: Tensor) -> Tensor:
        nonlocal held
        held = value
        return op(x)

    return run


def closure_of_a_kernel() -> Callable[[Any, Tensor], Tensor]:
    held: Any = None

    def adds(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] + number_of(held)

    @custom_op(infer=same, kernels=[kernel(adds)], body=lambda x: x + number_of(held))
    def op(x: Tensor, /) -> Tensor: ...

    def run(value: Any, x: Tensor) -> Tensor:
        nonlocal held
        held = value
        return op(x)

    return run


def closure_of_infer() -> Callable[[Any, Tensor], Tensor]:
    held: Any = None

    @custom_op(
        infer=lambda x: TensorType((1 + int(number_of(held)) % 4093,), x.dtype),
        body=lambda x: x.sum().expand((1 + int(number_of(held)) % 4093,)),
    )
    def op(x: Tensor, /) -> Tensor: ...

    def run(value: Any, x: Tensor) -> Tensor:
        nonlocal held
        held = value
        assert op(x).shape == (1 + int(number_of(value)) % 4093,)
        return x + number_of(value)

    return run


GLOBAL: Any = None


class Settings:
    value: Any = None


MODULE: Any = types.ModuleType("settings_of_an_application")
HOLDER = types.SimpleNamespace(value=None)


def helper() -> float:
    return second_helper()


def second_helper() -> float:
    return number_of(GLOBAL)


def by_default(value: Any = None) -> float:
    return number_of(value)


def by_keyword(*, value: Any = None) -> float:
    return number_of(value)


def _set_global(value: Any) -> None:
    globals()["GLOBAL"] = value


#: Of what a kernel reads outside itself: how it is set, and how it is read.
OUTSIDE: dict[str, tuple[Callable[[Any], None], Callable[[], float]]] = {
    "global": (_set_global, lambda: number_of(GLOBAL)),
    "global of a nested function": (_set_global, lambda: sum(number_of(GLOBAL) for _ in "x")),
    "global of a helper": (_set_global, helper),
    "global of a helper's helper": (_set_global, lambda: helper()),
    "attribute of a class": (
        lambda v: setattr(Settings, "value", v), lambda: number_of(Settings.value),
    ),
    "attribute of a module": (
        lambda v: setattr(MODULE, "value", v), lambda: number_of(MODULE.value),
    ),
    "attribute of an object": (
        lambda v: setattr(HOLDER, "value", v), lambda: number_of(HOLDER.value),
    ),
    "default": (lambda v: setattr(by_default, "__defaults__", (v,)), lambda: by_default()),
    "keyword default": (
        lambda v: setattr(by_keyword, "__kwdefaults__", {"value": v}), lambda: by_keyword(),
    ),
}  # fmt: skip


def read_by_a_rule(set_to: Callable[[Any], None], read: Callable[[], float]) -> Place:
    def place() -> Callable[[Any, Tensor], Tensor]:
        @custom_op(scalar=lambda k, x: x + read())
        def op(x: Tensor, /) -> Tensor: ...

        def run(value: Any, x: Tensor) -> Tensor:
            set_to(value)
            return op(x)

        return run

    return place


def read_by_a_kernel(set_to: Callable[[Any], None], read: Callable[[], float]) -> Place:
    def place() -> Callable[[Any, Tensor], Tensor]:
        @kernel
        def adds(k: Any, x: Any, out: Any) -> None:
            out[k.at] = x[k.at] + read()

        @custom_op(infer=same, kernels=[adds], body=lambda x: x + read())
        def op(x: Tensor, /) -> Tensor: ...

        def run(value: Any, x: Tensor) -> Tensor:
            set_to(value)
            return op(x)

        return run

    return place


PLACES: dict[str, Place] = {
    f.__name__.replace("_", " "): f
    for f in (
        attribute_of_a_rule, positional_attribute, attribute_of_a_kernel, attribute_of_a_body,
        attribute_of_infer, attribute_of_canonical, attribute_of_a_derivative,
        closure_of_a_rule, closure_of_a_kernel, closure_of_infer,
    )
}  # fmt: skip
for _name, _of in OUTSIDE.items():
    PLACES[f"{_name} in a rule"] = read_by_a_rule(*_of)
    PLACES[f"{_name} in a kernel"] = read_by_a_kernel(*_of)

INTERPRETER = Device(CubeBackend(InterpreterRuntime()))


@pytest.fixture(params=["numpy", "cpu", "interpreter"])
def device(request: pytest.FixtureRequest) -> Device:
    if request.param == "interpreter":
        return INTERPRETER
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@pytest.mark.sample(3, by="place")
@pytest.mark.parametrize("twins", list(TWINS))
@pytest.mark.parametrize("place", list(PLACES))
def test_values_that_differ_have_kernels_of_their_own(
    device: Device, place: str, twins: str
) -> None:
    run, x, values = PLACES[place](), pyrite.tensor([0.0], device=device), TWINS[twins]

    # Twice: a kernel is also found again by what it was compiled for.
    got = [run(value, x).item() for value in (*values, *values)]

    assert got == [number_of(value) for value in values] * 2


@pytest.mark.sample(2, by="place")
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("place", list(PLACES))
def test_a_value_that_is_changed_where_it_lies_is_read_again(
    device: Device, place: str, change: str
) -> None:
    run, x = PLACES[place](), pyrite.tensor([0.0], device=device)
    make, alter = CHANGES[change]
    value, other = make(), make()
    was = number_of(value)

    before = [run(value, x).item() for _ in range(3)]
    alter(value)
    after = run(value, x).item()
    # What now looks as the first did: nothing may have kept the first and not its content.
    again = run(other, x).item()

    assert before == [was] * 3
    assert after == number_of(value) != was
    assert again == was


# ---- what has no content ----

LOCK = threading.Lock()
TENSOR = pyrite.tensor([1.0], device="numpy")
NUMBERS = (n for n in range(3))
#: What nothing tells from others of its kind, or what changes unseen.
WITHOUT: dict[str, Any] = {"lock": LOCK, "tensor": TENSOR, "generator": NUMBERS, "file": sys.stderr}


@pytest.mark.parametrize("name", list(WITHOUT))
def test_an_attribute_without_content_is_refused_by_name(device: Device, name: str) -> None:
    for place in ("attribute of a rule", "attribute of a kernel", "attribute of canonical"):
        run, x = PLACES[place](), pyrite.tensor([0.0], device=device)
        for value in (WITHOUT[name], (1, WITHOUT[name]), Silent(WITHOUT[name])):
            with pytest.raises(ArgumentError, match="op requires attributes with cont"):
                run(value, x)


@pytest.mark.parametrize("name", list(WITHOUT))
def test_a_global_without_content_is_refused_by_name(device: Device, name: str) -> None:
    x = pyrite.tensor([0.0], device=device)
    with pytest.raises(ArgumentError, match=r"op requires rules .*got global GLOBAL, "):
        PLACES["global in a rule"]()(WITHOUT[name], x)
    if device.name != "numpy":
        with pytest.raises(KernelError, match=r"'adds' requires .*got global GLOBAL, "):
            PLACES["global in a kernel"]()(WITHOUT[name], x)


def test_the_refusal_names_the_line_of_the_call() -> None:
    x = pyrite.tensor([0.0], device="numpy")
    with pytest.raises(ArgumentError) as caught:
        PLACES["attribute of a rule"]()(LOCK, x)

    assert str(caught.value.location).startswith(__file__)


# ---- every attribute of every op ----

EQUAL: tuple[tuple[Any, ...], ...] = (
    (0, 0.0, -0.0, False, np.float64(0.0), np.float64(-0.0)),
    (1, 1.0, True, np.int64(1), Level.LOW),
    ((0, 1), (0.0, 1), (-0.0, 1), (0, True), ((0, 1),), Pair(0, 1)),
    (nan(1), nan(2)),
    ("a", b"a"),
)


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.attributes])
def test_equal_attributes_of_an_op_have_plans_of_their_own(name: str) -> None:
    op = OPS[name]
    given = {name: None for name in op.attributes}
    for name in op.attributes:
        for values in EQUAL:
            calls = [{**given, name: value} for value in values]

            assert len({form_of(op, attrs) for attrs in calls}) == len(values)
            assert len({key_of(op, [], attrs) for attrs in calls}) == len(values)


# ---- what is kept ----


def test_one_content_is_one_kernel_however_often_it_is_made() -> None:
    @kernel
    def adds(k: Any, x: Any, out: Any, *, table: Any) -> None:
        globals()["COMPILED"] = globals().get("COMPILED", 0) + 1
        out[k.at] = x[k.at] + float(table.sum())

    @custom_op(infer=same, kernels=[adds])
    def op(x: Tensor, /, *, table: Any) -> Tensor: ...

    x = pyrite.tensor([0.0], device=INTERPRETER)
    for _ in range(3):
        for value in (2.0, 3.0):
            assert op(x, table=table(7, value)).item() == value

    assert globals().pop("COMPILED") == 2


def test_a_thousand_values_of_a_global_leave_few_keys() -> None:
    run, x = PLACES["global in a rule"](), pyrite.tensor([0.0], device=INTERPRETER)
    for n in range(1000):
        run(n, x)

    reads = run.__closure__[0].cell_contents.op.reads  # type: ignore[attr-defined]
    assert len(reads._keys) <= 512
