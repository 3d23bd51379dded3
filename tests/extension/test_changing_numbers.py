"""Numbers that change from call to call are given at launch: no key has them, nothing is made anew.

Each case is called again and again with numbers that mix those of one kernel, those of another, and
those that its rules turn into other types; what it gives is what the same in NumPy does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import KernelError
from pyrite.extension import kernel, stages
from pyrite.testing import check_gradients
from pyrite.types import TensorType


@dataclass(frozen=True)
class World:
    pull: float = 1.0
    mode: str = "up"
    rounds: int = 1


TABLE = (10.0, 20.0, 30.0)


def scaled_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
    out[k.at] = x[k.at] * by


def asked_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
    out[k.at] = x[k.at] * by if by > 1.0 else x[k.at] - by


def chosen_kernel(k: Any, x: Any, out: Any, *, n: int) -> None:
    out[k.at] = x[k.at] + TABLE[n]


def repeated_kernel(k: Any, x: Any, out: Any, *, n: int) -> None:
    (i,) = k.at
    out[i] = x[i // n]


def visited_kernel(k: Any, x: Any, out: Any, *, n: int) -> None:
    i = k.global_id()
    if i < x.shape[0]:
        out[i] = x[i] + n


def world_kernel(k: Any, x: Any, out: Any, *, world: World) -> None:
    value = x[k.at]
    for _ in range(world.rounds):
        value = value + (world.pull if world.mode == "up" else -world.pull)
    out[k.at] = value


def total_kernel(k: Any, x: Any, out: Any, total: Any, *, by: float) -> None:
    total.atomic("add", (), x[k.at] * by)


def over_total_kernel(k: Any, x: Any, out: Any, total: Any, *, by: float) -> None:
    out[k.at] = x[k.at] + total[()] - by


class Case(NamedTuple):
    """A kernel, its op, what it is called with, the same in NumPy, and how many are compiled."""

    kernel: Any
    op: Callable[..., Any]
    given: list[dict[str, Any]]
    want: Callable[..., Any]
    forms: int


def zoomed(x: TensorType, *, n: int) -> TensorType:
    return TensorType((x.shape[0] * n,), x.dtype)


def same(x: Any, **_: Any) -> Any:
    return x


def make(body: Any, infer: Any, signature: Callable[..., Any]) -> Callable[..., Any]:
    return custom_op(infer=infer, kernels=[body])(signature)


def by(x: Tensor, /, *, by: float) -> Tensor:
    """By a fraction."""
    ...


def count(x: Tensor, /, *, n: int) -> Tensor:
    """By a count."""
    ...


def inside(x: Tensor, /, *, world: World) -> Tensor:
    """By settings."""
    ...


FRACTIONS = [{"by": v} for v in (0.5, 2.0, 0.5, 0.0, -0.0, 3.0, -2.5, 2.0, 2.0)]
COUNTS = [{"n": v} for v in (1, 2, 0, 1, 1, 2, 0, 0)]
SIZES = [{"n": v} for v in (1, 2, 3, 2, 1, 3, 3)]
WORLDS = [
    {"world": World(*v)}
    for v in ((1.0, "up", 1), (0.5, "up", 3), (0.5, "down", 3), (-1.0, "up", 0), (2.0, "down", 2))
]


def case(name: str) -> Case:
    """A case whose kernel nobody compiled."""
    kernels = {
        "scaled": (kernel(scaled_kernel), same, by, FRACTIONS, lambda x, by: x * by, 1),
        "asked": (
            kernel(asked_kernel), same, by, FRACTIONS,
            lambda x, by: x * by if by > 1.0 else x - by, 2,
        ),
        "chosen": (kernel(chosen_kernel), same, count, COUNTS, lambda x, n: x + TABLE[n], 3),
        "static": (
            kernel(static=("n",))(chosen_kernel), same, count, COUNTS,
            lambda x, n: x + TABLE[n], 3,
        ),
        "repeated": (
            kernel(repeated_kernel), zoomed, count, SIZES, lambda x, n: np.repeat(x, n), 2,
        ),
        "visited": (
            kernel(workgroup_size=4, grid=lambda x, out, *, n: (n,), fill={"out": 0})(
                visited_kernel
            ), same, count, SIZES,
            lambda x, n: np.where(np.arange(len(x)) < 4 * n, x + n, 0), 3,
        ),
        "world": (
            kernel(world_kernel), same, inside, WORLDS,
            lambda x, world: x + world.rounds * world.pull * (1 if world.mode == "up" else -1), 2,
        ),
        "stages": (
            stages(kernel(fill={"total": 0.0})(total_kernel), kernel(over_total_kernel)),
            lambda x, *, by: (x, TensorType((), x.dtype)), by,
            FRACTIONS, lambda x, by: x + (x * by).sum() - by, 2,
        ),
    }  # fmt: skip
    body, infer, signature, given, want, forms = kernels[name]
    return Case(body, make(body, infer, signature), given, want, forms)


NAMES = ("scaled", "asked", "chosen", "static", "repeated", "visited", "world", "stages")
VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: x[::2], lambda x: x[::-1], lambda x: x[:1], lambda x: x[:0],
]  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_that_of_its_numbers(device: Device, name: str) -> None:
    one = case(name)
    x = np.arange(11, dtype=np.float32) - 4.0

    for given, view in product(one.given * 2, VIEWS):
        got = one.op(view(pyrite.tensor(x, device=device)), **given)
        got = got[0] if isinstance(got, tuple) else got
        np.testing.assert_allclose(got.numpy(), one.want(view(x), **given), rtol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NAMES)
def test_only_another_kernel_is_compiled(device: Device, name: str) -> None:
    one = case(name)
    x = pyrite.arange(8, dtype="float32", device=device)

    for given in one.given * 2:
        one.op(x, **given)
    bodies = getattr(one.kernel, "kernels", (one.kernel,))
    assert sum(len(forms) for body in bodies for forms in body._forms.values()) == one.forms


def test_no_plan_is_kept_for_each_number() -> None:
    x = pyrite.ones((4,), device="cpu")
    op: Any = make(kernel(scaled_kernel), same, by)

    for n in range(100):
        assert op(x, by=0.25 * n)[0].item() == 0.25 * n
    assert len(op.op.plans) == 1


def test_a_plan_of_other_numbers_has_all_that_a_plan_has() -> None:
    op: Any = make(kernel(scaled_kernel), same, by)
    x = pyrite.ones((4,), device="cpu")

    op(x, by=0.5)
    (first,) = op.op.plans.values()
    op(x, by=0.25)
    (renewed,) = op.op.plans.values()
    assert (renewed.first, renewed.numbers, renewed.attrs) == (first, (0.25,), {"by": 0.25})
    for field in fields(first):
        if field.name not in ("attrs", "numbers", "first", "is_kept"):
            assert getattr(renewed, field.name) == getattr(first, field.name), field.name


@kernel
def line_kernel(k: Any, x: Any, out: Any, *, slope: float, start: float) -> None:
    out[k.at] = x[k.at] * slope + start


@custom_op(infer=lambda x, *, slope, start: x, kernels=[line_kernel])
def line(x: Tensor, /, *, slope: float = 2.0, start: float = 1.0) -> Tensor:
    """slope x + start."""
    ...


def test_numbers_come_in_any_order_and_class_and_some_are_left_out(device: Device) -> None:
    x = pyrite.tensor([1.0, 2.0], device=device)
    calls: list[dict[str, Any]] = [
        {"slope": 0.5, "start": 3.0}, {"slope": 0.25, "start": 3.0}, {"start": 0.5, "slope": 3.0},
        {"slope": 1, "start": 2.5}, {"slope": 0.5, "start": 4.0}, {"start": 4.0}, {},
        {"slope": -0.0, "start": 0.0}, {"slope": 0.0, "start": -0.0}, {"slope": 0.5, "start": 3},
    ]  # fmt: skip
    for given in [*calls, *calls[::-1]]:
        found = line(x, **given).numpy()
        want = x.numpy() * given.get("slope", 2.0) + given.get("start", 1.0)
        assert found.tolist() == want.tolist(), given
    assert np.isposinf(line(x, slope=0.5, start=np.inf).numpy()).all()
    assert np.isnan(line(x, slope=np.nan, start=0.5).numpy()).all()
    for wrong in ({"slope": 0.5, "begin": 1.0}, {"slope": 0.5, "start": 1.0, "end": 2.0}):
        with pytest.raises(TypeError, match="unexpected keyword"):
            line(x, **wrong)
    with pytest.raises(KernelError, match="got an integer of 1329 bits"):
        line(x, slope=0.5, start=10**400)


def test_integers_are_given_to_integers(device: Device) -> None:
    op = make(kernel(scaled_kernel), same, by)
    x = pyrite.tensor([1, 2], device=device)

    for number in (2, 3, -2, 3):
        assert op(x, by=number).tolist() == [number, 2 * number]


def test_numbers_that_no_argument_holds_are_errors_each_time(device: Device) -> None:
    op = make(kernel(repeated_kernel), same, count)
    x = pyrite.ones((3,), device=device)

    assert op(x, n=1).tolist() == [1.0] * 3
    assert op(x, n=2).tolist() == [1.0] * 3
    for _ in range(3):
        with pytest.raises(pyrite.errors.KernelError, match="whole number between"):
            op(x, n=2**40)
    assert op(x, n=1).tolist() == [1.0] * 3


def wide(x: TensorType, **attrs: int) -> TensorType:
    return TensorType((x.shape[0] * attrs["n"],), x.dtype)


def nested(x: TensorType, *, n: int) -> TensorType:
    return max((TensorType((size * n,), x.dtype) for size in x.shape), key=lambda of: of.size)


def seen(x: TensorType, *, n: int) -> TensorType:
    return TensorType((x.shape[0] * locals()["n"],), x.dtype)


def decorated(x: TensorType, *, n: int) -> TensorType:
    return zoomed(x, n=n)


RULES: list[Callable[..., Any]] = [
    zoomed, wide, nested, seen, functools.wraps(same)(decorated),
    functools.partial(decorated), lambda x, n: TensorType((len(range(x.shape[0] * n)),), x.dtype),
]  # fmt: skip


@pytest.mark.parametrize("rule", range(len(RULES)))
def test_types_are_those_of_the_number_however_the_rule_reads_it(rule: int) -> None:
    op = make(kernel(repeated_kernel), RULES[rule], count)
    x = pyrite.arange(3, dtype="float32", device="cpu")

    for n in (2, 3, 1, 3, 2):
        assert op(x, n=n).tolist() == np.repeat(np.arange(3.0), n).tolist()


@pytest.mark.parametrize(
    "grid",
    [lambda *_, n: (n,), lambda *_, **attrs: (attrs["n"],), lambda *_, n: tuple(n for _ in "x")],
)
def test_a_grid_is_that_of_the_number(device: Device, grid: Any) -> None:
    op = make(kernel(workgroup_size=4, grid=grid, fill={"out": 0})(visited_kernel), same, count)
    x = np.arange(20, dtype=np.float32)

    for n in (1, 2, 3, 2, 1, 4):
        got = op(pyrite.tensor(x, device=device), n=n).numpy()
        np.testing.assert_array_equal(got, np.where(np.arange(20) < 4 * n, x + n, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8", "uint32"])
def test_a_number_arrives_as_a_constant_of_the_kernel_would(dtype: str) -> None:
    """Rounded to the nearest, of large and small ones too; of integers those that fit."""
    given = kernel(scaled_kernel)
    built_in = kernel(static=("by",))(scaled_kernel)
    ops = [make(body, same, by) for body in (given, built_in)]
    x = pyrite.ones((3,), dtype=dtype, device="cpu")
    numbers = (
        [1, 2, 3, 100, -1, 2**31 - 1, 2**31, -(2**31), 2**40, 1.0, 2.0, 2.5]
        if "int" in dtype
        else [0.1, 1 / 3, 16777217, 2**24 + 3, 1e-45, 3.3e38, 3.5e38, 1e300, -0.0, 7, 2**70, 0.3]
    )

    for number in numbers * 2:
        found = []
        for op in ops:
            try:
                found.append(repr(op(x, by=number).tolist()))
            except pyrite.errors.PyriteError as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], number


def test_gradients_are_those_of_their_numbers() -> None:
    @kernel(differentiable=True)
    def bent_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
        out[k.at] = k.math.sin(x[k.at] * by)

    op = make(bent_kernel, same, by)
    x = np.array([0.3, -1.2])

    for number in (0.5, 2.0, -1.0, 0.5):
        check_gradients(lambda x, number=number: op(x, by=number), x, device="cpu")
        got = pyrite.grad(lambda x, number=number: op(x, by=number).sum())(pyrite.tensor(x))
        np.testing.assert_allclose(got.numpy(), np.cos(x * number) * number, rtol=1e-5)


def test_wgsl_is_given_its_numbers() -> None:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    body = pyrite.wgpu.kernel(
        """
        @compute @workgroup_size(workgroup_size_x)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let i = element(id);
            if (i < out_size) { out[i] = x[i] * by + f32(n); }
        }
        """
    )

    @custom_op(infer=lambda x, *, by, n: x, kernels=[body])
    def line(x: Tensor, /, *, by: float, n: int) -> Tensor:
        """x by + n."""
        ...

    x = pyrite.tensor([1.0, 2.0], device="wgpu")
    for number, n in ((0.5, 1), (2.0, 1), (2.0, 3), (-0.5, 0), (0.5, 1)):
        assert line(x, by=number, n=n).tolist() == [number + n, 2.0 * number + n]
    assert sum(map(len, body._forms.values())) == 1
