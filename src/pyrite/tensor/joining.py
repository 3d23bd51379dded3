"""Joining tensors along an axis, and parting one again, which is its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Self, TypeVar

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, Op, TensorBase, instead, primitive, public, sample
from pyrite.op.binding import callers
from pyrite.op.calls import each_with_attributes
from pyrite.op.index import Bound, IndexMap, coordinates
from pyrite.op.plan import Form, form_of
from pyrite.op.rule import Map, Piece
from pyrite.tensor.movement import Movement, slice_along
from pyrite.tensor.view import View
from pyrite.types import Shape, TensorType, normalize_axis

T = TypeVar("T", bound="Joining")


#: So many parts of one size are found out once.
MOST_PARTS: Final = 64
_INTEGERS: Final = frozenset({int})
_SEQUENCES: Final = frozenset({list, tuple})


#: What parts tensors of a shape along an axis into parts of a size, by these, with the very shape
#: that was looked at: marked sizes are equal to plain ones, and it takes 0.2 us to tell.
_known: dict[tuple[Shape, int, int], tuple[Shape, Callable[[Any], tuple[Any, ...]]]] = {}
_MOST_KNOWN: Final = 256


def _parted_evenly(shape: Shape, axis: int, size: int) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return what parts a tensor of a shape, kept from now on; None of many parts, or none."""
    if not _INTEGERS.issuperset(map(type, shape)):
        return None
    along = normalize_axis("split", axis, len(shape))
    total = shape[along]
    if not 0 < total <= MOST_PARTS * size:
        return None
    places = [(at, min(size, total - at)) for at in range(0, total, size)]
    parted = each_with_attributes(
        Movement._slice, [slice_along(shape, along, at, count) for at, count in places]
    )
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[shape, axis, size] = shape, parted
    return parted


def _joined_axis(*xs: TensorType, axis: int) -> Attributes:
    return {"axis": normalize_axis("concat", axis, xs[0].ndim)}


def _joined(*xs: TensorType, axis: int) -> TensorType:
    def others(x: TensorType) -> Shape:
        return x.shape[:axis] + x.shape[axis + 1 :]

    first = xs[0]
    for x in xs:
        if x.ndim != first.ndim or others(x) != others(first):
            raise ShapeError(
                f"concat requires shapes that are equal but for axis {axis}, got {first.shape} "
                f"and {x.shape}"
            )
    total = sum(x.shape[axis] for x in xs)
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _pieces(*xs: Shape, axis: int) -> list[Piece]:
    """Return each tensor, where its part of the axis is."""
    shape = (*xs[0][:axis], sum(x[axis] for x in xs), *xs[0][axis + 1 :])
    found, begin = [], 0
    for number, x in enumerate(xs):
        places = list(coordinates(len(shape)))
        places[axis] = places[axis] - begin
        part = IndexMap(shape, x, tuple(places), (Bound(places[axis], 0, x[axis]),))
        found.append(Piece(part, number))
        begin += x[axis]
    return found


def _parted(g: Any, _: None, *x_types: TensorType, axis: int) -> tuple[Any, ...]:
    return tuple(g.split(tuple(x.shape[axis] for x in x_types), axis))


class Joining(View):
    """Joining and parting."""

    __slots__ = ()

    @primitive(
        rule=Map(_pieces),
        reference=lambda *xs, axis: np.concatenate(xs, axis),
        canonical=_joined_axis,
        infer=_joined,
        vjp=_parted,
        accepts="any",
        promotes="all",
        samples=(
            sample((2, 3), (2, 1), axis=1),
            sample((2, 3), (0, 3), (1, 3), axis=-2),
            sample((2,), axis=0),
        ),
    )
    def _concat(*tensors: Any, axis: int) -> Any:
        """Tensors one after the other along an axis."""
        ...

    @public
    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Return consecutive parts along an axis: of one size, or of the sizes given.

        With one size the last part may be smaller.  Raises ShapeError when the sizes do not add up.

        >>> import pyrite
        >>> [part.shape for part in pyrite.zeros((5, 2)).split(2)]
        [(2, 2), (2, 2), (1, 2)]
        """
        shape = self._type.shape
        if type(sizes) is int and type(axis) is int:
            known = _known.get((shape, axis, sizes))
            if known is not None and (known[0] is shape or _INTEGERS.issuperset(map(type, shape))):
                return known[1](self)
            if (parted := _parted_evenly(shape, axis, sizes)) is not None:
                return parted(self)
        along = normalize_axis("split", axis, self.ndim)
        total = self.shape[along]
        if isinstance(sizes, int):
            if sizes < 1:
                raise ArgumentError(f"split requires a size >= 1, got {sizes}")
            parts = [min(sizes, total - i) for i in range(0, total, sizes)] or [0]
        else:
            parts = list(sizes)
        if sum(parts) != total or min(parts, default=0) < 0:
            raise ShapeError(
                f"split requires sizes >= 0 that add up to {total}, got {tuple(parts)}"
            )
        starts = accumulate(parts[:-1], initial=0) if parts else ()
        return tuple(self._along(along, a, n) for a, n in zip(starts, parts, strict=True))

    @public
    def chunk(self, chunks: int, axis: int = 0) -> tuple[Self, ...]:
        """Return at most ``chunks`` consecutive parts of one size; the last may be smaller."""
        if chunks < 1:
            raise ArgumentError(f"chunk requires chunks >= 1, got {chunks}")
        total = self.shape[normalize_axis("chunk", axis, self.ndim)]
        return self.split(max(1, -(-total // chunks)), axis)

    @public
    def unstack(self, axis: int = 0) -> tuple[Self, ...]:
        """Return the n slices along an axis of size n, each without that axis."""
        along = normalize_axis("unstack", axis, self.ndim)
        return tuple(self._along(along, i, 1).squeeze(along) for i in range(self.shape[along]))


@public
def concat(tensors: Sequence[T], axis: int | None = 0) -> T:
    """Return tensors one after the other along an axis; with None each is flattened first.

    Raises ShapeError when sizes of other axes differ.

    >>> import pyrite
    >>> concat([pyrite.zeros((2, 3)), pyrite.ones((1, 3))]).shape
    (3, 3)
    """
    given = _tensors("concat", tensors, axis)
    if axis is None:
        return concat([t.flatten() for t in given])
    return _concatenated(given, axis)


cat = concat


@public
def stack(tensors: Sequence[T], axis: int = 0) -> T:
    """Return tensors of one shape side by side along a new axis of the result.

    >>> import pyrite
    >>> stack([pyrite.zeros((2,)), pyrite.ones((2,))], axis=1).shape
    (2, 2)
    """
    given = _tensors("stack", tensors, axis)
    shape = given[0]._type.shape
    for t in given:
        if t._type.shape != shape:
            raise ShapeError(f"stack requires tensors of one shape, got {shape} and {t.shape}")
    along = normalize_axis("stack", axis, len(shape) + 1)
    return _concatenated([t.expand_dims(along) for t in given], along)


def _concatenated(tensors: Sequence[T], axis: Any) -> T:
    if type(axis) is not int:
        return Joining._concat(*tensors, axis=axis)  # type: ignore[no-any-return]
    return callers[0](_CONCAT, tuple(tensors), *_along(axis))  # type: ignore[no-any-return]


_CONCAT: Final[Op] = Joining._concat.op  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _along(axis: int) -> tuple[Attributes, Form | None]:
    """Return the attributes of a concatenation, and their form: they are sorted once."""
    attributes = {"axis": axis}
    return attributes, form_of(_CONCAT, attributes)


def _tensors(op: str, tensors: Sequence[T], axis: Any) -> Sequence[T]:
    if tensors.__class__ in _SEQUENCES and axis.__class__ is int and tensors:
        for t in tensors:
            if not isinstance(t, TensorBase):
                break
        else:
            return tensors
    if isinstance(axis, TensorBase):
        raise DTypeError(
            f"{op} requires one sequence of tensors, got tensors one by one; put them into a list: "
            f"{op}([x, y])"
        )
    found = list(tensors)
    if not found:
        raise ArgumentError(f"{op} requires at least one tensor, got none")
    for t in found:
        if not isinstance(t, TensorBase):
            raise DTypeError(f"{op} requires tensors, {instead(t)}")
    return found
