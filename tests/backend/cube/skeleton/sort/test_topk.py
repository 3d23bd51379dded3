"""Every way to the first few of a row gives those of the whole order, equals by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.skeleton.sort import argtopk_axis
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.pruning import PruningConfig
from pyrite.backend.cube.skeleton.sort.row import Rows, rows_of
from pyrite.backend.cube.skeleton.sort.selection import SelectionConfig
from pyrite.backend.cube.skeleton.sort.topk import candidates, select
from pyrite.backend.device import Device, device, device_problem
from pyrite.tensor.creation import tensor
from pyrite.types import DType, bool_, float16, float32, float64, int8, uint64

GPU = Machine("gpu", 4, (64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


def many_equals(dtype: DType, shape: Any) -> Any:
    """Few different values; of floats NaN, infinities and both zeros."""
    rng = np.random.default_rng(0)
    if dtype.is_float:
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -1.5, 300.0])
    else:
        values = np.array([0, 1, int(dtype.lowest), int(dtype.highest)], dtype.numpy)
    return values[rng.integers(0, len(values), shape)].astype(dtype.numpy)


@pytest.mark.parametrize(
    "dtype", [bool_, int8, uint64, float16, float32, float64], ids=lambda d: d.name
)
@pytest.mark.sample(3)
def test_every_candidate_finds_the_first_of_the_order(
    interpreter: Device, dtype: DType, quarter: Any
) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    array = many_equals(dtype, (3, 37))
    x = tensor(array, device=interpreter)._handle
    for is_descending in (False, True):
        want = tensor(array).argsort(-1, descending=is_descending).numpy()
        key = Key(dtype, is_descending)
        for k in (1, 5, 37):
            found = [
                config
                for config in candidates(rows_of(x), key, k, GPU)
                if not isinstance(config, PruningConfig) or config.tile <= 512
            ]
            for config in quarter(found):
                got = argtopk_axis(
                    backend.launcher, x, 1, k, descending=is_descending, config=config
                )
                np.testing.assert_array_equal(backend.download(got), want[:, :k], str(config))


@pytest.mark.parametrize(("k", "turns"), [(1, 2), (3, 3), (7, 3), (16, 4)])
def test_rows_of_many_tiles_take_turns(fresh: Device, k: int, turns: int) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    array = np.random.default_rng(k).integers(0, 99, (2, 1500)).astype(np.int32)
    x = tensor(array, device=fresh)._handle
    before = backend.runtime.report()["launches"]
    got = argtopk_axis(backend.launcher, x, 1, k, config=PruningConfig(32, 64))

    assert backend.runtime.report()["launches"] - before == turns
    np.testing.assert_array_equal(backend.download(got), np.argsort(array, 1, kind="stable")[:, :k])


@pytest.mark.parametrize(
    ("machine", "size", "k", "kind"),
    [
        (CPU, 1024, 8, SelectionConfig), (CPU, 1024, 600, type(None)),
        (CPU, 1 << 20, 8, type(None)), (GPU, 100, 8, type(None)), (GPU, 1000, 8, PruningConfig),
        (GPU, 1 << 20, 8, PruningConfig), (GPU, 1 << 20, 512, PruningConfig),
        (GPU, 1 << 20, 513, type(None)), (GPU, 1000, 400, type(None)),
    ],
)  # fmt: skip
def test_a_config_follows_the_machine_and_how_few_are_wanted(
    machine: Machine, size: int, k: int, kind: type
) -> None:
    rows = Rows((4,), size, Layout(float32, (size, 1)))
    found = select(rows, Key(float32, True), k, machine)

    assert isinstance(found, kind)
    if isinstance(found, PruningConfig):
        assert found.tile * 8 <= 1 << 14
        assert 2 * found.workgroup_size <= found.tile


# ---- on machines ----


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
@pytest.mark.parametrize("size", [255, 256, 2047, 2049, 70_001])
def test_the_first_of_long_rows_are_found_on_machines(name: str, size: int) -> None:
    if problem := device_problem(name):
        pytest.skip(f"device does not work here: {problem}")
    array = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)
    array[:, ::5] = many_equals(float32, array[:, ::5].shape)
    x = tensor(array.T, device=device(name)).T
    for k in (1, 40):
        for largest in (True, False):
            got = x.argtopk(k, 1, largest=largest).numpy()
            want = tensor(array).argtopk(k, 1, largest=largest).numpy()
            np.testing.assert_array_equal(got, want)


def test_none_of_a_row_and_the_first_of_no_rows_are_empty(interpreter: Device) -> None:
    for shape in ((3, 300), (0, 300)):
        x = tensor(np.zeros(shape, np.float32), device=interpreter)
        assert x.argtopk(0, 1).shape == (shape[0], 0)
        assert x.argtopk(2, 1).shape == (shape[0], 2)
