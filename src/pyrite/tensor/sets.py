"""Sets: where elements are not zero, which values there are, and how often.

How many there are depends on the values, so these ops wait for the device, are counted by
`pyrite.sync_count`, and are errors under `pyrite.no_sync`.  Each has two forms that are not:
``size=`` fixes the number of results, cutting off what is more and filling what is less, and the
``_async`` methods are awaited.

Values are distinct as the array API says: -0.0 equals 0.0, and each NaN is a value of its own.
Positions and counts are int32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import Attributes, bools, composite, distinct, integers, primitive, public, sample
from pyrite.synchronization import asked_by, awaited
from pyrite.tensor.axis import span
from pyrite.tensor.counting import Counting, padded, sized
from pyrite.tensor.sorting import Sorting
from pyrite.tensor.truth import Truth
from pyrite.types import Array, Number, TensorType, default_int, normalize_axis


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


# ---- positions ----


def _axes_needed(x: TensorType, *, size: int | None, fill_value: int) -> Attributes:
    if x.ndim == 0:
        raise ShapeError("nonzero requires at least one axis, got shape (); use argwhere")
    return sized("nonzero")(x, size=size, fill_value=fill_value)


def _argwhere(x: Array) -> Array:
    return np.argwhere(x).astype(np.int32)


def _argwhere_within(x: Array, *, size: int, fill_value: int) -> Array:
    found = np.full((size, x.ndim), fill_value, np.int32)
    positions = np.argwhere(x)[:size]
    found[: len(positions)] = positions
    return found


# ---- unique values ----


class _Groups(NamedTuple):
    """The elements in order, and where among them each run of equal ones starts and ends."""

    ordered: Any
    order: Any
    is_start: Any
    starts: Any
    ends: Any


def _groups(op: str, x: Any, size: int | None) -> _Groups:
    count = x.size
    flat = x.reshape((count,))
    order = flat.argsort()
    ordered = flat.take_along_axis(order, 0)
    is_start = _starts_of(ordered, lambda differs: differs)
    if size is None:
        with asked_by(op):
            starts = is_start.argwhere()
        edges = padded(starts.reshape((-1,)), 0, 1, count)
    else:
        # One more than asked for: where the last run of those that are kept ends.
        edges = is_start.argwhere(size=size + 1, fill_value=count).reshape((size + 1,))
    return _Groups(ordered, order, is_start, span(edges, 0, None, -1), span(edges, 0, 1, None))


def _values(groups: _Groups, fill_value: Number) -> Any:
    # Runs that are not there start one past the end, where the filling stands.
    filling = bool(fill_value) if groups.ordered.dtype.is_bool else fill_value
    return padded(groups.ordered, 0, 1, filling).take_along_axis(groups.starts, 0)


def _first_positions(groups: _Groups) -> Any:
    # The sort is stable: a run begins with the element that came first.
    return padded(groups.order, 0, 1, 0).take_along_axis(groups.starts, 0)


def _inverse(groups: _Groups, shape: tuple[int, ...]) -> Any:
    runs = groups.is_start.cumulative_sum(0) - 1
    return runs.take_along_axis(groups.order.argsort(), 0).reshape(shape)


def _starts_of(ordered: Any, differ: Callable[[Any], Any]) -> Any:
    """Return where a run of equal elements, or rows, starts."""
    differs = differ(span(ordered, 0, 1, None).not_equal(span(ordered, 0, None, -1)))
    return span(padded(differs, 1, 0, True), 0, None, ordered.shape[0])


def _rows(x: Any, axis: int) -> Any:
    """Return the slices along an axis as rows, and the axis counted from the first."""
    moved = x.moveaxis(normalize_axis("unique", axis, x.ndim), 0)
    return moved.reshape((moved.shape[0], math.prod(moved.shape[1:])))


def _filled(x: Any, found: UniqueAll, axis: int, size: int | None, fill_value: Number) -> UniqueAll:
    """Return what is unique among the numbers of slices with the slices as values."""
    axis = normalize_axis("unique", axis, x.ndim)
    if not x.shape[axis] and size:
        raise ShapeError(f"unique requires slices along axis {axis} to fill {size}, got {x.shape}")
    values = x._take(found.indices, axis)
    if size is not None:
        ones = tuple(size if a == axis else 1 for a in range(x.ndim))
        values = found.counts.equal(0).reshape(ones)._where(fill_value, values)
    return found._replace(values=values)


_REPEATED = integers((2, 3), 0, 4)
_SIZED = (
    sample(distinct((4,))),
    sample(_REPEATED),
    sample((0,)),
    sample(distinct(())),
    sample(_REPEATED, size=6),
    sample(_REPEATED, size=2),
    sample((0,), size=2, fill_value=1),
)
_FOUND = (
    sample(bools((2, 3))),
    sample(integers((5,), -1, 2)),
    sample(bools((2, 3)), size=4),
    sample(bools((4,)), size=6, fill_value=-1),
    sample((0, 2)),
)


class Sets(Sorting, Counting, Truth):
    """Positions and unique values."""

    __slots__ = ()

    # ---- positions of what is not zero ----

    @primitive(
        reference=_argwhere,
        vjp=(None,),
        accepts="any",
        sync=True,
        samples=(sample(bools((2, 3))), sample((4,)), sample(bools(()))),
    )
    def _argwhere(self, /) -> Self:
        """Positions of what is not zero, in row-major order: (...) -> (count, ndim)."""
        ...

    @primitive(
        reference=_argwhere_within,
        canonical=sized("argwhere"),
        infer=lambda x, *, size, fill_value: TensorType((size, x.ndim), default_int),
        vjp=(None,),
        accepts="any",
        samples=(
            sample(bools((2, 3)), size=4, fill_value=-1),
            sample((4,), size=2, fill_value=0),
            sample(bools(()), size=2, fill_value=0),
        ),
    )
    def _argwhere_within(self, /, *, size: int, fill_value: int) -> Self:
        """The first of the positions that `argwhere` gives, filled up: (...) -> (size, ndim)."""
        ...

    @public
    def argwhere(self, *, size: int | None = None, fill_value: int = 0) -> Self:
        """Positions of the elements that are not zero, in row-major order.

        Shapes: (...) -> (count, ndim), int32, or (size, ndim) filled with ``fill_value``.  Waits
        for the device unless ``size`` is given.  This is torch's ``nonzero``.

        >>> import pyrite
        >>> pyrite.tensor([[0, 5], [7, 0]]).argwhere().tolist()
        [[0, 1], [1, 0]]
        """
        if size is None:
            return self._argwhere()
        return self._argwhere_within(size=size, fill_value=fill_value)

    @composite(canonical=_axes_needed, vjp=(None,), samples=_FOUND)
    def nonzero(self, /, *, size: int | None = None, fill_value: int = 0) -> tuple[Self, ...]:
        """The columns of `argwhere`, one tensor of positions per axis, as the array API says.

        Shapes: (...) -> ndim times (count,), or ndim times (size,).  Raises ShapeError for ().

        >>> import pyrite
        >>> [axis.tolist() for axis in pyrite.tensor([[0, 5], [7, 0]]).nonzero()]
        [[0, 1], [1, 0]]
        """
        with asked_by("nonzero"):
            positions = self.argwhere(size=size, fill_value=fill_value)
        count = positions.shape[0]
        return tuple(span(positions, 1, i, i + 1).reshape((count,)) for i in range(self.ndim))

    async def argwhere_async(self) -> Self:
        """`argwhere`, awaited: the event loop goes on while the device works."""
        return await awaited(self.argwhere)

    async def nonzero_async(self) -> tuple[Self, ...]:
        """`nonzero`, awaited: the event loop goes on while the device works."""
        return await awaited(self.nonzero)

    # ---- unique values ----

    @composite(
        infer=lambda x: TensorType(x.shape[:1], default_int),
        vjp=(None,),
        samples=(
            sample(integers((5, 2), 0, 2)), sample(bools((4, 3))), sample(distinct((3, 1))),
            sample((0, 2)), sample((3, 0)),
        ),
    )  # fmt: skip
    def _row_numbers(self, /) -> Self:
        """Which of the distinct rows each is, in their lexicographic order: (N, M) -> (N,)."""
        rows, columns = self.shape
        if not rows or not columns:
            return self.any(1).astype("int32") * 0
        # From the last column to the first: each sort is stable, and keeps the order of the others.
        last, *others = reversed(self.unstack(1))
        order = last.argsort()
        for column in others:
            place = column.take_along_axis(order, 0).argsort()
            order = order.take_along_axis(place, 0)
        is_start = _starts_of(self._take(order, 0), lambda differs: differs.any(1))
        runs: Self = is_start.cumulative_sum(0) - 1
        return runs.take_along_axis(order.argsort(), 0)

    @public
    def unique(
        self, axis: int | None = None, *, size: int | None = None, fill_value: Number = 0
    ) -> Self:
        """Return `unique_values`, or with an axis the distinct slices along it, in order.

        Shapes: (...) -> (count,), or (..., N, ...) -> (..., count, ...).  Slices are ordered as
        words are, by their first element that differs, as in NumPy.  Waits for the device unless
        ``size`` is given; `unique_all` and its kin take the axis too.

        >>> import pyrite
        >>> pyrite.tensor([[2, 1], [1, 3], [2, 1]]).unique(0).tolist()
        [[1, 3], [2, 1]]
        """
        if axis is None:
            return self.unique_values(size=size, fill_value=fill_value)
        found: Self = self.unique_all(axis, size=size, fill_value=fill_value).values
        return found

    @composite(canonical=sized("unique_values"), samples=_SIZED)
    def unique_values(self, /, *, size: int | None = None, fill_value: Number = 0) -> Self:
        """The distinct elements in ascending order.  Shapes: (...) -> (count,) or (size,).

        Waits for the device unless ``size`` is given.

        >>> import pyrite
        >>> pyrite.tensor([3, 1, 3]).unique_values().tolist()
        [1, 3]
        """
        result: Self = _values(_groups("unique_values", self, size), fill_value)
        return result

    async def unique_values_async(self) -> Self:
        """Return `unique_values`, awaited: the event loop goes on while the device works."""
        return await awaited(self.unique_values)

    @composite(canonical=sized("unique_counts"), samples=_SIZED)
    def _unique_counts(
        self, /, *, size: int | None = None, fill_value: Number = 0
    ) -> tuple[Self, Self]:
        """The distinct elements, and how often each occurs."""
        groups = _groups("unique_counts", self, size)
        return _values(groups, fill_value), groups.ends - groups.starts

    @public
    def unique_counts(
        self, axis: int | None = None, *, size: int | None = None, fill_value: Number = 0
    ) -> UniqueCounts:
        """Return `unique_values`, and how often each occurs, int32 (count,); 0 for what fills up.

        >>> import pyrite
        >>> pyrite.tensor([3, 1, 3]).unique_counts().counts.tolist()
        [1, 2]
        """
        if axis is not None:
            found = self.unique_all(axis, size=size, fill_value=fill_value)
            return UniqueCounts(found.values, found.counts)
        return UniqueCounts(*self._unique_counts(size=size, fill_value=fill_value))

    @composite(canonical=sized("unique_inverse"), samples=_SIZED)
    def _unique_inverse(
        self, /, *, size: int | None = None, fill_value: Number = 0
    ) -> tuple[Self, Self]:
        """The distinct elements, and where among them each element is."""
        groups = _groups("unique_inverse", self, size)
        return _values(groups, fill_value), _inverse(groups, self.shape)

    @public
    def unique_inverse(
        self, axis: int | None = None, *, size: int | None = None, fill_value: Number = 0
    ) -> UniqueInverse:
        """Return `unique_values`, and the position among them of each element: (...), int32.

        With ``size``, positions of values that were cut off are not below it.
        """
        if axis is not None:
            found = self.unique_all(axis, size=size, fill_value=fill_value)
            return UniqueInverse(found.values, found.inverse_indices)
        return UniqueInverse(*self._unique_inverse(size=size, fill_value=fill_value))

    @composite(canonical=sized("unique_all"), samples=_SIZED)
    def _unique_all(
        self, /, *, size: int | None = None, fill_value: Number = 0
    ) -> tuple[Self, Self, Self, Self]:
        """The distinct elements, where each is first, where each element is, and how often."""
        groups = _groups("unique_all", self, size)
        return (
            _values(groups, fill_value),
            _first_positions(groups),
            _inverse(groups, self.shape),
            groups.ends - groups.starts,
        )

    @public
    def unique_all(
        self, axis: int | None = None, *, size: int | None = None, fill_value: Number = 0
    ) -> UniqueAll:
        """Return `unique_values`, their first positions in row-major order, inverse and counts.

        With an axis they are of slices along it, as in `unique`.  What was filled in has position 0
        and count 0; see `unique_inverse` and `unique_counts`.
        """
        if axis is not None:
            numbers = _rows(self, axis)._row_numbers()
            return _filled(self, numbers.unique_all(size=size), axis, size, fill_value)
        return UniqueAll(*self._unique_all(size=size, fill_value=fill_value))

    @composite(
        vjp=(None, None),
        promotes=(0, 1),
        samples=(
            sample(integers((2, 3), 0, 6), integers((4,), 0, 6)),
            sample((), (0,)),
            sample((3,), 0.5),
        ),
    )
    def isin(self, values: Self | Number, /) -> Self:
        """Whether each element is one of some values, as bool.  Shapes: (...), any -> (...).

        NaN is none of them.

        >>> import pyrite
        >>> pyrite.tensor([1, 2, 3]).isin(pyrite.tensor([3, 1])).tolist()
        [True, False, True]
        """
        if not isinstance(values, Sets):
            return self.equal(values)
        if values.size == 0:
            return self.not_equal(self).logical_and(False)
        flat = self.reshape((self.size,))
        ordered = values.reshape((values.size,)).sort()
        positions = ordered.searchsorted(flat).clip(max=values.size - 1)
        return ordered.take_along_axis(positions, 0).equal(flat).reshape(self.shape)
