"""Random gathers and scatters, by rules that nobody wrote, against NumPy's own indexing.

A place has random entries: coordinates of the point, also more than once or stretched, indices read
at random coordinates from one of two tensors, numbers, and indices that stand for two axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyrite.backend.device import device, device_names, device_problem
from pyrite.op import custom_op
from pyrite.op.rule import ADD, ASSIGN, COLLISIONS, Coordinate, Gather, IndexRead, Scatter
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.types import Array, DType, TensorType, float16, float32, int8, int32, uint8

MAXIMUM = COLLISIONS["max"]
DEVICES = [name for name in device_names() if device_problem(name) is None and name != "candle"]
SEEDS = range(60)
IN_ORDER = {
    ADD: lambda old, new: np.add(old, new, dtype=old.dtype) if old.dtype.kind == "f" else (
        np.asarray(int(old) + int(new)).astype(old.dtype)
    ),
    ASSIGN: lambda old, new: new,
    MAXIMUM: np.maximum,
}  # fmt: skip


@dataclass
class Draw:
    """A random place of points in a shape, and its index tensors."""

    rng: np.random.Generator

    def __post_init__(self) -> None:
        rng = self.rng
        self.points = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 4)))
        self.indices: list[Array] = []
        self.forms: list[tuple[Any, ...]] = []
        self.shape: tuple[int, ...] = ()
        self.entries: list[Any] = []
        for _ in range(int(rng.integers(1, 4))):
            self.add_axis()

    def add_axis(self) -> None:
        rng, kind = self.rng, self.rng.integers(0, 5)
        if kind == 0:
            axis = int(rng.integers(len(self.points)))
            size = 1 if rng.random() < 0.2 else self.points[axis] + int(rng.integers(0, 3))
            self.entries.append(Coordinate(axis))
            self.shape += (size,)
        elif kind == 1:
            size = int(rng.integers(1, 5))
            self.entries.append(int(rng.integers(size)))
            self.shape += (size,)
        else:
            sizes = tuple(int(n) for n in rng.integers(1, 9, 2 if kind == 2 else 1))
            self.entries.append(self.read(sizes))
            self.shape += sizes

    def read(self, sizes: tuple[int, ...]) -> IndexRead:
        """A read of a new index tensor, or of one that another axis reads, if that fits."""
        rng = self.rng
        if len(self.indices) == 2:
            which = int(rng.integers(2))
            bound = int(np.prod(sizes))
            self.indices[which] = np.clip(self.indices[which], -bound, bound - 1)
            return IndexRead(which + 1, self.forms[which], len(sizes))
        axes = rng.permutation(len(self.points))[: rng.integers(1, len(self.points) + 1)]
        at: list[Any] = [Coordinate(int(a)) for a in axes]
        shape = [1 if rng.random() < 0.2 else self.points[int(a)] for a in axes]
        if rng.random() < 0.3:
            at.append(1)
            shape.append(2)
        bound = int(np.prod(sizes))
        dtype = rng.choice([np.int32, np.int8, np.int64])
        self.indices.append(rng.integers(-bound, bound, shape).astype(dtype))
        self.forms.append(tuple(at))
        return IndexRead(len(self.indices), tuple(at), len(sizes))

    def rule(self, first: int) -> Callable[..., Any]:
        """The place as a rule for inputs whose index tensors begin at a position."""

        entries = tuple(self.entries)

        def place(at: Any, index: Any, *_: Any) -> Any:
            return [
                index(*e.at, of=e.input - 1 + first, axes=e.axes) if isinstance(e, IndexRead) else e
                for e in entries
            ]

        return place

    def coordinates(self) -> tuple[Array, ...]:
        """NumPy's index arrays of the places of all points."""
        own = np.indices(self.points)
        found: list[Array] = []
        for entry in self.entries:
            axis = len(found)
            if isinstance(entry, Coordinate):
                found.append(own[entry.axis] if self.shape[axis] > 1 else 0 * own[0])
            elif isinstance(entry, IndexRead):
                given = self.indices[entry.input - 1].astype(np.int64)
                at = [
                    (own[e.axis] if n > 1 else 0) if isinstance(e, Coordinate) else e
                    for e, n in zip(entry.at, given.shape, strict=True)
                ]
                sizes = self.shape[axis : axis + entry.axes]
                flat = np.broadcast_to(given[tuple(at)], self.points) % int(np.prod(sizes))
                found.extend(np.unravel_index(flat, sizes))
            else:
                found.append(0 * own[0] + entry)
        return tuple(found)


def _laid(draw: Draw, values: Array, name: str) -> Tensor:
    layout = list(LAYOUTS.values())[int(draw.rng.integers(8))]
    fits = layout.applies(values.shape) and (layout.name != "channels last" or values.ndim >= 3)
    return layout(values, name) if fits else tensor(values, device=name)


def _has(name: str, *dtypes: DType) -> bool:
    return all(device(name).backend.root.supports(TensorType((), d)) for d in dtypes)


def _drawn(name: str, seed: int) -> Draw:
    draw = Draw(np.random.default_rng(seed))
    if name == "wgpu":
        draw.indices = [i.astype(np.int32) if i.dtype == np.int64 else i for i in draw.indices]
    return draw


@pytest.mark.sample(12, by="name")
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_gather_reads_what_numpy_reads(name: str, seed: int) -> None:
    draw = _drawn(name, seed)
    dtype = (float32, int8, float16, int32)[seed % 4]
    if not _has(name, dtype):
        return
    x = draw.rng.integers(-50, 50, draw.shape).astype(dtype.numpy)
    op = _gather(draw, dtype)
    got = op(_laid(draw, x, name), *(_laid(draw, i, name) for i in draw.indices))
    np.testing.assert_array_equal(got.numpy(), x[draw.coordinates()])


def _gather(draw: Draw, dtype: DType) -> Callable[..., Tensor]:
    rule, type = Gather(draw.rule(1)), TensorType(draw.points, dtype)
    if len(draw.indices) == 2:

        @custom_op(rule=rule, infer=lambda x, i, j: type)
        def two(x: Tensor, i: Tensor, j: Tensor, /) -> Tensor: ...

        return two
    if draw.indices:

        @custom_op(rule=rule, infer=lambda x, i: type)
        def one(x: Tensor, i: Tensor, /) -> Tensor: ...

        return one

    @custom_op(rule=rule, infer=lambda x: type)
    def none(x: Tensor, /) -> Tensor: ...

    return none


@pytest.mark.sample(12, by="name")
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_scatter_writes_what_writes_in_order_do(name: str, seed: int) -> None:
    draw = _drawn(name, seed)
    dtype = (float32, uint8, float16, int32)[seed % 4]
    collision = (ADD, ASSIGN, MAXIMUM)[seed % 3]
    if not _has(name, dtype):
        return
    x, y = (draw.rng.integers(0, 3, s).astype(dtype.numpy) for s in (draw.shape, draw.points))
    want = x.copy()
    places = np.broadcast_arrays(*draw.coordinates())
    for point in np.ndindex(*draw.points):
        at = tuple(p[point] for p in places)
        want[at] = IN_ORDER[collision](want[at], y[point])
    op = _scatter(draw, Scatter(draw.rule(2), collision, base=0, updates=1))
    indices = [_laid(draw, i, name) for i in draw.indices]
    got = op(_laid(draw, x, name), _laid(draw, y, name), *indices)
    np.testing.assert_array_equal(got.numpy(), want)


def _scatter(draw: Draw, rule: Scatter) -> Callable[..., Tensor]:
    if len(draw.indices) == 2:

        @custom_op(rule=rule, infer=lambda x, y, i, j: x)
        def two(x: Tensor, y: Tensor, i: Tensor, j: Tensor, /) -> Tensor: ...

        return two
    if draw.indices:

        @custom_op(rule=rule, infer=lambda x, y, i: x)
        def one(x: Tensor, y: Tensor, i: Tensor, /) -> Tensor: ...

        return one

    @custom_op(rule=rule, infer=lambda x, y: x)
    def none(x: Tensor, y: Tensor, /) -> Tensor: ...

    return none
