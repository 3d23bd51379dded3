"""Writes go in the order that the reference states, whoever keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.copy import as_tensor, dense
from pyrite.backend.cube.skeleton.scatter import Writes, write
from pyrite.backend.cube.skeleton.scatter.atomic import atomic_dtype, atomic_of
from pyrite.backend.cube.skeleton.scatter.config import (
    Problem,
    ScatterConfig,
    candidates,
    select,
)
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.op.rule import ADD, COLLISIONS, Collision
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.memory import contents
from pyrite.types import FLOATS, INTEGERS, Array, bool_, int32

DTYPES = (bool_, *INTEGERS, *FLOATS)
GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


@pytest.mark.parametrize("reduction", ["assign", "add", "mul", "min", "max"])
@pytest.mark.parametrize("config", candidates(Problem(1, 1, 1), GPU), ids=lambda c: c.by)
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


@pytest.mark.parametrize("last", [16, 31, 64, 133])
@pytest.mark.parametrize("outer", [(), (3,)])
@pytest.mark.parametrize("reduction", ["assign", "add", "max"])
def test_neighbouring_lines_are_written_together_and_in_order(
    last: int, outer: tuple[int, ...], reduction: Any
) -> None:
    """As many as fill a line of a cache, on a processor; the last group may be smaller."""
    rng = np.random.default_rng(last)
    lines = (*outer, last)
    x, updates = (
        (rng.normal(size=s) * 10.0 ** rng.integers(-4, 4, s)).astype(np.float32)
        for s in ((7, *lines), (50, *lines))
    )
    indices = rng.integers(-7, 7, (50, *lines)).astype(np.int32)
    found = tensor(x, device="cpu").scatter(
        0, tensor(indices, device="cpu"), tensor(updates, device="cpu"), reduction=reduction
    )
    flat = (x.reshape(7, -1), indices.reshape(50, -1), updates.reshape(50, -1))
    np.testing.assert_array_equal(found.numpy(), one_by_one(*flat, reduction).reshape(7, *lines))


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
    ("machine", "problem", "by"),
    [
        (CPU, Problem(1000, 1, 10), "line"), (GPU, Problem(1000, 8192, 768_000), "line"),
        (GPU, Problem(1000, 768, 768_000), "segment"), (GPU, Problem(9, 1, 9), "element"),
        (GPU, Problem(9, 1, 9, is_atomic=True), "atomic"),
        (CPU, Problem(9, 1, 9, is_atomic=True), "line"),
        (GPU, Problem(1 << 20, 1, 1000, is_atomic=True, has_identity=True), "shared"),
        (GPU, Problem(1 << 20, 2, 1000, is_atomic=True, has_identity=True), "atomic"),
        (GPU, Problem(1 << 20, 1, 5000, is_atomic=True, has_identity=True), "atomic"),
        (GPU, Problem(1 << 13, 1, 1000, is_atomic=True, has_identity=True), "atomic"),
        (GPU, Problem(9, 1, 9, is_assigned=True), "element"),
        (GPU, Problem(1000, 1, 100, is_assigned=True), "atomic"),
        (GPU, Problem(1000, 1, 100_000, is_assigned=True), "segment"),
    ],
)  # fmt: skip
def test_who_keeps_the_order_depends_on_the_lines(
    machine: Machine, problem: Problem, by: Any
) -> None:
    assert select(problem, machine).by == by


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("reduction", ["assign", "add", "min", "max"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "own"])
def test_atomics_of_integers_keep_no_order_and_need_none(
    fresh: Device, reduction: Any, dtype: Any, is_shared: bool
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(0)
    # Sums of these wrap around.
    x, updates = (rng.integers(0, 2**31, s).astype(dtype) for s in ((5, 3), (40, 3)))
    indices = rng.integers(-5, 5, (40, 1 if is_shared else 3)).astype(np.int32)
    want = tensor(x).scatter(0, tensor(indices), tensor(updates), reduction=reduction).numpy()
    given, values = (tensor(a, device=fresh)._handle for a in (indices, updates))
    start = tensor(x, device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    stretched = given.broadcast_to((40, 3))
    writes = Writes(40, (3,), [stretched], [(0, ())], values, COLLISIONS[reduction], "outside")
    write(backend.launcher, writes, target, ScatterConfig("atomic"))

    np.testing.assert_array_equal(backend.download(target), want)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("reduction", ["add", "min", "max"])
@pytest.mark.parametrize("parts", [1, 3])
def test_copies_that_workgroups_share_are_joined(
    fresh: Device, parts: int, reduction: Any, dtype: str
) -> None:
    """Places of two axes and updates seen from their ends, in steps of two; some are outside."""
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(parts)
    # Sums of these wrap around.
    x, updates = (rng.integers(0, 2**31, s).astype(dtype) for s in ((5, 7), (700,)))
    rows, columns = (rng.integers(-n, n + 1, 700).astype(np.int32) for n in x.shape)
    given = [tensor(a, device=fresh)[::-2]._handle for a in (rows, columns, updates)]
    start = tensor(x, device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    writes = Writes(350, (), given[:2], [(0, ()), (1, ())], given[2], COLLISIONS[reduction], "out")
    write(backend.launcher, writes, target, ScatterConfig("shared", 256, parts))

    want = x.copy()
    for row, column, update in zip(rows[::-2], columns[::-2], updates[::-2], strict=True):
        if row < 5 and column < 7:
            want[row, column] = IN_ORDER[reduction](want[row, column], update)
    with pytest.raises(IndexRangeError, match="out"):
        backend.synchronize()
    np.testing.assert_array_equal(backend.download(target), want)


def test_many_counts_of_few_numbers_are_made_in_copies_on_a_gpu() -> None:
    """On the interpreter, which has GPUs' kernels and checks each access."""
    device = Device(CubeBackend(InterpreterRuntime(Machine.gpu())))
    x = np.random.default_rng(0).integers(-1, 4, 20_000).astype(np.int32)
    assert select(Problem(len(x), 1, 3, is_atomic=True, has_identity=True), GPU).by == "shared"

    counts = tensor(x, device=device).bincount(size=3)

    np.testing.assert_array_equal(counts.numpy(), [(x == n).sum() for n in range(3)])


def test_only_one_instruction_of_integers_is_atomic() -> None:
    assert [name for name, c in COLLISIONS.items() if atomic_of(c, int32)] == ["add", "min", "max"]
    assert atomic_of(Collision(lambda k, old, new: new + old), int32) == "add"
    assert atomic_of(Collision(lambda k, old, new: old + old), int32) is None
    assert atomic_of(Collision(lambda k, old, new: old - new), int32) is None
    assert [d for d in DTYPES if atomic_dtype(d) is None] == [
        d for d in DTYPES if d.is_float or d.bits == 64
    ]


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


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "bool"])
@pytest.mark.parametrize("reduction", ["add", "min", "max"])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_of_integers_are_joined(
    fresh: Device, parts: int, reduction: Any, dtype: str
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(parts)
    # Sums of these wrap around; places and updates are seen from their ends, in steps of two.
    met = "int32" if dtype == "bool" else dtype
    highest = np.iinfo(met).max
    x, updates = (rng.integers(0, highest, s).astype(met) for s in ((5, 3), (80, 3)))
    indices = rng.integers(-5, 6, (80, 3)).astype(np.int32)
    given, values = (tensor(a, device=fresh)[::-2]._handle for a in (indices, updates))
    start = tensor(x, device=fresh)
    target = dense(backend.launcher, start._handle, start._type)
    writes = Writes(40, (3,), [given], [(0, ())], values, COLLISIONS[reduction])
    write(backend.launcher, writes, target, ScatterConfig("part", parts=parts))

    want = x.copy()
    for (row, column), at in np.ndenumerate(indices[::-2]):
        if -5 <= at < 5:
            old, new = want[at, column], updates[::-2][row, column]
            with np.errstate(over="ignore"):
                want[at, column] = IN_ORDER[reduction](old, new)
    np.testing.assert_array_equal(backend.download(target), want)


# ---- sums of floats in tiles ----


def tiled(lanes: int = 64, parts: int = 1, chunk: int = 256) -> ScatterConfig:
    return ScatterConfig("tile", chunk, parts, lanes)


def in_tiles(
    device: Device, x: Array, indices: list[Array], updates: Array, config: ScatterConfig
) -> Array:
    """The base with updates added in tiles, all seen from their ends in steps of two."""
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    given = [tensor(a, device=device)[::-2]._handle for a in (*indices, updates)]
    start = tensor(x, device=device)
    target = dense(backend.launcher, start._handle, start._type)
    reads = [(n, ()) for n in range(len(indices))]
    count = given[-1].shape[0]
    writes = Writes(count, (), given[:-1], reads, given[-1], ADD, "an index outside")
    write(backend.launcher, writes, target, config)
    return backend.download(target)


@pytest.mark.parametrize("lanes", [64, 128])
@pytest.mark.parametrize("count", [1, 2, 513, 2600])
def test_one_part_of_tiles_adds_floats_in_their_order(
    fresh: Device, count: int, lanes: int
) -> None:
    """Places of two axes, some of which nobody writes to, one of which many do."""
    rng = np.random.default_rng(count)
    x, updates = (
        (rng.normal(size=s) * 10.0 ** rng.integers(-4, 4, s)).astype(np.float32)
        for s in ((5, 7), (count,))
    )
    rows, columns = (np.minimum(rng.integers(-n, 3 * n, count), 2).astype(np.int32) for n in (5, 7))

    got = in_tiles(fresh, x, [rows, columns], updates, tiled(lanes))

    want = x.copy()
    for row, column, update in zip(rows[::-2], columns[::-2], updates[::-2], strict=True):
        want[row, column] += update
    np.testing.assert_array_equal(got, want)


def test_parts_of_tiles_are_added_in_their_order(fresh: Device) -> None:
    rng = np.random.default_rng(0)
    lanes, parts, size = 64, 3, 64 * 8
    x, updates = (rng.normal(size=s).astype(np.float32) for s in (9, 2 * 5 * size))
    indices = rng.integers(0, 9, 2 * 5 * size).astype(np.int32)

    got = in_tiles(fresh, x, [indices], updates, tiled(lanes, parts))

    # Five tiles: two, two and one.
    copies = np.full((parts, 9), -0.0, np.float32)
    copies[0] = x
    for n, (at, update) in enumerate(zip(indices[::-2], updates[::-2], strict=True)):
        copies[n // (2 * size), at] += update
    want = copies[0]
    for copy in copies[1:]:
        want = want + copy
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("parts", [1, 4])
def test_tiles_leave_what_nobody_writes_to_as_it_is(fresh: Device, parts: int) -> None:
    x = np.array([-0.0, 0.0, np.nan, np.inf, 1.0], np.float32)
    indices, updates = np.full(40, 4, np.int32), np.full(40, -0.0, np.float32)

    got = in_tiles(fresh, x, [indices], updates, tiled(parts=parts))

    np.testing.assert_array_equal(got.view(np.uint32), x.view(np.uint32))


@pytest.mark.parametrize("parts", [1, 2])
def test_tiles_drop_what_is_outside_and_raise(fresh: Device, parts: int) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    indices = np.array([0, 9, 3, 9, -4, 9, 1, 9], np.int32)[::-1].copy()
    updates = np.arange(8, dtype=np.float32)[::-1].copy()

    got = in_tiles(fresh, np.zeros(3, np.float32), [indices], updates, tiled(parts=parts))

    with pytest.raises(IndexRangeError, match="an index outside"):
        backend.synchronize()
    np.testing.assert_array_equal(got, [0, 6, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_many_sums_of_floats_at_few_places_are_made_in_tiles_on_a_gpu(dtype: str) -> None:
    """On the interpreter, which has GPUs' kernels and checks each access."""
    device = Device(CubeBackend(InterpreterRuntime(Machine.gpu())))
    rng = np.random.default_rng(1)
    x = rng.integers(-1, 4, 3000).astype(np.int32)
    weights = tensor(rng.integers(-3, 4, 3000).astype(np.float32)).astype(dtype)
    assert select(Problem(3000, 1, 3, adds_floats=True), Machine.gpu()).by == "tile"

    sums = tensor(x, device=device).bincount(tensor(weights.numpy(), device=device), size=3)

    whole = weights.astype("float32").numpy()
    want = np.array([whole[x == n].sum() for n in range(3)], np.float32)
    rounded = tensor(want).astype(dtype).astype("float32").numpy()
    np.testing.assert_array_equal(sums.astype("float32").numpy(), rounded)
    assert sums.dtype.name == dtype


@pytest.mark.parametrize(
    ("problem", "by"),
    [
        (Problem(1 << 20, 1, 1000, adds_floats=True), "tile"),
        (Problem(1 << 20, 1, 5000, adds_floats=True), "segment"),
        (Problem(1 << 20, 2, 1000, adds_floats=True), "segment"),
        (Problem(1 << 20, 1, 1000), "segment"),
        (Problem(200, 1, 1 << 14, adds_floats=True), "line"),
    ],
)  # fmt: skip
def test_tiles_are_for_one_line_of_few_places(problem: Problem, by: str) -> None:
    assert select(problem, GPU).by == by
