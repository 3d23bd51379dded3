"""Operators and mathematics of a kernel mean what they mean on tensors, of every sign and dtype."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import KernelScope, TensorArgument, Vector, kernel
from pyrite.kernel.ir import ACCEPTED
from pyrite.types import DTYPES, Array, DType, TensorType
from pyrite.types import dtype as as_dtype

Operation = Callable[..., Any]

ARITHMETIC: dict[str, Operation] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "neg": operator.neg, "abs": abs, "pos": operator.pos,
}  # fmt: skip
BITS: dict[str, Operation] = {
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "~": operator.invert,
}  # fmt: skip
SHIFTS: dict[str, Operation] = {"<<": operator.lshift, ">>": operator.rshift}
UNARY = ("neg", "abs", "pos", "~")

SIZE = 64

COMPUTED = [d for d in DTYPES if d in ACCEPTED["number"]]
NAMES = [d.name for d in COMPUTED]

#: Of every sign, at the ends of the dtype, and powers of two, which divide in another way.
WHOLE = (0, 1, 3, 7, 8, 100, -1, -3, -8, -100)
FLOATS = (0.5, 3.0, 7.5, 100.0, -0.5, -3.0, -7.0, -100.0)


def numbers(dtype: DType) -> list[Any]:
    if dtype.is_float:
        return [*FLOATS]
    inside = [n for n in WHOLE if dtype.lowest <= n <= dtype.highest]
    return [*inside, int(dtype.lowest), int(dtype.highest)]


def operations(dtype: DType) -> dict[str, Operation]:
    return ARITHMETIC if dtype.is_float else ARITHMETIC | BITS | SHIFTS


def applied(operation: Operation, name: str, x: Any, y: Any) -> Any:
    return operation(x) if name in UNARY else operation(x, y)


def made(k: KernelScope, value: Any, dtype: DType) -> Any:
    """A result as one of the dtype: a comparison as 0 or 1."""
    return k.cast(value, dtype)


def tensor(values: Any, dtype: DType, device: Device) -> Tensor:
    if not device.backend.supports(TensorType((), dtype)):
        pytest.skip(f"{device} has no {dtype.name}")
    return pyrite.tensor(np.array(values, dtype.numpy), device=device)


def on_tensors(operation: Operation, name: str, x: Array, y: Any, dtype: DType) -> Array:
    left = pyrite.tensor(x, device="numpy")
    right = pyrite.tensor(y, device="numpy") if isinstance(y, np.ndarray) else y
    found: Any = applied(operation, name, left, right)
    return found.astype(dtype).broadcast_to((len(x),)).numpy()


def faults(found: Array, wanted: dict[str, Array], x: Array, y: Any) -> list[str]:
    wrong = []
    for row, (name, values) in zip(found, wanted.items(), strict=True):
        bad = ~np.isclose(row, values, rtol=1e-6, atol=0) if x.dtype.kind == "f" else row != values
        if bad.any():
            at = int(np.argmax(bad))
            other = y[at] if isinstance(y, np.ndarray) else y
            wrong.append(f"{x[at]} {name} {other}: {row[at]}, not {values[at]}")
    return wrong


@pytest.mark.sample(3, by="anywhere")
@pytest.mark.parametrize("dtype", COMPUTED, ids=NAMES)
@pytest.mark.parametrize("form", ["elements", "number"])
def test_operators_of_values_are_those_of_tensors(
    anywhere: Device, dtype: DType, form: str
) -> None:
    """The second operand is loaded for each element, or one for all."""
    every, wanted, known = numbers(dtype), operations(dtype), []
    pairs = [(a, b) for a in every for b in every]
    x, y = (np.array(v, dtype.numpy) for v in zip(*pairs, strict=True))
    if form == "number":
        x, y = np.array(every, dtype.numpy), np.array(every[1:8:3], dtype.numpy)

    @kernel(workgroup_size=SIZE, grid=lambda x, *_: (-(-x.size // SIZE),))
    def all_of_them(k: KernelScope, x: TensorArgument, y: TensorArgument, out: Any) -> None:
        i = k.global_id()
        if i < x.size:
            for row, (name, operation) in enumerate(wanted.items()):
                other = y[i] if form == "elements" else y[0]
                out[row, i] = made(k, applied(operation, name, x[i], other), dtype)

    @custom_op(
        infer=lambda x, y: TensorType((len(wanted), *x.shape), x.dtype), kernels=[all_of_them]
    )
    def op(x: Tensor, y: Tensor, /) -> Tensor:
        """Every operator."""
        ...

    seconds = [y] if form == "elements" else [y[n : n + 1] for n in range(len(y))]
    for second in seconds:
        got = op(tensor(x, dtype, anywhere), tensor(second, dtype, anywhere)).numpy()
        other = second if form == "elements" else second.repeat(len(x))
        values = {n: on_tensors(f, n, x, other, dtype) for n, f in wanted.items()}
        known += faults(got, values, x, other)
    assert not known


@pytest.mark.sample(3, by="anywhere")
@pytest.mark.parametrize("dtype", COMPUTED, ids=NAMES)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["x op 3", "3 op x"])
def test_operators_of_a_value_and_a_number_are_those_of_tensors(
    anywhere: Device, dtype: DType, is_reversed: bool
) -> None:
    x, wanted = np.array(numbers(dtype), dtype.numpy), operations(dtype)
    wanted = {name: f for name, f in wanted.items() if name not in UNARY}
    constants = [n for n in numbers(dtype) if n not in (1, 100, -100, -0.5)]

    def turned(operation: Operation) -> Operation:
        return (lambda a, b: operation(b, a)) if is_reversed else operation

    @kernel(workgroup_size=SIZE, grid=lambda x, *_: (1,))
    def all_of_them(k: KernelScope, x: TensorArgument, out: Any) -> None:
        i = k.global_id()
        if i < x.size:
            for row, operation in enumerate(wanted.values()):
                for column, constant in enumerate(constants):
                    out[row, column, i] = made(k, turned(operation)(x[i], constant), dtype)

    shape = (len(wanted), len(constants), len(x))

    @custom_op(infer=lambda x: TensorType(shape, x.dtype), kernels=[all_of_them])
    def op(x: Tensor, /) -> Tensor:
        """Every operator, with every constant."""
        ...

    got = op(tensor(x, dtype, anywhere)).numpy()

    wrong = []
    for column, constant in enumerate(constants):
        values = {n: on_tensors(turned(f), n, x, constant, dtype) for n, f in wanted.items()}
        wrong += faults(got[:, column], values, x, constant)
    assert not wrong


@pytest.mark.sample(1, by="device")
@pytest.mark.parametrize("factor", [1, 40_000, -(2**31)])
def test_coordinates_are_integers_like_others(device: Device, factor: int) -> None:
    """They wrap around, and what is known of indices is not taken for known of them."""
    wanted, i = operations(pyrite.int32), np.arange(-3, 9, dtype=np.int32)
    seconds = (7, -7, 8, 50_000)

    def arguments(i: Any) -> tuple[Any, Any]:
        return i * factor, (i + 3) * 60_000

    @kernel(workgroup_size=SIZE, grid=lambda x, *_: (1,))
    def all_of_them(k: KernelScope, x: TensorArgument, out: Any) -> None:
        a, b = arguments(k.local_id() - 3)
        with k.if_(k.local_id() < x.size):
            for row, (name, operation) in enumerate(wanted.items()):
                for column, second in enumerate((*seconds, b)):
                    value = applied(operation, name, a * (b + 1), second)
                    out[row, column, k.local_id()] = made(k, value, pyrite.int32)

    shape = (len(wanted), len(seconds) + 1, len(i))

    @custom_op(infer=lambda x: TensorType(shape, x.dtype), kernels=[all_of_them])
    def op(x: Tensor, /) -> Tensor:
        """Every operator of coordinates."""
        ...

    got = op(tensor(i, pyrite.int32, device)).numpy()

    a, b = (t.numpy() for t in arguments(pyrite.tensor(i, device="numpy")))
    x = (pyrite.tensor(a, device="numpy") * pyrite.tensor(b + 1, device="numpy")).numpy()
    wrong = []
    for column, second in enumerate((*seconds, b)):
        values = {n: on_tensors(f, n, x, second, pyrite.int32) for n, f in wanted.items()}
        wrong += faults(got[:, column], values, x, second)
    assert not wrong


def test_an_index_that_wraps_around_is_outside(device: Device) -> None:
    @kernel
    def astray(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x.get(k.at[0] * 65_536 * 40_000) + x[k.at[0] * 65_536 * 40_000 % 5]

    @custom_op(infer=lambda x: x, kernels=[astray])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    assert op(pyrite.ones((5,), device=device)).tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]

    @kernel
    def beyond(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x[k.at[0] * 65_536 * 40_000]

    @custom_op(infer=lambda x: x, kernels=[beyond])
    def other(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    with pytest.raises(IndexRangeError):
        other(pyrite.ones((5,), device=device)).numpy()


def test_division_of_what_is_known_is_the_processors(interpreter: Device) -> None:
    """And of nothing else; what it gives is known too, so that it may be an index."""
    seen: list[Any] = []

    @kernel
    def divided(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        (i,) = k.at
        before = k.position()
        at = (i * 7 + 1) // 2 % 5 + x.shape[0] // 2 * 0
        seen.append((k.position() - before, [*k.tested]))
        out[k.at] = x[at]
        seen.append([*k.tested])

    @custom_op(infer=lambda x: x, kernels=[divided])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    x = pyrite.tensor(np.arange(5, dtype=np.float32), device=interpreter)
    assert op(x).tolist() == [0.0, 4.0, 2.0, 1.0, 4.0]
    # Four constants of i * 7 + 1, // 2, % 5, + 0, and the four operations.
    assert seen == [(9, []), []]


# ---- mathematics ----

#: Those that take a dtype or a condition, which other tests are about.
APART = ("where", "cast", "lift", "bitcast", "constant")
INTRINSICS = [n for n in dir(NumPyAlgebra) if not n.startswith("_") and n not in APART]


def intrinsic_arity(name: str) -> int:
    function = getattr(NumPyAlgebra(), name)
    is_ufunc = isinstance(function, np.ufunc)
    return function.nin if is_ufunc else len(inspect.signature(function).parameters)


@pytest.mark.sample(2, by="anywhere")
@pytest.mark.parametrize("dtype", [*COMPUTED, as_dtype("bool")], ids=[*NAMES, "bool"])
def test_mathematics_is_that_of_tensors_or_an_error(anywhere: Device, dtype: DType) -> None:
    every = [False, True] if dtype.is_bool else numbers(dtype)
    pairs = [(a, b) for a in every for b in every]
    x, y = (np.array(v, dtype.numpy) for v in zip(*pairs, strict=True))
    wrong = []
    for name in INTRINSICS:
        if not takes(name, dtype):
            with pytest.raises(KernelError, match=rf"^k\.math\.{name} requires"):
                of_intrinsic(name, dtype)(tensor(x, dtype, anywhere), tensor(y, dtype, anywhere))
            continue
        got = of_intrinsic(name, dtype)(tensor(x, dtype, anywhere), tensor(y, dtype, anywhere))
        with np.errstate(all="ignore"):
            function = getattr(NumPyAlgebra(), name)
            wanted = function(x, y) if intrinsic_arity(name) == 2 else function(x)
        is_near = np.isclose(got.numpy(), wanted, rtol=2e-5, atol=1e-6, equal_nan=True)
        # WGSL may assume that no NaN and no infinity is there.
        bad = ~is_near & np.isfinite(wanted.astype(np.float64))
        if bad.any():
            at = int(np.argmax(bad))
            wrong.append(f"{name}({x[at]}, {y[at]}): {got.numpy()[at]}, not {wanted[at]}")
    assert not wrong


def takes(name: str, dtype: DType) -> bool:
    """Whether an intrinsic has a meaning for a dtype; those of floats have none for others."""
    if name in ("minimum", "maximum"):
        return True
    if name in ("popcount", "shift_left", "shift_right"):
        return dtype.is_integer
    if name == "multiply_high":
        return dtype.name == "uint32"
    of_numbers = (
        "abs", "ceil", "floor", "floor_divide", "isinf", "isnan", "pow", "remainder", "rint",
        "sign", "signbit", "trunc", "truncated_remainder", "exceeds",
    )  # fmt: skip
    return dtype.is_float or (dtype.is_integer and name in of_numbers)


def of_intrinsic(name: str, dtype: DType) -> Any:
    @kernel
    def one(k: KernelScope, x: TensorArgument, y: TensorArgument, out: TensorArgument) -> None:
        function, i = getattr(k.math, name), k.at
        value = function(x[i], y[i]) if intrinsic_arity(name) == 2 else function(x[i])
        out[i] = k.cast(value, out.dtype)

    result = "bool" if name in ("isnan", "isinf", "signbit", "exceeds") else dtype

    @custom_op(infer=lambda x, y: TensorType(x.shape, as_dtype(result)), kernels=[one])
    def op(x: Tensor, y: Tensor, /) -> Tensor:
        """An op of that intrinsic."""
        ...

    return op


@pytest.mark.sample(2, by="anywhere")
@pytest.mark.parametrize("dtype", COMPUTED, ids=NAMES)
def test_casts_are_those_of_tensors(anywhere: Device, dtype: DType) -> None:
    every = numbers(dtype)
    if dtype.is_float:
        every += [1e10, -1e10, 3e30, -3e30, 2.0**31, -(2.0**31), 255.5, 65_537.0]
    x = np.array(every, dtype.numpy)
    for to in DTYPES:
        if not anywhere.backend.supports(TensorType((), to)):
            continue

        @kernel
        def one(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
            out[k.at] = k.cast(x[k.at], out.dtype)

        @custom_op(infer=lambda x: TensorType(x.shape, to), kernels=[one])
        def op(x: Tensor, /) -> Tensor:
            """An op of that cast."""
            ...

        wanted = pyrite.tensor(x, device="numpy").astype(to).numpy()
        assert op(tensor(x, dtype, anywhere)).numpy().tolist() == wanted.tolist(), to


def test_division_as_in_c_has_names(anywhere: Device) -> None:
    @kernel
    def parted(k: KernelScope, x: TensorArgument, y: Any, whole: Any, rest: Any) -> None:
        whole[k.at] = k.math.truncated_divide(x[k.at], y[k.at])
        rest[k.at] = k.math.truncated_remainder(x[k.at], y[k.at])

    @custom_op(infer=lambda x, y: (x, x), kernels=[parted])
    def op(x: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]:
        """Division as in C."""
        ...

    low = -(2**31)
    x, y = pyrite.tensor([7, -7, 7, -7, 7, low]), pyrite.tensor([2, 2, -2, -2, 0, -1])
    whole, rest = op(x.astype("int32").to(anywhere), y.astype("int32").to(anywhere))

    assert whole.tolist() == [3, -3, -3, 3, 0, low]
    assert rest.tolist() == [1, -1, 1, -1, 0, 0]


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_floats_are_divided_by_a_zero_of_the_kernel_as_by_one_of_data(
    anywhere: Device, zero: float
) -> None:
    @kernel
    def divided(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] / zero

    @pyrite.custom_op(infer=lambda x: x, kernels=[divided])
    def by_zero(x: Tensor, /) -> Tensor:
        """x / zero."""
        ...

    x = np.array([1.0, -1.0, 0.0, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = x / np.float32(zero)
    np.testing.assert_array_equal(by_zero(pyrite.tensor(x, device=anywhere)).numpy(), expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_divmod_is_both_quotient_and_rest(device: Device, dtype: str) -> None:
    @kernel(inner=1)
    def parted(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        more, rest = divmod(x[i], 3)
        back = divmod(17, x[i])
        out[i] = Vector(more, rest, *back)

    @custom_op(infer=lambda x: TensorType((*x.shape, 4), x.dtype), kernels=[parted])
    def op(x: Tensor, /) -> Tensor:
        """Quotients and rests."""
        ...

    x = np.array([1, 2, 7, 9] if dtype == "uint32" else [-7, -1, 2, 9], dtype)

    wanted = np.stack([*np.divmod(x, x.dtype.type(3)), *np.divmod(x.dtype.type(17), x)], 1)
    assert np.array_equal(op(pyrite.tensor(x, device=device)).numpy(), wanted)


@pytest.mark.parametrize("name", ["truncated_divide", "popcount", "pow", "maximum", "abs", "sign"])
def test_mathematics_of_coordinates_is_that_of_integers(anywhere: Device, name: str) -> None:
    """Where Python runs the kernel a coordinate is an int, without a dtype."""

    @kernel
    def one(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        (i,) = k.at
        function = getattr(k.math, name)
        value = function(i - 3) if name in ("popcount", "abs", "sign") else function(i - 3, 2)
        out[i] = value + x[i]

    @custom_op(infer=lambda x: x, kernels=[one])
    def op(x: Tensor, /) -> Tensor:
        """That of each coordinate less 3."""
        ...

    at = np.arange(-3, 5, dtype=np.int32)
    wanted = {
        "truncated_divide": np.trunc(at / 2), "popcount": np.bitwise_count(at.view(np.uint32)),
        "pow": at**2, "maximum": np.maximum(at, 2), "abs": np.abs(at), "sign": np.sign(at),
    }  # fmt: skip
    got = op(pyrite.zeros((8,), dtype="int32", device=anywhere))
    assert got.tolist() == wanted[name].tolist()
