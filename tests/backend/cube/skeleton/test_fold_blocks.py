"""Folds along long lines, block by block, are those down their columns, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.fold import blocks
from pyrite.backend.cube.skeleton.fold import launch as launches
from pyrite.backend.device import Device
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime

#: Lines of a block are 32: here are 7 blocks and one line, or 8 whole ones.
LINES = (225, 256)

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "an offset": lambda x: x[:, 1:],
    "lines apart": lambda x: x[:, :19],
    "the other way": lambda x: x[::-1],
    "one line": lambda x: x[:1].broadcast_to(x.shape),
}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the configs by which lines were gone along."""
    found = list[Any]()

    def noted(*args: Any) -> Any:
        config = blocks.blocks_config(*args)
        found.append(config)
        return config

    monkeypatch.setattr(blocks, "LEAST", 8)
    monkeypatch.setattr(blocks, "STRIPE", 24)
    monkeypatch.setattr(launches, "blocks_config", noted)
    return found


def device(cached: int) -> Device:
    machine = replace(Machine.cpu(), cached=cached)
    return Device(CubeBackend(InterpreterRuntime(machine)))


def values(lines: int, columns: int, dtype: Any) -> Any:
    x = np.random.default_rng(0).standard_normal((lines, columns)).astype(np.float32)
    x[3] = x[1]  # a tie
    return pyrite.tensor(x, device="numpy").astype(dtype)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("name", ["sum", "max", "argmax", "prod"])
def test_results_are_those_of_columns(name: str, lines: int, view: str, used: list[Any]) -> None:
    x = values(lines, 27, pyrite.float32)
    far, near = (VIEWS[view](x.to(device(cached))) for cached in (1 << 10, 1 << 20))

    got = getattr(far, name)(0)

    assert used[0] is not None, "the lines are gone along"
    used.clear()
    want = getattr(near, name)(0)
    assert set(used) <= {None}
    assert got.tolist() == want.tolist()
    np.testing.assert_allclose(got.numpy(), getattr(VIEWS[view](x), name)(0).numpy(), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int8", "bool"])
def test_dtypes_are_computed_as_down_columns(dtype: str, used: list[Any]) -> None:
    x = values(225, 27, getattr(pyrite, dtype))

    got = x.to(device(1 << 10)).sum(0)

    assert used[0] is not None
    want = x.to(device(1 << 20)).sum(0)
    assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())


def test_short_lines_and_few_of_them_are_folded_down_columns(used: list[Any]) -> None:
    where = device(1 << 10)

    values(600, 7, pyrite.float32).to(where).sum(0)
    values(64, 27, pyrite.float32).to(where).sum(0)

    assert set(used) == {None}


def test_a_nan_is_in_its_column_alone(used: list[Any]) -> None:
    x = values(225, 27, pyrite.float32).numpy().copy()
    x[100, 5] = np.nan

    found = pyrite.tensor(x, device=device(1 << 10)).sum(0).numpy()

    assert used[0] is not None
    assert np.isnan(found).tolist() == [n == 5 for n in range(27)]
