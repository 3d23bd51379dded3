"""No kernel of an application touches memory that is not its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube.operand import Layout
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import KernelScope, TensorArgument, kernel
from pyrite.testing.memory import contents
from pyrite.types import TensorType


@kernel
def gathered(k: KernelScope, x: TensorArgument, index: TensorArgument, out: TensorArgument) -> None:
    (i,) = k.at
    out[i] = x[index[i]]


@custom_op(infer=lambda x, index: TensorType(index.shape, x.dtype), kernels=[gathered])
def gather(x: Tensor, index: Tensor, /) -> Tensor:
    """x[index]."""
    ...


def ran(body: Callable[..., None], device: Device, **form: Any) -> Any:
    """What a kernel of that body makes of the numbers 1 to 5."""

    @custom_op(infer=lambda x: x, kernels=[kernel(**form)(body)])
    def op(x: Tensor, /) -> Tensor:
        """An op of that body."""
        ...

    return op(pyrite.tensor([1.0, 2.0, 3.0, 4.0, 5.0], device=device)).tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_an_index_may_have_any_integer_dtype(device: Device, dtype: str) -> None:
    x = pyrite.tensor(np.arange(300, dtype=np.float32), device=device)

    assert gather(x, pyrite.tensor([0, 127], dtype=dtype, device=device)).tolist() == [0.0, 127.0]


@pytest.mark.parametrize(("dtype", "index"), [
    ("int32", 5), ("int32", -1), ("int32", 2**31 - 1), ("int32", -(2**31)), ("int8", -128),
    ("uint32", 2**32 - 1), ("int64", 2**40), ("uint8", 5),
])  # fmt: skip
def test_a_read_outside_is_raised_by_the_next_read_with_the_line(
    device: Device, dtype: str, index: int
) -> None:
    x = pyrite.tensor(np.arange(5, dtype=np.float32), device=device)
    found = gather(x, pyrite.tensor([4, index], dtype=dtype, device=device))

    with pytest.raises(
        IndexRangeError, match=r"gather requires every index of x\[\.\.\.\] in its"
    ) as caught:
        found.numpy()

    assert str(caught.value.location).startswith(__file__)
    assert contents(found).tolist() == [4.0, 0.0]


def test_a_write_outside_is_dropped_and_raised(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at[0] + 4] = x[k.at]

    with pytest.raises(IndexRangeError, match=r"index of out\[\.\.\.\] .* and write under an if"):
        ran(body, device)


def test_the_interpreter_finds_two_invocations_that_write_to_one_place(interpreter: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x[k.at]
        out[0] = x[k.at]

    with pytest.raises(KernelError, match=r"out\[0\] was written by invocation . with no barrier"):
        ran(body, interpreter)


def test_get_is_zero_outside_or_what_one_says(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        (i,) = k.at
        out[i] = x.get(i - 1) + x[i] + x.get(i + 1, other=100.0)

    assert ran(body, device) == [3.0, 6.0, 9.0, 12.0, 109.0]


def test_places_that_are_known_to_be_inside_cost_no_test(interpreter: Device) -> None:
    seen = []

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        with k.for_(0, x.shape[0], carried=[x[0]]) as loop:
            loop.yield_(loop.carried[0] + x[loop.index])
        out[k.at] = loop.results[0]
        seen.append([*k.tested])

    assert ran(body, interpreter) == [16.0] * 5
    assert seen == [[]]


def test_a_loop_by_whole_steps_goes_no_further_than_its_last_one(interpreter: Device) -> None:
    """Of rows of five, by twos and threes: the last begins are 4 - 2 = 2 and 3, and 2 + 2 is 4."""
    seen = []

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        total = 0.0
        for first in range(0, 4, 2):
            for beside in range(3):
                total += x[first + beside]
        for first in range(1, 5, 3):
            total += x[first]
        for last in range(4, -1, -2):
            total += x[last]
        out[k.at] = total
        seen.append([*k.tested])

    assert ran(body, interpreter) == [6.0 + 12.0 + 2.0 + 5.0 + 5.0 + 3.0 + 1.0] * 5
    assert seen == [[]]


def test_a_loop_by_steps_whose_last_one_goes_outside_is_tested(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        total = 0.0
        for first in range(0, 5, 2):
            for beside in range(2):
                total += x[first + beside]
        out[k.at] = total

    with pytest.raises(IndexRangeError):
        ran(body, device)


def test_arithmetic_that_wraps_around_is_tested(device: Device) -> None:
    @kernel
    def astray(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        # 100 + 100 is -56 in int8, though 200 would be inside.
        out[k.at] = x[k.const(100, pyrite.int8) + k.const(100, pyrite.int8)]

    @custom_op(infer=lambda x: x, kernels=[astray])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    with pytest.raises(IndexRangeError):
        op(pyrite.ones((300,), device=device)).numpy()


def test_what_is_known_is_found_once(interpreter: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        place = k.at[0] * 0
        for _ in range(60):  # 2 ** 60 ways through it
            place = place + place
        out[k.at] = x[place]

    assert ran(body, interpreter) == [1.0] * 5


def test_a_loop_that_goes_too_far_is_tested(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        with k.for_(0, x.shape[0] + 1, carried=[x[0]]) as loop:
            loop.yield_(loop.carried[0] + x[loop.index])
        out[k.at] = loop.results[0]

    with pytest.raises(IndexRangeError):
        ran(body, device)


def test_a_number_outside_is_an_error_too(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x[5]

    with pytest.raises(IndexRangeError):
        ran(body, device)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda k, x, out: x.__setitem__(k.at, 1.0), "writes to outputs, got one to input 'x'"),
        (lambda k, x, out: out[k.at], "reads of inputs, got one of output 'out'; keep the value"),
        (lambda k, x, out: x[1.0], r"integers as coordinates, got 1\.0 on axis 0"),
        (lambda k, x, out: x[x[0]], "integers as coordinates, got float32 on axis 0"),
        (lambda k, x, out: x[0, 0], r"x\[...\] requires 1 coordinates of shape \(5,\), got 2"),
        (lambda k, x, out: x[0] and None, "require a Python bool"),
        (lambda k, x, out: x[0] ** 2, r"\*\* requires .* use k\.math\.pow\(x, y\)$"),
        (lambda k, x, out: 2.0 ** x[0], r"\*\* requires .* use k\.math\.pow\(x, y\)$"),
        (lambda k, x, out: np.exp(x[0]), r"np\.exp requires .* use k\.math\.exp\(x\)$"),
        (lambda k, x, out: np.power(x[0], 2), r"np\.power .* use k\.math\.pow\(x, y\)$"),
        (lambda k, x, out: np.spacing(x[0]), r"np\.spacing .* use k\.math$"),
        (lambda k, x, out: np.ones(5) * x[0], r"np\.multiply .* make the array an input of the"),
        (
            lambda k, x, out: x[0] * np.ones(5),
            r"numbers and .*, got ndarray; make a tensor an input",
        ),
        (lambda k, x, out: x[0] * [2.0], r"a constant requires one number, got list of 1$"),
        (lambda k, x, out: out.__setitem__(0, x), "numbers and .*, got TensorArgument; .* x"),
        (lambda k, x, out: math.exp(x[0]), r"math require a Python number.* k\.math\.exp\(x\)$"),
        (lambda k, x, out: float(x[0]), r"float and .* use k\.cast\(x, 'float32'\)"),
        (lambda k, x, out: int(x[0]), r"int requires .* use k\.cast\(x, 'int32'\)$"),
        (lambda k, x, out: round(x[0]), r"round requires .* use k\.rint\(x\)$"),
        (lambda k, x, out: range(k.local_id()), r"range .* use k\.for_\(0, n\)"),
        (
            lambda k, x, out: x[0] * k.local_id(),
            r"mul requires .*, got float32 and int32; cast one: k\.cast\(x, 'float32'\)$",
        ),
        (lambda k, x, out: k.local_id() * 0.5, r"got 0\.5; cast .*: k\.cast\(x, 'float32'\)$"),
    ],
)
def test_a_mistake_says_what_to_do(
    interpreter: Device, wrong: Callable[..., None], message: str
) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        wrong(k, x, out)

    with pytest.raises(KernelError, match=message) as caught:
        ran(body, interpreter)
    assert str(caught.value.location).startswith(f"{__file__}:")


def test_numbers_of_numpy_are_numbers(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        twice: Any = np.float32(2.0) * x[k.at] * np.int64(1)
        out[k.at] = k.select(np.float32(2.0) < x[k.at], twice, np.float64(0.5))

    assert ran(body, device) == [0.5, 0.5, 6.0, 8.0, 10.0]


def test_a_number_is_shifted_by_a_value(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = k.cast((1 << k.at[0]) + (16 >> k.at[0]), "float32")

    assert ran(body, device) == [17.0, 10.0, 8.0, 10.0, 17.0]


def test_what_is_known_of_a_tensor(interpreter: Device) -> None:
    seen: list[Any] = []

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        seen.append((x.shape, x.ndim, x.size, x.dtype, x.name))
        out[k.at] = x[k.at]

    ran(body, interpreter)
    assert seen == [((5,), 1, 5, pyrite.float32, "x")]


# ---- memory of the workgroup, and division ----


@pytest.mark.parametrize("make", ["shared", "private"])
def test_scratch_memory_has_tests_too(device: Device, make: str) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        scratch = getattr(k, make)(pyrite.float32, 64)
        place = k.cast(x[k.at], pyrite.int32)  # 1 to 5
        scratch[place] = x[k.at]
        out[k.at] = scratch[place] + scratch[place + 1_000_000]

    with pytest.raises(IndexRangeError):
        ran(body, device)


def test_scratch_memory_at_known_places_costs_no_test(interpreter: Device) -> None:
    seen = []

    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        scratch = k.private(pyrite.float32, 6)
        for j in range(2):
            with k.for_(0, 3) as loop:
                scratch[loop.index * 2 + j] = 1.5
        out[k.at] = scratch[3] + scratch[5]
        seen.append([*k.tested])

    assert ran(body, interpreter) == [3.0] * 5
    assert seen == [[]]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_a_division_by_zero_gives_zero(device: Device, dtype: str) -> None:
    @kernel
    def divided(
        k: KernelScope, x: TensorArgument, y: TensorArgument, whole: TensorArgument,
        rest: TensorArgument,
    ) -> None:  # fmt: skip
        whole[k.at] = x[k.at] // y[k.at]
        rest[k.at] = x[k.at] % y[k.at]

    @custom_op(infer=lambda x, y: (x, x), kernels=[divided])
    def parted(x: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]:
        """X // y and x % y."""
        ...

    info = np.iinfo(dtype)
    pairs = [(7, 0), (7, 2), (info.max, 1), (0, 0), (info.min, 3)]
    wanted = [
        (0, 0),
        (3, 1),
        (info.max, 0),
        (0, 0),
        (int(info.min) // 3, int(info.min) % 3),
    ]
    if info.min:
        pairs += [(info.min, -1), (7, -1), (-7, 2)]
        wanted += [(info.min, 0), (-7, 0), (-4, 1)]
    x, y = (pyrite.tensor(np.array(v, dtype), device=device) for v in zip(*pairs, strict=True))

    whole, rest = parted(x, y)

    assert list(zip(whole.tolist(), rest.tolist(), strict=True)) == wanted


# ---- mistakes, at the line of the kernel that makes them ----


def set_again_in_a_loop(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    total = x[0]
    with k.for_(0, 5) as loop:
        total = total + x[loop.index]
    out[k.at] = total


def set_again_in_a_branch(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    value = x[k.at]
    with k.if_(value > 3.0):
        value = value * 2.0
    out[k.at] = value


def yielded_from_a_loop_that_ended(k: Any, x: TensorArgument, out: TensorArgument) -> None:
    with k.for_(0, 5) as first:
        inner = x[first.index]
    with k.for_(0, 5, carried=[x[0]]) as second:
        second.yield_(inner)
    out[k.at] = second.results[0]


@pytest.mark.parametrize(
    "body", [set_again_in_a_loop, set_again_in_a_branch, yielded_from_a_loop_that_ended]
)
def test_a_value_of_a_loop_or_branch_ends_with_it(body: Any, interpreter: Device) -> None:
    with pytest.raises(KernelError, match=f"'{body.__name__}' requires values where .* carry it out"
    ) as caught:  # fmt: skip
        ran(body, interpreter)

    assert body.__name__ in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda k, x: k.for_(0, 5, carried=[0.0]),
            r"for_ requires carried=\[\.\.\.\] .*, got 0\.0; ",
        ),
        (
            lambda k, x: k.for_(0, 5, carried=x[0]),
            r"for_ requires carried=\[\.\.\.\] .*got float32; ",
        ),
        (
            lambda k, x: k.while_([1]),
            r"while_ requires carried=\[\.\.\.\] .*, got 1; write carried=",
        ),
        (lambda k, x: k.if_(True), r"if_ requires a bool of the kernel.*, got True; .*Python's if"),
        (lambda k, x: k.if_(x[0]), r"if_ requires a bool of the kernel, as i < n, got float32; "),
    ],
    ids=range(5),
)
def test_loops_and_branches_take_values(
    wrong: Callable[..., Any], message: str, interpreter: Device
) -> None:
    with pytest.raises(KernelError, match=message):
        ran(lambda k, x, out: wrong(k, x), interpreter)


def barrier_in_a_branch(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    with k.if_(k.local_index() < 2):
        k.barrier()
    out[k.local_id()] = x[0]


def barrier_in_a_loop(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    with k.for_(0, k.local_index()):
        k.barrier()
    out[k.local_id()] = x[0]


def barrier_for_all(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    with k.for_(0, k.workgroup_id()):
        k.barrier()
    out[k.local_id()] = x[0]


@pytest.mark.parametrize("body", [barrier_in_a_branch, barrier_in_a_loop])
def test_a_barrier_that_some_never_reach_is_refused_at_its_line(
    body: Callable[..., None], interpreter: Device
) -> None:
    line = f"{__file__}:{body.__code__.co_firstlineno + 2}"
    fix = "got one in an if_ or a loop that only some run; move it out"

    with pytest.raises(
        KernelError, match=f"'{body.__name__}' requires all .*{line}, {fix}"
    ) as caught:
        ran(body, interpreter, workgroup_size=5, grid=lambda x, out: (1,))

    assert caught.value.location == line


def test_a_barrier_takes_a_grid(device: Device) -> None:
    with pytest.raises(KernelError, match=r"a kernel without a grid, .*: kernel\(grid=\.\.\.\)$"):
        ran(barrier_for_all, device)

    made = ran(barrier_for_all, device, workgroup_size=5, grid=lambda x, out: (1,))
    assert made == [1.0] * 5


def test_mathematics_is_found_where_it_is() -> None:
    scope: Any = KernelScope("k", workgroup_size=(1, 1, 1), grid=1)

    with pytest.raises(AttributeError, match=r"no attribute 'tanh'; use k\.math\.tanh$"):
        scope.tanh(1.0)
    with pytest.raises(AttributeError, match=r"^'KernelScope' object has no attribute 'barier'$"):
        scope.barier()


def test_a_dtype_may_be_given_by_its_name(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        scratch = k.private("float32", 1)
        scratch[0] = x[k.at] + k.const(1.0, np.float32)
        out[k.at] = k.cast(k.cast(scratch[0], "int32"), "float32")

    assert ran(body, device) == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_what_will_be_read_may_be_asked_for_also_where_nothing_is(device: Device) -> None:
    def body(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        (i,) = k.at
        x.prefetch(i + 1)
        x.prefetch(10**6)
        out[i] = x[i]

    assert ran(body, device) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_prefetch_is_in_the_kernel() -> None:
    scope = KernelScope("k", workgroup_size=(1, 1, 1), grid=1)
    x = TensorArgument(scope, "x", (5,), Layout(pyrite.float32, (1,)), access="read")

    x.prefetch(4)

    assert "prefetch" in [node.kind for node in scope.build().body.body]
    assert not scope.tested
