"""Writes go in the order that the reference states, whoever keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.elementwise import as_tensor, dense
from pyrite.backend.cube.skeleton.scatter import Writes, write
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig, candidates, select
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.op.rule import ADD, COLLISIONS
from pyrite.tensor.creation import tensor
from pyrite.testing.memory import contents
from pyrite.types import Array

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


@pytest.mark.parametrize("reduction", ["assign", "add", "mul", "min", "max"])
@pytest.mark.parametrize("config", candidates(1, 1, 1, GPU), ids=lambda c: c.by)
def test_every_candidate_writes_in_order(
    fresh: Device, config: ScatterConfig, reduction: Any
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(0)
    # Sums of these depend on their order.
    x, updates = (
        (rng.normal(size=s) * 10.0 ** rng.integers(-4, 4, s)).astype(np.float32)
        for s in ((4, 3), (50, 3))
    )
    indices = rng.integers(-4, 4, (50, 3)).astype(np.int32)
    want = one_by_one(x, indices, updates, reduction)
    given, values = (tensor(a, device=fresh)._handle for a in (indices, updates))
    start = tensor(x, device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    writes = Writes(50, (3,), [given], [(0, ())], values, COLLISIONS[reduction], "outside")
    write(backend.launcher, writes, target, config)

    np.testing.assert_array_equal(backend.download(target), want)


def one_by_one(x: Array, indices: Array, updates: Array, reduction: str) -> Array:
    """What comes of writes in the order of the updates, each rounded: the reference rounds once."""
    found = x.copy()
    for row, column in np.ndindex(*indices.shape):
        at = indices[row, column], column
        found[at] = IN_ORDER[reduction](found[at], updates[row, column])
    return found


IN_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda _, update: update,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_rounded_once(interpreter: Device, dtype: str) -> None:
    x = tensor(np.full(1, 1.0, np.float32), device=interpreter).astype(dtype)
    index = tensor(np.zeros(64, np.int32), device=interpreter)

    # One by one, each of them would be lost.
    assert x.scatter(0, index, 2.0**-12, reduction="add").astype("float32").tolist() == ([1.015625])


def test_a_write_outside_is_dropped_and_raised(fresh: Device) -> None:
    x = tensor(np.zeros((2, 2), np.float32), device=fresh)
    index = tensor(np.array([[0], [5]], np.int32), device=fresh)
    written = x.scatter(1, index, 1.0)

    with pytest.raises(IndexRangeError, match=r"scatter requires -2 <= index < 2 on axis 1"):
        written.numpy()
    assert contents(written).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("machine", "writes", "lines", "elements", "by"),
    [
        (CPU, 1000, 1, 10, "line"), (GPU, 1000, 8192, 768_000, "line"),
        (GPU, 1000, 768, 768_000, "segment"), (GPU, 9, 1, 9, "element"),
    ],
)  # fmt: skip
def test_who_keeps_the_order_depends_on_the_lines(
    machine: Machine, writes: int, lines: int, elements: int, by: Any
) -> None:
    assert select(writes, lines, elements, machine).by == by


def test_a_number_is_a_tensor_of_its_own(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(np.ones(2, np.float32), device=fresh)._handle

    assert as_tensor(backend.launcher, x) is x


@pytest.mark.parametrize("reduction", ["assign", "add", "mul", "min", "max"])
@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "own"])
def test_segments_of_any_length_are_cut_and_joined(
    fresh: Device, chunk: int, reduction: Any, is_shared: bool
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(chunk)
    x, updates = (rng.integers(-3, 4, s).astype(np.int32) for s in ((5, 3), (40, 3)))
    # Long segments, segments of one, and a place that nobody writes to.
    indices = np.minimum(rng.integers(0, 30, (40, 1 if is_shared else 3)), 3).astype(np.int32)
    want = tensor(x).scatter(0, tensor(indices), tensor(updates), reduction=reduction).numpy()
    given, values = (tensor(a, device=fresh)._handle for a in (indices, updates))
    start = tensor(x, device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    stretched = given.broadcast_to((40, 3))
    writes = Writes(40, (3,), [stretched], [(0, ())], values, COLLISIONS[reduction], "outside")
    write(backend.launcher, writes, target, ScatterConfig("segment", chunk))

    np.testing.assert_array_equal(backend.download(target), want)


def test_writes_outside_are_dropped_by_segments_too(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    indices = tensor(np.array([0, 7, -1, 0], np.int32), device=fresh)._handle
    values = tensor(np.array([1, 2, 4, 8], np.float32), device=fresh)._handle
    start = tensor(np.zeros(2, np.float32), device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    writes = Writes(4, (), [indices], [(0, ())], values, ADD, "an index outside")
    write(backend.launcher, writes, target, ScatterConfig("segment", 2))

    with pytest.raises(IndexRangeError, match="an index outside"):
        backend.synchronize()
    np.testing.assert_array_equal(backend.download(target), [9, 4])
