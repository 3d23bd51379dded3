"""Every config of a reduction is right for every layout, and says the same as NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import layout_of
from pyrite.backend.cube.skeleton.finish import Around
from pyrite.backend.cube.skeleton.fold import (
    Problem,
    ReductionConfig,
    candidates,
    extremum_of,
    kernel_fold,
    position_of,
    problem_of,
    reduce_axes,
    select,
    sum_of,
    write_fold,
)
from pyrite.backend.cube.skeleton.fold.config import ordered_columns
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.backend.device import Device
from pyrite.op import Constant
from pyrite.op.rule import folds
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.types import DType, TensorType, float32, float64, int32

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)

#: Shape, order of the axes in memory, reduced axes.
LAYOUTS = [
    ((37,), (0,), (0,)),
    ((3, 64), (0, 1), (1,)),
    ((3, 67), (0, 1), (1,)),
    ((64, 8), (0, 1), (0,)),
    ((65, 6), (0, 1), (0,)),
    ((65, 6), (1, 0), (0,)),
    ((4, 17, 8), (0, 1, 2), (0, 2)),
    ((4, 17, 8), (2, 0, 1), (1,)),
    ((2, 3, 4, 5), (0, 1, 2, 3), (1, 3)),
    ((5, 1, 4), (0, 1, 2), (0, 1, 2)),
]


def in_order(array: Any, order: tuple[int, ...], device: Device) -> Any:
    """The tensor of an array, with its axes in memory in another order."""
    back = tuple(order.index(a) for a in range(len(order)))
    return tensor(np.ascontiguousarray(array.transpose(order)), device=device).permute_dims(back)


def summed(device: Device, shape: Any, order: Any, axes: Any) -> tuple[CubeBackend, Any, Any]:
    """A backend, a handle of whole numbers whose axes lie in an order, and their sum along some."""
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    return backend, in_order(array, order, device)._handle, array.sum(axes, dtype=np.int32)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize(("shape", "order", "axes"), LAYOUTS)
def test_every_candidate_gives_the_sum(
    fresh: Device, machine: Machine, shape: Any, order: Any, axes: Any, quarter: Any
) -> None:
    backend, x, want = summed(fresh, shape, order, axes)
    found = candidates(problem_of(x, axes), machine)
    assert len(found) == len(set(found))
    for config in quarter(found):
        got = reduce_axes(
            backend.launcher, sum_of(int32), x, axes, TensorType(want.shape, int32), config
        )
        np.testing.assert_array_equal(backend.download(got), want, err_msg=str(config))


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize(("shape", "order", "axes"), LAYOUTS[3:8])
def test_every_candidate_gives_what_follows_it(
    fresh: Device, machine: Machine, shape: Any, order: Any, axes: Any, quarter: Any
) -> None:
    """Of a source with a stride and an offset, a number, and one element for all."""
    backend, x, want = summed(fresh, shape, order, axes)
    of = np.arange(3 * want.size, dtype=np.int32)
    source = backend.upload(of).sliced((1,), (want.size,), (3,))
    one = CubeTensor(source.buffer, source.type, (0,), 1)
    two = Constant(2, TensorType((), int32))

    def rule(k: Any, value: Any, *given: Any) -> Any:
        return [value * given[1] - given[0], value + given[2]]

    for config in quarter(candidates(problem_of(x, axes), machine)):
        targets = tuple([backend.launcher.empty(TensorType((want.size,), int32)) for _ in "ab"])
        around = Around.of(
            backend.launcher, (), Epilogue(rule, (source, two, one), targets), layout_of
        )
        write_fold(
            backend.launcher, sum_of(int32), x, axes, [unstored(TensorType(want.shape, int32))],
            config, around,
        )  # fmt: skip
        first, second = (backend.download(t) for t in targets)
        np.testing.assert_array_equal(first, want.ravel() * 2 - of[1::3], err_msg=str(config))
        np.testing.assert_array_equal(second, want.ravel() + of[1], err_msg=str(config))


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize(("shape", "axes"), [((67,), (0,)), ((3, 64), (1,)), ((64, 8), (0,))])
def test_every_candidate_gives_the_first_of_the_greatest(
    fresh: Device, machine: Machine, shape: Any, axes: Any, quarter: Any
) -> None:
    array = np.random.default_rng(0).integers(0, 9, shape).astype(np.int32)
    x = tensor(array, device=fresh)._handle
    want = array.argmax(*axes)
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    found = candidates(problem_of(x, axes), machine)
    assert max(config.parts for config in found) > 1
    for config in quarter(found):
        got = reduce_axes(
            backend.launcher, position_of("argmax", int32), x, axes,
            TensorType(want.shape, int32), config,
        )  # fmt: skip
        np.testing.assert_array_equal(backend.download(got), want, err_msg=str(config))


SIZES = (1, 7, 64, 1000, 1 << 16, 1 << 22)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize(("outputs", "reduced"), list(itertools.product(SIZES, SIZES)))
def test_what_is_selected_is_a_candidate(machine: Machine, outputs: int, reduced: int) -> None:
    for strides in ((reduced, 1), (1, outputs)):
        problem = Problem((outputs,), strides[:1], (reduced,), strides[1:])

        assert select(problem, machine) in candidates(problem, machine)


def test_a_long_row_is_shared_by_a_workgroup_or_cut_in_parts() -> None:
    row = Problem((), (), (1 << 22,), (1,))

    assert select(row, CPU) == ReductionConfig("rows", 1, 1, 8, 16, 16, levels=2)
    assert select(row, GPU) == ReductionConfig("rows", 256, 256, 4, 1024)


def test_what_lies_far_is_read_by_halves_of_a_line_or_of_several_rows() -> None:
    few = Problem((8,), (1 << 21,), (1 << 21,), (1,))
    far = Problem((4096,), (4096,), (4096,), (1,))
    near = Problem((64,), (4096,), (4096,), (1,))

    assert (select(few, CPU).width, select(few, CPU).abreast) == (8, 1)
    assert select(far, CPU) == ReductionConfig("rows", 1, 1, 16, 1, 1, abreast=4)
    assert select(near, CPU) == ReductionConfig("rows", 1, 1, 16, 1, 4)


@pytest.mark.parametrize("name", ["max", "min", "argmax"])
@pytest.mark.parametrize("shape", [(5, 3), (7, 70), (4, 64), (1, 9), (9, 1030)])
def test_rows_that_are_folded_together_have_their_own_results(
    fresh: Device, name: str, shape: tuple[int, int]
) -> None:
    """Rows whose number is none of whole groups; NaN, zeros and infinities among their elements."""
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape).astype(np.float32)
    special = rng.random(shape)
    array[special < 0.1], array[special > 0.9] = -0.0, 0.0
    array[0, 0], array[-1, -1] = np.nan, np.inf
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(np.repeat(array, 2, 1), device=fresh)[:, ::2]._handle
    fold, dtype = extremum_of(name, float32), float32
    if name == "argmax":
        fold, dtype = position_of(name, float32), int32
    want = getattr(array, name)(1)
    found = [c for c in candidates(problem_of(x, (1,)), CPU) if c.abreast > 1]
    assert found
    for config in found:
        got = reduce_axes(backend.launcher, fold, x, (1,), TensorType(shape[:1], dtype), config)
        np.testing.assert_array_equal(backend.download(got), want, err_msg=str(config))


def test_neighbouring_columns_are_folded_together() -> None:
    columns = Problem((4096,), (1,), (4096,), (4096,))

    assert select(columns, CPU) == ReductionConfig(
        "columns", 1, 1, 8, 1, 16, levels=2, overlaps="units"
    )
    assert select(columns, CPU, values=2).vectors == 4
    assert select(columns, GPU) == ReductionConfig("columns", 256, 8, 4, 16)


def test_short_rows_share_a_workgroup_and_few_columns_have_more_lanes() -> None:
    rows = Problem((1000,), (64,), (64,), (1,))
    columns = Problem((16,), (1,), (1000,), (16,))

    assert select(rows, GPU).lanes == 8
    assert select(columns, GPU).lanes == 32


def test_a_sum_has_the_same_bits_in_every_run(fresh: Device) -> None:
    array = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    sums = {tensor(array, device=fresh).sum(1).numpy().tobytes() for _ in range(3)}

    assert len(sums) == 1


SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
TRIPLES = np.array(list(itertools.product(SPECIAL, repeat=3)), np.float32)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "any", "all", "sum", "prod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_infinity_and_signed_zeros_are_as_the_reference_says(
    interpreter: Device, name: str, axis: int
) -> None:
    array = TRIPLES if axis == 1 else TRIPLES.T
    got = getattr(tensor(array, device=interpreter), name)(axis).numpy()
    want = getattr(tensor(array), name)(axis).numpy()

    np.testing.assert_array_equal(got, want)
    if want.dtype == np.float32:
        is_zero = want == 0
        np.testing.assert_array_equal(np.signbit(got)[is_zero], np.signbit(want)[is_zero])


#: Among them NaNs of both signs, the least and the greatest of each sign.
EXTREMES = np.array(
    [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-320, -1e-320, 1.5, -1.5, 1e308, -1e308]
)


def extremum_of_bits(name: str, dtype: DType) -> Any:
    """The fold of an extremum in its form with the larger state."""
    larger = (folds.MAX if name == "max" else folds.MIN).larger
    assert larger is not None
    rule = larger(dtype)
    assert rule is not None
    return kernel_fold(name, rule, dtype, dtype)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_an_extreme_by_its_bits_is_that_of_the_floats(
    fresh: Device, name: str, dtype: DType
) -> None:
    with np.errstate(over="ignore"):
        values = EXTREMES.astype(dtype.numpy)
    array = np.array(list(itertools.product(values, repeat=3)))
    backend, x = fresh.backend, tensor(array, device=fresh)._handle
    assert isinstance(backend, CubeBackend)
    want, got = (
        backend.download(reduce_axes(backend.launcher, fold, x, (1,), TensorType((1728,), dtype)))
        for fold in (extremum_of(name, dtype), extremum_of_bits(name, dtype))
    )

    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize("axis", [0, 1])
def test_every_candidate_gives_the_greatest_by_its_bits(
    fresh: Device, machine: Machine, axis: int, quarter: Any
) -> None:
    array = np.random.default_rng(0).normal(size=(64, 67)).astype(np.float32)
    array[3, 5] = np.nan
    x, backend = tensor(array, device=fresh)._handle, fresh.backend
    assert isinstance(backend, CubeBackend)
    fold, want = extremum_of_bits("max", float32), array.max(axis)
    for config in quarter(candidates(problem_of(x, (axis,)), machine)):
        got = reduce_axes(
            backend.launcher, fold, x, (axis,), TensorType(want.shape, float32), config
        )
        np.testing.assert_array_equal(backend.download(got), want, err_msg=str(config))


def test_the_first_of_equals_wins_however_many_share_the_work(interpreter: Device) -> None:
    array = np.zeros((2, 3000), np.float32)
    array[0, [77, 78, 2999]] = 5.0
    array[1, [1500, 1501]] = np.nan
    x = tensor(array, device=interpreter)

    assert x.argmax(1).tolist() == [77, 1500]
    assert x.argmin(1).tolist() == [0, 1500]


def test_a_long_sum_is_as_exact_as_numpys_by_pairs() -> None:
    device = Device(CubeBackend(InterpreterRuntime()))
    array = np.random.default_rng(1).uniform(0, 1, 200_000).astype(np.float32)
    exact = array.astype(np.float64).sum()

    assert abs(float(tensor(array, device=device).sum()) - exact) <= 4 * np.spacing(
        float32.numpy.type(exact)
    )


def test_tiles_that_are_turned_have_few_lines_whatever_a_vector_has() -> None:
    lines = Problem((512,), (512,), (512,), (1,))

    for vector, width in ((4, 4), (8, 8), (16, 8)):
        machine = Machine("cpu", vector, (1,), 2**31 - 1)
        assert ordered_columns(lines, machine, 1, 32).width == width
