"""Every way to sort gives the one order: stable, -0.0 equal to 0.0, NaN above infinity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.skeleton.sort import argsort_axis
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.order import SortConfig, candidates, select
from pyrite.backend.cube.skeleton.sort.radix_tiles import shared_bytes
from pyrite.backend.cube.skeleton.sort.row import Rows, rows_of
from pyrite.backend.device import Device, device, device_problem
from pyrite.tensor.creation import tensor
from pyrite.types import DTYPES, DType, float32, float64, int64, uint64

GPU = Machine("gpu", 4, (128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


def many_equals(dtype: DType, shape: Any, seed: int = 0) -> Any:
    """Few different values, the bounds of the dtype among them; of floats NaNs and both zeros."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.is_float:
        values = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -1.5, 1e-7, 300.0])
    else:
        low, high = int(dtype.lowest), int(dtype.highest)
        values = np.array([0, 1, 2, low, low + 1, high, high - 1], dtype.numpy)
    return values[rng.integers(0, len(values), shape)].astype(dtype.numpy)


def small_blocks(config: SortConfig) -> SortConfig:
    """The same with blocks so small that a short row has several."""
    return (
        replace(config, width=config.workgroup_size * 4) if config.by == "radix blocks" else config
    )


@pytest.mark.parametrize("is_descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(1,), (2, 37)], ids=str)
@pytest.mark.sample(1, by="dtype")
def test_every_candidate_sorts(
    interpreter: Device, dtype: DType, shape: Any, is_descending: bool, quarter: Any
) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    array = many_equals(dtype, shape)
    want = tensor(array).argsort(-1, descending=is_descending).numpy()
    x = tensor(array, device=interpreter)._handle
    axis = len(shape) - 1

    # Wide digits are tried on machines: the interpreter takes long over so many counters.
    found = [c for c in candidates(rows_of(x), Key(dtype, False), GPU) if c.digit_bits < 8]
    assert {c.by for c in found} >= {"rank", "bitonic", "radix", "radix blocks"}
    for config in quarter({*map(small_blocks, found)}):
        got = argsort_axis(backend.launcher, x, axis, descending=is_descending, config=config)
        np.testing.assert_array_equal(backend.download(got), want, str(config))


@pytest.mark.parametrize(
    ("machine", "size", "dtype", "by"),
    [
        (CPU, 16, float32, "rank"), (CPU, 1024, float32, "radix"),
        (CPU, 1 << 20, float32, "radix blocks"), (CPU, 64, float64, "radix"),
        (GPU, 16, float32, "bitonic"), (GPU, 2048, float32, "bitonic"),
        (GPU, 2049, float32, "radix blocks"),
    ],
)  # fmt: skip
def test_a_config_follows_the_length_and_the_machine(
    machine: Machine, size: int, dtype: DType, by: str
) -> None:
    rows = Rows((4,), size, Layout(dtype, (size, 1)))

    assert select(rows, Key(dtype, False), machine).by == by


def test_what_a_workgroup_or_a_thread_keeps_fits() -> None:
    for size in (2, 2048, 4096, 8192):
        rows = Rows((4,), size, Layout(int64, (size, 1)))
        for config in candidates(rows, Key(int64, False), GPU):
            assert config.by != "bitonic" or config.width * 12 <= 1 << 14
            assert config.by != "radix" or 2 * size * 12 <= 1 << 17
            if config.by == "radix blocks" and config.workgroup_size > 1:
                lanes, items = config.workgroup_size, config.width // config.workgroup_size
                assert shared_bytes(uint64, lanes, items, config.digit_bits) <= 1 << 14


# ---- on machines ----


@pytest.fixture(scope="module", params=["cpu", "wgpu"])
def machine(request: pytest.FixtureRequest) -> Device:
    if problem := device_problem(request.param):
        pytest.skip(f"device does not work here: {problem}")
    return device(request.param)


#: One more and one less than what a network, a row's memory and a block hold.
BORDERS = (0, 1, 2, 63, 65, 2047, 2048, 2049, 4097, (1 << 16) - 1, (1 << 16) + 1)


@pytest.mark.parametrize("size", BORDERS)
@pytest.mark.sample(5, of={"machine": "wgpu"})
def test_rows_of_any_length_are_sorted_on_machines(machine: Device, size: int) -> None:
    for is_descending in (False, True):
        array = many_equals(float32, (2, size), seed=size)
        array[:, ::3] = np.random.default_rng(size).normal(size=array[:, ::3].shape)
        got = tensor(array, device=machine).argsort(1, descending=is_descending)
        want = tensor(array).argsort(1, descending=is_descending)

        np.testing.assert_array_equal(got.numpy(), want.numpy())


@given(
    st.integers(1, 300), st.integers(1, 3), st.integers(0, 2), st.booleans(), st.integers(0, 999),
    st.sampled_from(DTYPES),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_any_axis_of_any_layout_is_sorted_on_the_cpu(
    size: int, others: int, axis: int, is_descending: bool, seed: int, dtype: DType
) -> None:
    if problem := device_problem("cpu"):
        pytest.skip(f"device does not work here: {problem}")
    shape = [others, others + 1]
    shape.insert(axis, size)
    array = many_equals(dtype, tuple(shape[::-1]), seed)
    got, want = (
        tensor(array, device=name).permute_dims((2, 1, 0)).argsort(axis, descending=is_descending)
        for name in ("cpu", "numpy")
    )

    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_what_is_made_of_sorting_is_numpys(machine: Device) -> None:
    array = many_equals(float32, (3, 500))
    labels = np.random.default_rng(0).integers(0, 50, 3000).astype(np.int32)
    x, y = tensor(array, device=machine), tensor(labels, device=machine)

    np.testing.assert_array_equal(x.sort(1).numpy(), np.sort(array, 1))
    values, places = x.topk(7, 1)
    np.testing.assert_array_equal(values.numpy(), tensor(array).topk(7, 1)[0].numpy())
    np.testing.assert_array_equal(places.numpy(), tensor(array).topk(7, 1)[1].numpy())
    found = y.unique_all()
    for got, want in zip(found, np.unique_all(labels), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(y.bincount().numpy(), np.bincount(labels))
