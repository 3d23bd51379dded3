"""Every config of a scan gives what NumPy gives, whatever the lines are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.fold import join_cost, kernel_fold, sum_of
from pyrite.backend.cube.skeleton.scan import (
    candidates,
    lines_of,
    scan_axis,
    scan_results,
    select,
)
from pyrite.backend.device import Device, device, device_problem
from pyrite.op.rule import folds
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, float32, int32

GPU = Machine("gpu", 4, (256, 64), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 515), 1), ((37, 16), 0), ((3, 9, 4), 1), ((5, 1), 1)], ids=str
)
@pytest.mark.parametrize("has_initial", [False, True], ids=["plain", "initial"])
@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
def test_every_candidate_sums(
    interpreter: Device,
    shape: tuple[int, ...],
    axis: int,
    has_initial: bool,
    is_reverse: bool,
    quarter: Any,
) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    array = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    x = tensor(array, device=interpreter)._handle
    want = tensor(array).cumsum(axis, include_initial=has_initial, reverse=is_reverse)
    target = backend.launcher.empty(want._type)
    lines = lines_of(x, target, axis, has_initial=has_initial, is_reverse=is_reverse)

    for config in quarter(candidates(lines, 1, GPU)):
        got = scan_axis(
            backend.launcher, sum_of(int32), x, axis, want._type, has_initial=has_initial,
            is_reverse=is_reverse, config=config,
        )  # fmt: skip
        np.testing.assert_array_equal(backend.download(got), want.numpy(), str(config))


def test_every_candidate_carries_nan_and_the_first_of_equals(interpreter: Device) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    array = np.tile(np.array([1, 3, -0.0, 3, 0.0, -np.inf], np.float32), (2, 60))
    array[1, 200:] = np.nan
    x = tensor(array, device=interpreter)._handle
    want = tensor(array).cummax_with_indices(1)
    lines = lines_of(x, x, 1, has_initial=False, is_reverse=False)
    fold = kernel_fold("cummax", folds.MAX_AND_POSITION, float32, float32, int32)
    types = [w._type for w in want]

    for config in candidates(lines, 2, GPU):
        got = scan_results(backend.launcher, fold, types, x, 1, config=config)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(backend.download(g), w.numpy(), str(config))


def test_the_extreme_and_its_position_are_one_scan(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(np.zeros((3, 5), np.float32), device=fresh)
    before = backend.runtime.report()["launches"]
    x.cummax_with_indices(1)

    assert backend.runtime.report()["launches"] - before == 1


def test_what_a_workgroup_shares_fits_every_device(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(np.zeros((1, 100_000), np.float32), device=fresh)._handle
    lines = lines_of(x, x, 1, has_initial=False, is_reverse=False)

    for states in (1, 2):
        for config in candidates(lines, states, GPU):
            assert config.lanes == 1 or states * (config.step + config.lanes) * 8 <= 1 << 14


@pytest.mark.parametrize(
    ("machine", "shape", "axis", "lanes", "lines", "is_cut"),
    [
        (CPU, (1, 1 << 24), 1, 1, 1, True),
        (CPU, (4096, 4096), 1, 1, 1, False),
        (CPU, (4096, 4096), 0, 1, 128, False),
        (GPU, (1, 1 << 24), 1, 256, 1, True),
        (GPU, (4096, 4096), 1, 256, 1, False),
        (GPU, (4096, 4096), 0, 1, 1, True),
    ],
)
def test_a_config_follows_the_lines_and_the_machine(
    fresh: Device, machine: Machine, shape: Any, axis: int, lanes: int, lines: int, is_cut: bool
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(np.zeros((), np.float32), device=fresh).broadcast_to(shape)._handle
    dense = type(x).dense(x.buffer, TensorType(shape, float32))
    found = lines_of(dense, dense, axis, has_initial=False, is_reverse=False)
    config = select(found, 1, join_cost(sum_of(float32)), machine)

    assert (config.lanes, config.lines, config.parts > 1) == (lanes, lines, is_cut)


# ---- on machines ----


@pytest.fixture(params=["cpu", "wgpu"])
def machine(request: pytest.FixtureRequest) -> Device:
    if problem := device_problem(request.param):
        pytest.skip(f"device does not work here: {problem}")
    return device(request.param)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 100_003), 1), ((5, 40_000), 1), ((700, 129), 0), ((3, 5000, 7), 1)]
)
@pytest.mark.sample(1, by="machine")
def test_long_lines_are_right_on_machines(machine: Device, shape: Any, axis: int) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(-9, 9, shape).astype(np.int32)
    floats = rng.normal(size=shape).astype(np.float32)
    floats[rng.random(shape) < 1e-5] = np.nan
    x, y = (tensor(a, device=machine) for a in (array, floats))

    np.testing.assert_array_equal(x.cumsum(axis).numpy(), array.cumsum(axis, dtype=np.int32))
    np.testing.assert_array_equal(
        y.cummin_with_indices(axis)[1].numpy(), tensor(floats).cummin_with_indices(axis)[1].numpy()
    )
    with np.errstate(invalid="ignore"):
        logs = np.logaddexp.accumulate(floats.astype(np.float64), axis)
    np.testing.assert_allclose(y.logcumsumexp(axis).numpy(), logs, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal((y > 1.5).argwhere().numpy(), np.argwhere(floats > 1.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_logarithms_of_sums_begin_after_what_is_minus_infinite(
    machine: Device, dtype: Any
) -> None:
    inf = np.inf
    array = np.array([[-inf, -inf, 1, 2], [-inf] * 4, [1, -inf, inf, -inf]], dtype)
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(array, 1)

    for got in (tensor(array, device=machine), tensor(array.T, device=machine).T):
        np.testing.assert_allclose(got.logcumsumexp(1).numpy(), want, rtol=1e-6)


def test_a_sum_has_the_same_bits_in_every_run(machine: Device) -> None:
    array = np.random.default_rng(2).normal(size=300_000).astype(np.float32)
    x = tensor(array, device=machine)
    first = x.cumsum(0).numpy()

    for _ in range(3):
        np.testing.assert_array_equal(x.cumsum(0).numpy(), first)
    np.testing.assert_allclose(first, np.cumsum(array, dtype=np.float64), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_])
@pytest.mark.parametrize(("shape", "axis"), [((3, 700), 1), ((40, 16), 0), ((16, 33), 1)])
def test_extrema_have_the_values_at_their_positions(
    machine: Device, dtype: Any, shape: Any, axis: int
) -> None:
    array = np.random.default_rng(0).integers(-5, 6, shape).astype(dtype)
    if array.dtype.kind == "f":
        array.flat[200::301] = np.nan
        array[array == 0] *= -1
    x, y = tensor(array, device=machine), tensor(array)

    np.testing.assert_array_equal(x.cummax(axis).numpy(), y.cummax(axis).numpy())
    for got, want in zip(x.cummin_with_indices(axis), y.cummin_with_indices(axis), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        np.testing.assert_array_equal(
            np.signbit(got.astype("float32").numpy()), np.signbit(want.astype("float32").numpy())
        )
