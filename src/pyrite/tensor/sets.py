"""Sets and counts: where elements are not zero, which values there are, and how often.

How many there are depends on the values, so these ops wait for the device, are counted by
`pyrite.sync_count`, and are errors under `pyrite.no_sync`.  Each has two forms that are not:
``size=`` fixes the number of results, cutting off what is more and filling what is less, and the
``_async`` methods are awaited.

Values are distinct as the array API says: -0.0 equals 0.0, and each NaN is a value of its own.
Positions and counts are int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, bools, composite, distinct, integers, primitive, public, sample
from pyrite.op.rule import ADD, Scatter
from pyrite.synchronization import asked_by, awaited
from pyrite.tensor.axis import span
from pyrite.tensor.cumulative import Cumulative
from pyrite.tensor.sorting import Sorting
from pyrite.tensor.truth import Truth
from pyrite.types import Array, DType, Number, TensorType, default_int, normalize_axis


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


def _sized(op: str) -> Callable[..., Attributes]:
    def canonical(*types: TensorType, size: int | None, **rest: Any) -> Attributes:
        if size is not None and size < 0:
            raise ArgumentError(f"{op} requires size >= 0, got {size}")
        return {"size": size, **rest}

    return canonical


def _axes_needed(x: TensorType, *, size: int | None, fill_value: int) -> Attributes:
    if x.ndim == 0:
        raise ShapeError("nonzero requires at least one axis, got shape (); use argwhere")
    return _sized("nonzero")(x, size=size, fill_value=fill_value)


def _argwhere(x: Array) -> Array:
    return np.argwhere(x).astype(np.int32)


def _argwhere_within(x: Array, *, size: int, fill_value: int) -> Array:
    found = np.full((size, x.ndim), fill_value, np.int32)
    positions = np.argwhere(x)[:size]
    found[: len(positions)] = positions
    return found


def _padded(x: Any, before: int, after: int, value: Number) -> Any:
    """Return a row with a value put in front and behind."""
    (n,) = x.shape
    return type(x)._slice_update(
        value, x, shape=(before + n + after,), start=(before,), size=(n,), step=(1,)
    )


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
    differs = span(ordered, 0, 1, None).not_equal(span(ordered, 0, None, -1))
    is_start = span(_padded(differs, 1, 0, True), 0, None, count)
    if size is None:
        with asked_by(op):
            starts = is_start.argwhere()
        edges = _padded(starts.reshape((-1,)), 0, 1, count)
    else:
        # One more than asked for: where the last run of those that are kept ends.
        edges = is_start.argwhere(size=size + 1, fill_value=count).reshape((size + 1,))
    return _Groups(ordered, order, is_start, span(edges, 0, None, -1), span(edges, 0, 1, None))


def _values(groups: _Groups, fill_value: Number) -> Any:
    # Runs that are not there start one past the end, where the filling stands.
    filling = bool(fill_value) if groups.ordered.dtype.is_bool else fill_value
    return _padded(groups.ordered, 0, 1, filling).take_along_axis(groups.starts, 0)


def _first_positions(groups: _Groups) -> Any:
    # The sort is stable: a run begins with the element that came first.
    return _padded(groups.order, 0, 1, 0).take_along_axis(groups.starts, 0)


def _inverse(groups: _Groups, shape: tuple[int, ...]) -> Any:
    runs = groups.is_start.cumulative_sum(0) - 1
    return runs.take_along_axis(groups.order.argsort(), 0).reshape(shape)


# ---- counts ----


def _check_bins(x: TensorType, weights: TensorType | None) -> DType:
    """Return the dtype of the counts."""
    if not x.dtype.is_integer:
        raise DTypeError(f"bincount requires an integer dtype, got {x.dtype.name}; cast it")
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        beside = "" if weights is None else f" and weights of shape {weights.shape}"
        raise ShapeError(f"bincount requires shape (N,), got {x.shape}{beside}")
    return default_int if weights is None else weights.dtype


def _bincount_attributes(
    x: TensorType, weights: TensorType | None, *, minlength: int, size: int | None
) -> Attributes:
    _check_bins(x, weights)
    return _sized("bincount")(x, minlength=minlength, size=size)


def _bincount_type(x: TensorType, weights: TensorType | None, *, size: int) -> TensorType:
    return TensorType((size,), _check_bins(x, weights))


def _bincount_within(x: Array, weights: Array | None, *, size: int) -> Array:
    counts = np.zeros(size, np.int32 if weights is None else weights.dtype)
    inside = (x >= 0) & (x < size)
    np.add.at(counts, x[inside], 1 if weights is None else weights[inside])
    return counts


def _bins(x: Any, minlength: int) -> int:
    """Return how many bins hold all elements: here the host waits."""
    if x.size == 0:
        return minlength
    with asked_by("bincount"):
        least, greatest = int(x.min()), int(x.max())
    if least < 0:
        raise ArgumentError(f"bincount requires x >= 0, got {least}; give size= to leave such out")
    return max(greatest + 1, minlength)


def _repeat_attributes(
    x: TensorType, repeats: TensorType, *, axis: int, size: int | None
) -> Attributes:
    along = normalize_axis("repeat", axis, x.ndim)
    if not repeats.dtype.is_integer:
        raise DTypeError(f"repeat requires integer repeats, got {repeats.dtype.name}; cast them")
    if repeats.shape not in ((), (1,), (x.shape[along],)):
        raise ShapeError(
            f"repeat requires repeats of shape () or ({x.shape[along]},), got {repeats.shape}"
        )
    return {"axis": along, **_sized("repeat")(x, size=size)}


def _length(repeats: Any) -> int:
    """Return the number of elements when all are repeated: here the host waits."""
    if repeats.size == 0:
        return 0
    with asked_by("repeat"):
        counts = repeats.numpy()
    if (least := int(counts.min())) < 0:
        raise ArgumentError(f"repeat requires repeats >= 0, got {least}")
    # Here, not on the device: one without int64 could not add them up.
    return int(counts.sum(dtype=np.int64))


def _weights_vjp(g: Any, _: Any, x: Any, *, size: int) -> Any:
    """What was not counted reads the zero that is put at the end."""
    inside = x.greater_equal(0).logical_and(x.less(size))
    return _padded(g, 0, 1, 0).take_along_axis(inside._where(x, size).astype("int32"), 0)


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


class Sets(Sorting, Cumulative, Truth):
    """Positions, unique values and counts."""

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
        canonical=_sized("argwhere"),
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

    @composite(canonical=_sized("unique_values"), samples=_SIZED)
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

    @composite(canonical=_sized("unique_counts"), samples=_SIZED)
    def _unique_counts(
        self, /, *, size: int | None = None, fill_value: Number = 0
    ) -> tuple[Self, Self]:
        """The distinct elements, and how often each occurs."""
        groups = _groups("unique_counts", self, size)
        return _values(groups, fill_value), groups.ends - groups.starts

    @public
    def unique_counts(self, *, size: int | None = None, fill_value: Number = 0) -> UniqueCounts:
        """Return `unique_values`, and how often each occurs, int32 (count,); 0 for what fills up.

        >>> import pyrite
        >>> pyrite.tensor([3, 1, 3]).unique_counts().counts.tolist()
        [1, 2]
        """
        return UniqueCounts(*self._unique_counts(size=size, fill_value=fill_value))

    @composite(canonical=_sized("unique_inverse"), samples=_SIZED)
    def _unique_inverse(
        self, /, *, size: int | None = None, fill_value: Number = 0
    ) -> tuple[Self, Self]:
        """The distinct elements, and where among them each element is."""
        groups = _groups("unique_inverse", self, size)
        return _values(groups, fill_value), _inverse(groups, self.shape)

    @public
    def unique_inverse(self, *, size: int | None = None, fill_value: Number = 0) -> UniqueInverse:
        """Return `unique_values`, and the position among them of each element: (...), int32.

        With ``size``, positions of values that were cut off are not below it.
        """
        return UniqueInverse(*self._unique_inverse(size=size, fill_value=fill_value))

    @composite(canonical=_sized("unique_all"), samples=_SIZED)
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
    def unique_all(self, *, size: int | None = None, fill_value: Number = 0) -> UniqueAll:
        """Return `unique_values`, their first positions in row-major order, inverse and counts.

        What was filled in has position 0 and count 0; see `unique_inverse` and `unique_counts`.
        """
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

    # ---- counts ----

    @primitive(
        rule=Scatter(
            lambda at, index, *_, size: (index(at[0], of=0),),
            ADD,
            updates=1,
            points=lambda x, *_, size: x.shape,
            counts_from_end=False,
            drops=True,
        ),
        reference=_bincount_within,
        accumulates=True,
        infer=_bincount_type,
        vjp=(None, _weights_vjp),
        accepts="any",
        samples=(
            sample(integers((6,), 0, 4), None, size=3),
            sample(integers((6,), 0, 4), (6,), size=5),
            sample(integers((0,), 0, 4), (0,), size=2),
        ),
    )
    def _bincount_within(self, weights: Self | None, /, *, size: int) -> Self:
        """How often each integer 0 <= i < size occurs, or the sum of its weights.

        Shapes: (N,), (N,) or None -> (size,).
        """
        ...

    @composite(
        canonical=_repeat_attributes,
        samples=(
            sample((3, 2), integers((3,), 0, 4), axis=0),
            sample((2, 3), integers((1,), 2, 3), axis=-1),
            sample((3, 2), integers((3,), 1, 4), axis=0, size=4),
            sample((0,), integers((0,), 0, 4), axis=0),
        ),
    )
    def _repeat_each(self, repeats: Self, /, axis: int, *, size: int | None = None) -> Self:
        """Each element along an axis so many times.  Shapes: (..., N, ...), (N,) -> (..., M, ...).

        M is the sum of the repeats, for which the device is waited, or ``size``.
        """
        n = self.shape[axis]
        each = repeats.broadcast_to((n,))
        total = _length(each) if size is None else size
        # Element i of the result is of the source behind which i sources have ended.
        ended = each.cumulative_sum(0).bincount(size=total)
        source = ended.cumulative_sum(0).clip(max=max(n - 1, 0))
        return self.take(source, axis)

    @composite(
        canonical=_bincount_attributes,
        samples=(
            sample(integers((6,), 0, 4), None),
            sample(integers((6,), 0, 4), (6,), minlength=7),
            sample(integers((6,), 0, 4), (6,), size=2),
            sample(integers((0,), 0, 4), None),
        ),
    )
    def _bincount(
        self, weights: Self | None = None, /, *, minlength: int = 0, size: int | None = None
    ) -> Self:
        """How often each integer from 0 occurs, or the sum of its weights."""
        return self._bincount_within(weights, size=_bins(self, minlength) if size is None else size)

    @public
    def bincount(
        self, weights: Self | None = None, *, minlength: int = 0, size: int | None = None
    ) -> Self:
        """How often each integer from 0 occurs, int32, or the sum of its weights in their dtype.

        Shapes: (N,) -> (max(greatest + 1, minlength),), or (size,), in which what lies outside
        0 <= x < size is not counted.  Waits for the device unless ``size`` is given, and then
        raises ArgumentError for a negative element.  Weights are added in order.

        >>> import pyrite
        >>> pyrite.tensor([1, 3, 1]).bincount().tolist()
        [0, 2, 0, 1]
        """
        return self._bincount(weights, minlength=minlength, size=size)
