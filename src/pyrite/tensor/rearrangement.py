"""Rearrangements made of movement: repeating, rolling, padding, windows, triangles and diagonals.

All but two are compositions of slices and concatenations, so their gradients are too.  ``band`` and
``sliding_window`` are primitives, each its own transpose or with one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from pyrite.errors import ArgumentError, AxisError, ShapeError
from pyrite.op import Attributes, TensorBase, composite, primitive, public, sample
from pyrite.op.index import Bound, coordinate, identity, windowed
from pyrite.op.rule import Adjoint, Map, Piece, View
from pyrite.tensor.joining import Joining, concat
from pyrite.types import (
    Number,
    Shape,
    TensorType,
    normalize_axes,
    normalize_axis,
    normalize_shape,
)

PadMode = Literal["constant", "reflect", "edge", "circular"]
PadWidths = int | Sequence[tuple[int, int]]


def _matrices(op: str) -> Any:
    def infer(x: TensorType, **attrs: Any) -> TensorType:
        if x.ndim < 2:
            raise ShapeError(f"{op} requires at least 2 axes, got shape {x.shape}")
        return x

    return infer


def _keep_band(x: Any, *, low: int | None, high: int | None) -> Any:
    offset = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    kept = np.full(offset.shape, True)
    if low is not None:
        kept &= offset >= low
    if high is not None:
        kept &= offset <= high
    return np.where(kept, x, np.zeros((), x.dtype))


def _band_pieces(x: Shape, *, low: int | None, high: int | None) -> list[Piece]:
    """Return x, where its diagonals are."""
    diagonal = coordinate(len(x) - 1) - coordinate(len(x) - 2)
    return [Piece(identity(x).masked(Bound(diagonal, low, None if high is None else high + 1)))]


def _window_axis(x: TensorType, *, axis: int, size: int, step: int) -> Attributes:
    along = normalize_axis("sliding_window", axis, x.ndim)
    if not (step >= 1 and 0 <= size <= x.shape[along]):
        raise ShapeError(
            f"sliding_window requires 0 <= size <= {x.shape[along]} and step >= 1, got size {size} "
            f"and step {step}"
        )
    return {"axis": along, "size": size, "step": step}


def _window_count(n: int, size: int, step: int) -> int:
    return (n - size) // step + 1


def _windowed(x: TensorType, *, axis: int, size: int, step: int) -> TensorType:
    count = _window_count(x.shape[axis], size, step)
    return TensorType((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)


def _windows(x: Any, *, axis: int, size: int, step: int) -> Any:
    count = _window_count(x.shape[axis], size, step)
    index = np.arange(count)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(x, index, axis), axis + 1, -1)


def _overlap_added(windows: Any, *, axis: int, length: int, step: int) -> Any:
    count, size = windows.shape[axis], windows.shape[-1]
    out = np.zeros((*windows.shape[:axis], length, *windows.shape[axis + 1 : -1]), windows.dtype)
    places = np.moveaxis(out, axis, 0)
    parts = np.moveaxis(windows, axis, 0)
    for i in range(size):
        places[i : i + count * step : step][:count] += parts[..., i]
    return out


def _overlap_type(windows: TensorType, *, axis: int, length: int, step: int) -> TensorType:
    shape = windows.shape
    count = _window_count(length, shape[-1], step)
    if windows.ndim < 2 or shape[axis] != count:
        raise ShapeError(f"overlap_add requires {count} windows on axis {axis}, got shape {shape}")
    return TensorType((*shape[:axis], length, *shape[axis + 1 : -1]), windows.dtype)


def _roll_attributes(x: TensorType, *, shift: Any, axis: Any) -> Attributes:
    axes = normalize_axes("roll", axis, x.ndim)
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll requires a shift per axis, got {shifts} for axes {given}")
    by_axis = {a % x.ndim: s for a, s in zip(given, shifts, strict=True)}
    return {"shift": tuple(by_axis[a] % max(x.shape[a], 1) for a in axes), "axis": axes}


WINDOWS = View(windowed)


def _windows_of_sum(windows: Shape, *, axis: int, length: int, step: int) -> dict[str, Any]:
    return {"axis": axis, "size": windows[-1], "step": step}


def _band_within(x: TensorType, *, low: int | None, high: int | None) -> Attributes:
    """Return a band whose ends lie at most one diagonal outside of the matrix."""
    if x.ndim < 2:
        return {"low": low, "high": high}
    rows, columns = x.shape[-2:]
    within = [None if end is None else max(-rows, min(end, columns)) for end in (low, high)]
    return {"low": within[0], "high": within[1]}


class Rearrangement(Joining):
    """Repeating, rolling, padding, windows, triangles and diagonals."""

    __slots__ = ()

    # ---- triangles and diagonals ----

    @primitive(
        rule=Map(_band_pieces),
        reference=_keep_band,
        canonical=_band_within,
        infer=_matrices("band"),
        vjp=(lambda g, *_, low, high: g._band(low, high),),
        accepts="any",
        samples=(
            sample((3, 4), low=0, high=None),
            sample((2, 3, 3), low=-1, high=1),
            sample((4, 2), low=None, high=-2),
            sample((0, 2), low=0, high=0),
        ),
    )
    def _band(self, /, low: int | None, high: int | None) -> Self:
        """The diagonals low <= column - row <= high of each matrix, zeros elsewhere."""
        ...

    @public
    def triu(self, k: int = 0) -> Self:
        """Return each matrix with zeros below its diagonal k: (..., M, N) -> (..., M, N)."""
        return self._band(k, None)

    @public
    def tril(self, k: int = 0) -> Self:
        """Return each matrix with zeros above its diagonal k: (..., M, N) -> (..., M, N)."""
        return self._band(None, k)

    @public
    def diagonal(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Self:
        """Return the diagonals of the matrices of two axes: (..., M, N) -> (..., K).

        >>> import pyrite
        >>> pyrite.arange(6).reshape(2, 3).diagonal(1).numpy().tolist()
        [1, 5]
        """
        offset = operator.index(offset)
        x = self.moveaxis((axis1, axis2), (-2, -1))
        rows, columns = x.shape[-2:]
        size = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
        start = (offset if offset >= 0 else -offset * columns) if size else 0
        flat = x.reshape((*x.shape[:-2], rows * columns))
        return flat._along(flat.ndim - 1, start, size, columns + 1)

    @public
    def diag(self, offset: int = 0) -> Self:
        """Return the matrices with given diagonals: (..., K) -> (..., K + |offset|, K + |offset|).

        Zeros fill the rest; `diagonal` is its inverse.

        >>> import pyrite
        >>> pyrite.tensor([1, 2]).diag().numpy().tolist()
        [[1, 0], [0, 2]]
        """
        if self.ndim == 0:
            raise ShapeError("diag requires at least 1 axis, got shape ()")
        *batch, size = self.shape
        offset = operator.index(offset)
        side = size + abs(offset)
        start = offset if offset >= 0 else -offset * side
        zeros: Any = False if self.dtype.is_bool else 0
        flat: Self = type(self)._slice_update(
            zeros,
            self,
            shape=(*batch, side * side),
            start=(0,) * len(batch) + (start if size else 0,),
            size=self.shape,
            step=(1,) * len(batch) + (side + 1,),
        )
        return flat.reshape((*batch, side, side))

    # ---- again and around ----

    @public
    def repeat(
        self, repeats: int | Self, axis: int | None = None, *, size: int | None = None
    ) -> Self:
        """Return it with each element repeated along an axis; None flattens it first.

        A tensor of repeats has one for each element, or one for all; the device is waited for,
        unless ``size`` gives the size of the result: what is more is cut off, and what is less
        filled up with the last element.  `tile` repeats the whole instead, as PyTorch's and
        Burn's ``repeat`` do.

        >>> import pyrite
        >>> pyrite.tensor([1, 2]).repeat(2).numpy().tolist()
        [1, 1, 2, 2]
        >>> pyrite.tensor([1, 2]).repeat(pyrite.tensor([0, 3])).numpy().tolist()
        [2, 2, 2]
        """
        if isinstance(repeats, TensorBase):
            every: Any = self.flatten() if axis is None else self
            repeated: Self = every._repeat_each(repeats, 0 if axis is None else axis, size=size)
            return repeated
        if size is not None:
            raise ArgumentError("repeat requires a tensor of repeats beside size, got an int")
        if repeats < 0:
            raise ArgumentError(f"repeat requires repeats >= 0, got {repeats}")
        if axis is None:
            return self.flatten().repeat(repeats, 0)
        along = normalize_axis("repeat", axis, self.ndim)
        before, n, after = self.shape[:along], self.shape[along], self.shape[along + 1 :]
        stretched = self.expand_dims(along + 1).broadcast_to((*before, n, repeats, *after))
        return stretched.reshape((*before, n * repeats, *after))

    @public
    def tile(self, repetitions: int | Sequence[int]) -> Self:
        """Return it repeated as a whole, so many times along each of the last axes.

        >>> import pyrite
        >>> pyrite.tensor([1, 2]).tile((2, 2)).numpy().tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        times = normalize_shape("tile", repetitions)
        ndim = max(self.ndim, len(times))
        times = (1,) * (ndim - len(times)) + times
        shape = (1,) * (ndim - self.ndim) + self.shape
        split = tuple(s for n in shape for s in (1, n))
        stretched = tuple(s for pair in zip(times, shape, strict=True) for s in pair)
        whole = tuple(t * n for t, n in zip(times, shape, strict=True))
        return self.reshape(split).broadcast_to(stretched).reshape(whole)

    @public
    def roll(self, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Self:
        """Return it with elements shifted along axes, those that fall off coming in at the front.

        With axis None it is rolled as one flat row.

        >>> import pyrite
        >>> pyrite.arange(4).roll(1).numpy().tolist()
        [3, 0, 1, 2]
        """
        if axis is None:
            return self.flatten()._roll(shift, 0).reshape(self.shape)
        return self._roll(shift, axis)

    @composite(
        canonical=_roll_attributes,
        vjp=(lambda g, *_, shift, axis: g._roll(tuple(-s for s in shift), axis),),
        samples=(
            sample((5,), shift=2, axis=0),
            sample((3, 4), shift=(-1, 5), axis=(1, 0)),
            sample((0, 2), shift=1, axis=0),
        ),
    )
    def _roll(self, /, shift: int | Sequence[int], axis: int | Sequence[int]) -> Self:
        """Element i of each axis comes from element i - shift, modulo the size."""
        assert not isinstance(shift, int)
        assert not isinstance(axis, int)
        rolled = self
        for along, by in zip(axis, shift, strict=True):
            keep = rolled.shape[along] - by
            if by:
                tail, head = rolled._along(along, keep, by), rolled._along(along, 0, keep)
                rolled = concat([tail, head], along)
        return rolled

    @public
    def rot90(self, turns: int = 1, axes: tuple[int, int] = (0, 1)) -> Self:
        """Return it turned by 90 degrees in a plane of two axes, from the first to the second."""
        if len(axes) != 2:
            raise AxisError(f"rot90 requires two axes, got axes={axes}")
        first, second = (normalize_axis("rot90", axis, self.ndim) for axis in axes)
        if first == second:
            raise AxisError(f"rot90 requires two distinct axes, got axes={axes}")
        match operator.index(turns) % 4:
            case 1:
                return self.flip(second).swap_axes(first, second)
            case 2:
                return self.flip((first, second))
            case 3:
                return self.swap_axes(first, second).flip(second)
        return self

    # ---- padding ----

    @public
    def pad(self, widths: PadWidths, mode: PadMode = "constant", value: Number = 0) -> Self:
        """Return it with elements added before and after, on each axis.

        ``widths`` is one int for both sides of every axis, or pairs (before, after) for the last
        axes.  "constant" adds ``value``, "edge" repeats the outermost element, "reflect" mirrors
        around it (widths less than the size), "circular" continues at the other end (at most the
        size).
        Raises ShapeError where an axis is too short for the mode.

        >>> import pyrite
        >>> pyrite.tensor([1, 2, 3]).pad([(2, 1)], mode="reflect").numpy().tolist()
        [3, 2, 1, 2, 3, 2]
        """
        pairs = _pairs(widths, self.ndim)
        if mode == "constant":
            return self._pad_constant(pairs, value)
        if mode not in _PADDING:
            known = ", ".join(("constant", *_PADDING))
            raise ArgumentError(f"pad requires a mode of {known}, got {mode!r}")
        padded = self
        for axis, (before, after) in enumerate(pairs):
            if before or after:
                _require_room(mode, self.shape[axis], max(before, after), axis)
                padded = _PADDING[mode](padded, axis, before, after)
        return padded

    def _pad_constant(self, pairs: list[tuple[int, int]], value: Number) -> Self:
        size = self.shape
        background: Any = bool(value) if self.dtype.is_bool and value in (0, 1) else value
        padded: Self = type(self)._slice_update(
            background,
            self,
            shape=tuple([b + n + a for n, (b, a) in zip(size, pairs, strict=True)]),
            start=tuple([b if n else 0 for n, (b, _) in zip(size, pairs, strict=True)]),
            size=size,
            step=(1,) * len(size),
        )
        return padded

    # ---- windows ----

    @primitive(
        rule=WINDOWS,
        reference=_windows,
        canonical=_window_axis,
        infer=_windowed,
        vjp=(lambda g, _, x_type, *, axis, step: g._overlap_add(axis, x_type.shape[axis], step),),
        accepts="any",
        samples=(
            sample((7,), axis=0, size=3, step=2),
            sample((2, 5, 3), axis=1, size=2, step=1),
            sample((4,), axis=-1, size=1, step=3),
        ),
    )
    def sliding_window(self, /, axis: int, size: int, step: int = 1) -> Self:
        """Windows along an axis, in a new last axis: window i begins at element i * step.

        There are floor((n - size) / step) + 1.  PyTorch and Burn call it unfold.
        """
        ...

    @primitive(
        rule=Adjoint(WINDOWS, _windows_of_sum),
        reference=_overlap_added,
        accumulates=True,
        infer=_overlap_type,
        vjp=(lambda g, _, x_type, *, axis, step: g.sliding_window(axis, x_type.shape[-1], step),),
        samples=(
            sample((3, 3), axis=0, length=7, step=2),
            sample((2, 4, 3, 2), axis=1, length=5, step=1),
        ),
    )
    def _overlap_add(self, /, axis: int, length: int, step: int) -> Self:
        """The transpose of ``sliding_window``: windows added up at their places."""
        ...


def _pairs(widths: PadWidths, ndim: int) -> list[tuple[int, int]]:
    given = [(widths, widths)] * ndim if isinstance(widths, int) else list(widths)
    if len(given) > ndim or not all(map(_is_pair, given)):
        raise ArgumentError(
            f"pad requires at most {ndim} pairs (before, after) of widths >= 0, got {widths}"
        )
    return [(0, 0)] * (ndim - len(given)) + given


def _is_pair(pair: Any) -> bool:
    # As most are, without a look at abstract classes.
    if pair.__class__ is tuple and len(pair) == 2:
        before, after = pair
        if before.__class__ is after.__class__ is int:
            return bool(before >= 0 and after >= 0)
    is_two = isinstance(pair, Sequence) and len(pair) == 2
    return is_two and all(isinstance(n, int | np.integer) and n >= 0 for n in pair)


def _require_room(mode: str, size: int, width: int, axis: int) -> None:
    most = {"reflect": size - 1, "circular": size, "edge": width if size else -1}[mode]
    if width > most:
        raise ShapeError(
            f"pad requires widths <= {max(most, 0)} on axis {axis} of size {size} in mode "
            f"{mode!r}, got {width}"
        )


def _pad_reflect(x: Any, axis: int, before: int, after: int) -> Any:
    n = x.shape[axis]
    head = x._along(axis, before, before, -1)
    tail = x._along(axis, max(n - 2, 0), after, -1)
    return concat([head, x, tail], axis)


def _pad_circular(x: Any, axis: int, before: int, after: int) -> Any:
    head = x._along(axis, x.shape[axis] - before, before)
    return concat([head, x, x._along(axis, 0, after)], axis)


def _pad_edge(x: Any, axis: int, before: int, after: int) -> Any:
    def repeated(index: int, times: int) -> Any:
        edge = x._along(axis, index, 1)
        return edge.broadcast_to((*x.shape[:axis], times, *x.shape[axis + 1 :]))

    return concat([repeated(0, before), x, repeated(x.shape[axis] - 1, after)], axis)


_PADDING = {"reflect": _pad_reflect, "edge": _pad_edge, "circular": _pad_circular}
