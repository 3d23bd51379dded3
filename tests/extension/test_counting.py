"""Grids that a tensor counts: the numbers stay on the device, and are tested there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import KernelError
from pyrite.extension import kernel, stages
from pyrite.runtime.protocol import MOST_COUNTED
from pyrite.types import TensorType, int32


@pytest.fixture(params=["python", "interpreter", "cpu", "wgpu"])
def where(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    """The devices, and Python itself."""
    if request.param == "interpreter":
        return interpreter
    name = "numpy" if request.param == "python" else request.param
    if problem := device_problem(name):
        pytest.skip(problem)
    return pyrite.device(name)


@kernel(workgroup_size=4, grid="groups", fill={"out": -1})
def doubled_kernel(k: Any, groups: Any, x: Any, out: Any) -> None:
    i = k.global_id()
    if i < x.shape[0]:
        out[i] = 2 * x[i] + k.num_workgroups()


@custom_op(infer=lambda groups, x: x, kernels=[doubled_kernel])
def doubled(groups: Tensor, x: Tensor, /) -> Tensor:
    """2 x and the number of workgroups, of as many elements as these have."""
    ...


def counts(where: Device, *numbers: int, dtype: str = "int32") -> Tensor:
    return pyrite.tensor(np.array(numbers, dtype), device=where)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_as_many_workgroups_run_as_a_tensor_says(where: Device, dtype: str) -> None:
    x = pyrite.arange(10, dtype="int32", device=where)

    for n in (0, 1, 2, 3, 50):
        got = doubled(counts(where, n, dtype=dtype), x).tolist()

        assert got == [2 * i + n if i < 4 * n else -1 for i in range(10)]


def test_a_number_without_axes_and_one_of_a_larger_tensor_count(where: Device) -> None:
    x = pyrite.arange(6, dtype="int32", device=where)
    many = counts(where, 9, 1, 9, 2, 9)

    assert doubled(many[3], x).tolist() == [2, 4, 6, 8, 10, 12]
    assert doubled(many[1:2], x).tolist() == [1, 3, 5, 7, -1, -1]


@kernel(workgroup_size=32, grid="groups", fill={"out": 0})
def places_kernel(k: Any, groups: Any, out: Any) -> None:
    out.atomic("add", (k.workgroup_id(1), k.workgroup_id(0)), k.workgroup_id(2) * 32 + k.local_id())


@custom_op(infer=lambda groups: TensorType((5, 7), int32), kernels=[places_kernel])
def places(groups: Tensor, /) -> Tensor:
    """Numbers of invocations, added up where they are."""
    ...


@pytest.mark.sample(3)
@pytest.mark.parametrize("sizes", [(7, 5), (3, 2), (0, 4), (6, 5, 2), (1, 1, 1)])
def test_a_grid_of_several_axes_is_counted(where: Device, sizes: tuple[int, ...]) -> None:
    x, y, z = (*sizes, 1)[:3]
    wanted = np.zeros((5, 7), np.int32)
    wanted[:y, :x] = sum(range(32 * z))

    assert np.array_equal(places(counts(where, *sizes)).numpy(), wanted)


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", [-1, MOST_COUNTED + 1])
def test_another_number_runs_nothing_and_is_an_error_of_what_is_read(
    where: Device, number: int
) -> None:
    x = pyrite.arange(6, dtype="int32", device=where)

    with pytest.raises(KernelError, match=r"'doubled_kernel' requires each count .* 0 to 65535"):
        doubled(counts(where, number), x).numpy()
    assert doubled(counts(where, 1), x)[0].item() == 1


# ---- what one stage counts is the grid of the next ----


@kernel(fill={"left": 0, "count": 0})
def kept_kernel(k: Any, x: Any, left: Any, count: Any, groups: Any, out: Any) -> None:
    (i,) = k.at
    if x[i] > 0.0:
        left[count.atomic("add", 0, 1)] = x[i]


@kernel(workgroup_size=1, grid=lambda *_: (1,))
def planned_kernel(k: Any, x: Any, left: Any, count: Any, groups: Any, out: Any) -> None:
    groups[0] = (count[0] + 3) // 4


@kernel(workgroup_size=4, grid="groups")
def rooted_kernel(k: Any, x: Any, left: Any, count: Any, groups: Any, out: Any) -> None:
    i = k.global_id()
    if i < count[0]:
        out[i] = k.math.sqrt(left[i])


@custom_op(
    infer=lambda x: (x, TensorType((1,), int32), TensorType((1,), int32), x),
    kernels=[stages(kept_kernel, planned_kernel, rooted_kernel)],
)
def roots(x: Tensor, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Roots of what is positive, in any order."""
    ...


def test_a_stage_counts_the_workgroups_of_the_next_and_nobody_waits(where: Device) -> None:
    x = pyrite.tensor([4.0, -1.0, 9.0, 16.0, -2.0, 25.0, 36.0], device=where)

    with pyrite.no_sync():
        _, count, groups, out = roots(x)

    assert (count.item(), groups.item()) == (5, 2)
    assert sorted(out[:5].tolist()) == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_what_counts_is_known_before_the_kernel(where: Device) -> None:
    @kernel(grid="out")
    def own(k: Any, x: Any, out: Any) -> None:
        out[0] = x[0]

    @kernel(grid="y")
    def none(k: Any, x: Any, out: Any) -> None:
        out[0] = x[0]

    @kernel(grid="x")
    def many(k: Any, x: Any, out: Any) -> None:
        out[0] = x[0]

    for made, wrong in (
        (own, "a grid that is known before it, got its output 'out'"),
        (none, r"one of its tensors \(x, out\), got 'y'"),
        (many, "counts of workgroups of int32 or uint32, one to three in a row, got 'x'"),
    ):

        @custom_op(infer=lambda x: x, kernels=[made])
        def op(x: Tensor, /) -> Tensor:
            """An op of that kernel."""
            ...

        with pytest.raises(KernelError, match=wrong):
            op(pyrite.zeros((5,), device=where)).numpy()


def test_a_grid_that_is_counted_has_no_derivative() -> None:
    with pytest.raises(KernelError, match=r"known when it is launched .* got one that 'n' counts"):

        @kernel(grid="n", differentiable=True)
        def counted(k: Any, n: Any, x: Any, out: Any) -> None:
            out[k.global_id()] = x[k.global_id()]
