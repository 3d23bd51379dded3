"""Each call of the kernel language with each wrong argument is an error of its line, in words."""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.algebra import Algebra
from pyrite.backend.device import Device
from pyrite.errors import KernelError, PyriteError
from pyrite.extension import KernelScope, PythonKernel, TensorArgument, kernel


class Parts:
    """What a call may be made with, right or wrong."""

    def __init__(self, k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        self.k, self.x, self.out = k, x, out
        self.value = x[0]
        self.index = k.local_id()
        self.truth = self.value > 0.0
        self.vector = k.splat(self.value, 4)
        self.tile = k.shared("float32", 64)
        self.counts = k.shared("int32", 4, access="atomic")

    def wrong(self) -> dict[str, Any]:
        return {
            "None": None, "a text": "text", "a fraction": 2.5, "-1": -1, "0": 0, "2**40": 2**40,
            "a list": [], "a list of numbers": [1.0, 2.0], "an object": object(),
            "an array": np.ones(3), "a bool": True, "a value": self.value, "an index": self.index,
            "a truth": self.truth, "a vector": self.vector, "a tensor": self.x,
            "memory": self.tile, "another kernel's": FOREIGN[0], "a dtype": pyrite.float64,
            "a list of another's": [FOREIGN[0]], "a dtype's name": "int8",
        }  # fmt: skip


WRONG = (
    "None", "a text", "a fraction", "-1", "0", "2**40", "a list", "a list of numbers", "an object",
    "an array", "a bool", "a value", "an index", "a truth", "a vector", "a tensor", "memory",
    "another kernel's", "a dtype", "a list of another's", "a dtype's name",
)  # fmt: skip


def in_a_loop(name: str) -> Callable[..., Any]:
    """The opening of a loop or a branch, entered and closed."""

    def call(k: KernelScope, *given: Any) -> None:
        with getattr(k, name)(*given):
            pass

    return call


def yielding(k: KernelScope, carried: Any, yielded: Any) -> None:
    with k.for_(0, 2, carried=[carried]) as loop:
        loop.yield_(yielded)


def turning(k: KernelScope, condition: Any, yielded: Any) -> None:
    never = k.const(0, "int32") > 1
    with k.if_(never), k.while_([k.const(0.0, "float32")]) as loop:
        loop.condition(condition)
        loop.yield_(yielded)


def method(owner: str, name: str, *given: str, **options: Any) -> Any:
    """A call of a method, and its right arguments, by the names of parts or as they are."""

    def call(parts: Parts, *arguments: Any) -> Any:
        found: Any = parts.k if owner == "k" else getattr(parts, owner)
        return getattr(found, name)(*arguments, **options)

    return call, given


def function(of: Callable[..., Any], *given: Any) -> Any:
    return (lambda parts, *arguments: of(parts.k, *arguments)), given


def plain(of: Callable[..., Any], *given: Any) -> Any:
    return (lambda parts, *arguments: of(*arguments)), given


#: By name: what is called, and with what it is right; a text in ``$`` names a part.
CALLS: dict[str, Any] = {
    "const": method("k", "const", 1.0, "float32"),
    "cast": method("k", "cast", "$value", "int32"),
    "bitcast": method("k", "bitcast", "$value", pyrite.int32),
    "select": method("k", "select", "$truth", "$value", 1.0),
    "min": method("k", "min", "$value", 1.0),
    "max": method("k", "max", "$value", 1.0),
    "fma": method("k", "fma", "$value", "$value", 1.0),
    "clamp": method("k", "clamp", "$value", 0.0, 1.0),
    "mix": method("k", "mix", "$value", "$value", 0.5),
    "step": method("k", "step", "$value", "$value"),
    "fmod": method("k", "fmod", "$value", "$value"),
    "sqrt": method("k", "sqrt", "$value"),
    "fence": method("k", "fence", "$value"),
    "floor": method("k", "floor", "$value"),
    "rint": method("k", "rint", "$value"),
    "splat": method("k", "splat", "$value", 4),
    "make": function(lambda k, x: k.make([x, x]), "$value"),
    "make a list": method("k", "make", "$two"),
    "extract": method("k", "extract", "$vector", 1),
    "alu": method("k", "alu", "add", "$value", "$value"),
    "divide": method("k", "alu", "div", "$index", "$index"),
    "local_id": method("k", "local_id", 0),
    "global_id": method("k", "global_id", 0),
    "workgroup_id": method("k", "workgroup_id", 0),
    "num_workgroups": method("k", "num_workgroups", 0),
    "barrier": method("k", "barrier", "workgroup"),
    "shared": method("k", "shared", "float32", 4),
    "atomic memory": function(lambda k, d, n, a: k.shared(d, n, access=a), "int32", 4, "atomic"),
    "private": method("k", "private", "float32", 4),
    "subgroup_reduce": method("k", "subgroup_reduce", "add", "$value"),
    "subgroup_scan": method("k", "subgroup_scan", "add", "$value"),
    "subgroup_shuffle": method("k", "subgroup_shuffle", "$value", 0, "index"),
    "subgroup_broadcast": method("k", "subgroup_broadcast", "$value"),
    "subgroup_ballot": method("k", "subgroup_ballot", "$truth"),
    "buffer": method("k", "buffer", "b", pyrite.float32, "read"),
    "scalar": method("k", "scalar", "n", pyrite.int32),
    "error": method("k", "error", "$counts", "$truth", 1),
    "for_": function(in_a_loop("for_"), 0, 3),
    "for_ step": function(lambda k, s: in_a_loop("for_")(k, 0, 3) or k.for_(0, 3, step=s), 1),
    "for_ carried": function(lambda k, c: k.for_(0, 3, carried=c), "$pair"),
    "while_": method("k", "while_", "$pair"),
    "if_": function(in_a_loop("if_"), "$truth"),
    "yield_": function(yielding, "$value", "$value"),
    "condition": function(turning, "$truth", "$value"),
    "x[i]": method("x", "__getitem__", "$index"),
    "x.get": method("x", "get", "$index"),
    "x.get(other=)": function(lambda k, x, o: x.get(0, other=o), "$x", 1.0),
    "x.prefetch": method("x", "prefetch", "$index"),
    "out[i] = v": method("out", "__setitem__", "$index", "$value"),
    "tile[i]": method("tile", "__getitem__", "$index"),
    "tile[i] = v": method("tile", "__setitem__", "$index", "$value"),
    "tile.load": method("tile", "load", "$index", width=2),
    "tile.load(mask=)": function(lambda k, t, m: t.load(0, mask=m, other=1.0), "$tile", "$truth"),
    "tile.load(width=)": function(lambda k, t, w: t.load(0, width=w), "$tile", 4),
    "tile.store(mask=)": function(lambda k, t, m: t.store(0, 1.0, mask=m), "$tile", "$truth"),
    "counts.atomic": method("counts", "atomic", "add", "$index", 1),
    "counts.atomic(expected=)": function(
        lambda k, c, e: c.atomic("exchange_equal", 0, 1, expected=e), "$counts", 0
    ),
    "tile.atomic": method("tile", "atomic", "add", "$index", 1.0),
    "x[i][j]": plain(operator.getitem, "$vector", 1),
    **{
        f"x {name} y": plain(getattr(operator, name), "$value", 1.0)
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "eq", "pow")
    },
    **{
        f"i {name} j": plain(getattr(operator, name), "$index", 1)
        for name in ("lshift", "rshift", "and_", "or_", "xor", "floordiv", "mod", "invert", "neg")
        if name not in ("invert", "neg")
    },
    **{
        f"math.{name}": function(
            lambda k, *given, name=name: getattr(k.math, name)(*given), "$value"
        )
        for name in ("abs", "ceil", "exp", "isnan", "log", "popcount", "sign", "sqrt", "tanh")
    },
    **{
        f"math.{name}": function(
            lambda k, *given, name=name: getattr(k.math, name)(*given), "$value", 2.0
        )
        for name in (
            "atan2", "floor_divide", "maximum", "pow", "remainder", "shift_left",
            "truncated_divide", "truncated_remainder",
        )
    },
    "math.where": function(lambda k, *given: k.math.where(*given), "$truth", "$value", 1.0),
    "math.cast": function(lambda k, *given: k.math.cast(*given), "$value", "int32"),
}  # fmt: skip

#: A value of a kernel that has been written.
FOREIGN: list[Any] = []


def ran(body: Callable[..., None], device: Device) -> None:
    @custom_op(infer=lambda x: x, kernels=[kernel(workgroup_size=4, grid=lambda x, o: (1,))(body)])
    def op(x: Tensor, /) -> Tensor:
        """An op of that body."""
        ...

    op(pyrite.ones((64,), device=device))


@pytest.fixture(autouse=True)
def foreign(interpreter: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    # These kernels read what has no content, and each is written once.
    monkeypatch.setattr(PythonKernel, "_reads_key", lambda self: id(self))

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        FOREIGN[:] = [x[0]]
        out[k.local_id()] = x[0]

    ran(body, interpreter)


def right(parts: Parts, given: tuple[Any, ...]) -> list[Any]:
    def part(name: Any) -> Any:
        if not isinstance(name, str) or not name.startswith("$"):
            return name
        lists = {"$pair": [parts.value], "$two": [parts.value] * 2}
        return lists[name] if name in lists else getattr(parts, name[1:])

    return [part(name) for name in given]


def outcome(name: str, position: int, wrong: str | None, device: Device) -> Exception | None:
    """What comes of a call with one wrong argument, or with none."""
    call, given = CALLS[name]

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        parts = Parts(k, x, out)
        arguments = right(parts, given)
        if wrong is not None:
            arguments[position] = parts.wrong()[wrong]
        call(parts, *arguments)
        out[k.local_id()] = parts.value

    try:
        ran(body, device)
    except Exception as error:
        return error
    return None


NO_FAULT = {"buffer", "scalar", "error", "tile.atomic", "divide", "x pow y", "math.popcount",
            "math.shift_left", "barrier", "tile.store(mask=)"}  # fmt: skip


@pytest.mark.sample(40)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_right_or_an_error_of_its_line(name: str, interpreter: Device) -> None:
    _, given = CALLS[name]
    if name not in NO_FAULT:
        found = outcome(name, 0, None, interpreter)
        # The interpreter finds that four invocations write to one place.
        assert found is None or "written by invocation" in str(found), repr(found)
    bad = []
    for position in range(len(given)):
        for wrong in WRONG:
            error = outcome(name, position, wrong, interpreter)
            if error is not None and (why := flaw(error)):
                bad.append(f"{wrong} as {position}: {why}: {type(error).__name__}: {error}")
    assert not bad, "\n".join(bad)


def flaw(error: Exception) -> str | None:
    """What is not right with an error of a mistake."""
    text = str(error)
    if not isinstance(error, PyriteError):
        # Of what is none of ours Python says it, at the line.
        *_, last = traceback.walk_tb(error.__traceback__)
        return None if last[0].f_code.co_filename == __file__ else "no error of Pyrite"
    if "invocation" in text and "kernel 'body': " in text:
        return None  # the interpreter ran it
    if not re.search(r" requires? .*(, got |got no)", text):
        return "not in the form"
    if "breaks a rule" in text or re.search(r"%\d|object at 0x|<Node", text):
        return "internals are shown"
    if not str(error.location).startswith(f"{__file__}:"):
        return f"at {error.location}"
    line = int(str(error.location).rpartition(":")[2])
    return None if line < FIRST_LINE_OF_CALLS_END else f"not the kernel's line, {line}"


FIRST_LINE_OF_CALLS_END = test_a_call_is_right_or_an_error_of_its_line.__code__.co_firstlineno


def test_the_table_has_every_call() -> None:
    """Of the scope, the mathematics, tensors and memory."""
    internal = {
        "build", "close", "discard", "emit", "index", "inside", "fail", "hidden", "of", "open",
        "position", "replace_last", "stand_at", "value", "floor_divide", "remainder", "shift",
        "divide", "resume", "suspend", "memories", "forget_memories", "note_counter",
        "static", "check", "print", "known_inside", "note_applied", "note_open_ended", "note_read",
        "recorded", "built", "ldexp", "exp2",
    }  # fmt: skip
    # Without arguments.
    internal |= {"local_index", "subgroup_lane", "subgroup_size"}
    calls = {
        n for n in dir(KernelScope) if not n.startswith("_") and callable(getattr(KernelScope, n))
    }

    assert calls - internal <= CALLS.keys() | {"math", "plain"}
    assert {f"math.{n}" for n in ("exp", "pow", "cast", "where")} <= CALLS.keys()
    assert hasattr(Algebra, "exp")


def test_the_line_is_the_kernels_and_not_the_calls(interpreter: Device) -> None:
    def helper(k: KernelScope, x: TensorArgument) -> Any:
        return k.math.exp(k.local_id())  # the line of the error

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.local_id()] = helper(k, x)

    with pytest.raises(KernelError, match=r"k\.math\.exp requires floats .*, got int32; cast it"
    ) as caught:  # fmt: skip
        ran(body, interpreter)

    assert caught.value.location == f"{__file__}:{helper.__code__.co_firstlineno + 1}"
