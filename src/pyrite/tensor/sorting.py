"""Order: sorting, the k greatest, medians and quantiles, binary search.

One order holds everywhere: False < True, -0.0 equals 0.0, NaN is above infinity.  So an ascending
sort has its NaNs last and a descending one first, as in torch.  All sorts are stable: equal
elements keep their order, in a descending sort too.  Hence results are the same on every machine.

`argsort` is the one primitive of sorting; values are read at the positions that it gives, which is
also how gradients find their way back.  Positions are int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, distinct, integers, primitive, public, sample
from pyrite.tensor.axis import Axis, reduced_shape, require_elements, rows_of, span
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gradient import in_dtype
from pyrite.tensor.joining import concat
from pyrite.tensor.movement import Movement
from pyrite.tensor.reduction import Reduction
from pyrite.tensor.truth import Truth
from pyrite.types import Array, TensorType, default_int, normalize_axes, normalize_axis

Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]

_METHODS: tuple[Method, ...] = ("linear", "lower", "higher", "midpoint", "nearest")


def _sorting(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of a sort; ``stable`` is dropped, for every sort is."""

    def canonical(x: TensorType, *, axis: int, descending: bool, stable: bool = True) -> Attributes:
        return {"axis": normalize_axis(op, axis, x.ndim), "descending": bool(descending)}

    return canonical


def _positions(x: TensorType, *, axis: int, descending: bool) -> TensorType:
    return TensorType(x.shape, default_int)


def _argsort(x: Array, *, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=axis, stable=True).astype(np.int32)
    # Reversed before and after, equal elements keep their order.
    backwards = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis), np.int32)


def _choosing(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of top-k; ``sorted`` is dropped, for the result always is."""

    def canonical(
        x: TensorType, *, k: int, axis: int, largest: bool, sorted: bool = True
    ) -> Attributes:
        found = normalize_axis(op, axis, x.ndim)
        if not 0 <= k <= x.shape[found]:
            raise ArgumentError(
                f"{op} requires 0 <= k <= {x.shape[found]}, the size of axis {found}, got k={k}"
            )
        return {"k": int(k), "axis": found, "largest": bool(largest)}

    return canonical


def _kth(x: TensorType, *, k: int, axis: int, keepdims: bool) -> Attributes:
    found = normalize_axis("kthvalue", axis, x.ndim)
    if not 1 <= k <= x.shape[found]:
        raise ArgumentError(
            f"kthvalue requires 1 <= k <= {x.shape[found]}, the size of axis {found}, got k={k}"
        )
    return {"k": int(k), "axis": found, "keepdims": keepdims}


def _middle_axis(x: TensorType, *, axis: int, keepdims: bool) -> Attributes:
    found = normalize_axis("median_with_indices", axis, x.ndim)
    require_elements("median_with_indices", x, (found,))
    return {"axis": found, "keepdims": keepdims}


def _middle_axes(x: TensorType, *, axis: Axis, keepdims: bool) -> Attributes:
    axes = normalize_axes("median", axis, x.ndim)
    require_elements("median", x, axes)
    return {"axis": axes, "keepdims": keepdims}


def _quantile_attributes(
    x: TensorType, *, q: float | Sequence[float], axis: Axis, keepdims: bool, method: Method
) -> Attributes:
    axes = normalize_axes("quantile", axis, x.ndim)
    require_elements("quantile", x, axes)
    many = np.asarray(q, float)
    if many.ndim > 1 or many.size == 0 or not np.all((many >= 0) & (many <= 1)):
        raise ArgumentError(f"quantile requires 0 <= q <= 1, one or several, got q={q}")
    if method not in _METHODS:
        raise ArgumentError(f"quantile requires a method of {', '.join(_METHODS)}, got {method!r}")
    found = many.tolist()
    return {
        "q": tuple(found) if many.ndim else found,
        "axis": axes,
        "keepdims": keepdims,
        "method": method,
    }


def _between(ordered: Any, q: float, method: Method) -> Any:
    """Return the quantile of sorted rows: (..., N) -> (..., 1).

    The position is q (N - 1), Hyndman & Fan 1996, definition 7.  Halves go to the even neighbour.
    """
    last = ordered.ndim - 1
    position = q * (ordered.shape[last] - 1)
    lower, upper = int(np.floor(position)), int(np.ceil(position))
    if method == "nearest":
        lower = upper = round(position)
    elif method != "linear" and method != "midpoint":
        lower = upper = lower if method == "lower" else upper
    low = span(ordered, last, lower, lower + 1)
    if lower == upper:
        return low
    high = span(ordered, last, upper, upper + 1)
    weight = 0.5 if method == "midpoint" else position - lower
    # Not low + weight (high - low), which overflows first; equal infinities have no difference.
    return low.equal(high)._where(low, low * (1 - weight) + high * weight)


def _quantiles(x: Any, qs: Sequence[float], axis: tuple[int, ...], method: Method) -> list[Any]:
    """Return one quantile of each row per q: a list of (..., 1), NaN for rows that hold NaN."""
    rows = rows_of(in_dtype(x, x.dtype.compute), axis)
    ordered = rows.sort(-1)
    greatest = span(ordered, rows.ndim - 1, -1, None)
    has_nan = greatest.not_equal(greatest)
    return [has_nan._where(greatest, _between(ordered, q, method)) for q in qs]


def _side_of(x: TensorType, values: TensorType, *, side: str) -> Attributes:
    if x.ndim != 1:
        raise ShapeError(f"searchsorted requires sorted values of shape (N,), got {x.shape}")
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted requires side 'left' or 'right', got {side!r}")
    return {"side": side}


def _places(x: TensorType, values: TensorType, *, side: str) -> TensorType:
    return TensorType(values.shape, default_int)


_SORTS = (
    sample(distinct((5,))),
    sample(distinct((2, 3, 2)), axis=1, descending=True),
    sample(distinct((3, 2)), axis=0),
    sample(integers((6,), 0, 3), descending=True),
    sample((2, 0)),
)
_CHOICES = (
    sample(distinct((5,)), k=2),
    sample(distinct((2, 4)), k=3, axis=1, largest=False),
    sample(distinct((3, 2)), k=2, axis=0),
    sample(distinct((3,)), k=0),
)
_MIDDLES = (
    sample(distinct((5,))),
    sample(distinct((2, 4)), axis=-1, keepdims=True),
    sample(distinct((2, 3, 2)), axis=(0, 2)),
    sample(distinct(())),
)


class Sorting(Truth, Extremum, Reduction, Movement, Comparison):
    """Order."""

    __slots__ = ()

    # ---- sorting ----

    @primitive(
        reference=_argsort,
        canonical=_sorting("argsort"),
        infer=_positions,
        vjp=(None,),
        accepts="any",
        samples=_SORTS,
    )
    def argsort(self, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """Positions that sort an axis, int32.  Shapes: (..., N, ...) -> the same.

        Equal elements keep their order whatever ``stable`` says.  NaN is above infinity.

        >>> import pyrite
        >>> pyrite.tensor([2.0, 3.0, 2.0, 1.0]).argsort(descending=True).tolist()
        [1, 0, 2, 3]
        """
        ...

    @composite(canonical=_sorting("sort"), samples=_SORTS)
    def sort(self, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """The elements along an axis in order; NaN is above infinity.  See `argsort`."""
        return self.take_along_axis(self.argsort(axis, descending=descending), axis)

    @composite(canonical=_sorting("sort_with_indices"), samples=_SORTS)
    def sort_with_indices(
        self, /, axis: int = -1, *, descending: bool = False, stable: bool = True
    ) -> tuple[Self, Self]:
        """`sort` and `argsort` at once."""
        indices = self.argsort(axis, descending=descending)
        return self.take_along_axis(indices, axis), indices

    # ---- the k greatest ----

    @composite(canonical=_choosing("argtopk"), vjp=(None,), samples=_CHOICES)
    def argtopk(
        self, /, k: int, axis: int = -1, *, largest: bool = True, sorted: bool = True
    ) -> Self:
        """Positions, int32, of the k greatest elements along an axis, or of the k least.

        Shapes: (..., N, ...) -> (..., k, ...), the most extreme first, whatever ``sorted`` says; of
        equals the first.  Raises ArgumentError unless 0 <= k <= N.
        """
        order: Self = span(self.argsort(axis, descending=largest), axis, None, k)
        return order

    @composite(canonical=_choosing("topk"), samples=_CHOICES)
    def topk(
        self, /, k: int, axis: int = -1, *, largest: bool = True, sorted: bool = True
    ) -> tuple[Self, Self]:
        """The k greatest (or least) elements along an axis, and their positions; see `argtopk`.

        >>> import pyrite
        >>> values, indices = pyrite.tensor([1.0, 4.0, 3.0]).topk(2)
        >>> values.tolist(), indices.tolist()
        ([4.0, 3.0], [1, 2])
        """
        indices = self.argtopk(k, axis, largest=largest)
        return self.take_along_axis(indices, axis), indices

    @composite(
        canonical=_kth,
        samples=(sample(distinct((5,)), k=2), sample(distinct((3, 2)), k=3, axis=0, keepdims=True)),
    )
    def kthvalue(self, /, k: int, axis: int = -1, *, keepdims: bool = False) -> tuple[Self, Self]:
        """The k-th least elements along an axis, counted from 1, and their positions, int32.

        Raises ArgumentError unless 1 <= k <= N.
        """
        indices = span(self.argsort(axis), axis, k - 1, k)
        return self._at_positions(indices, axis, keepdims)

    # ---- medians and quantiles ----

    @composite(canonical=_middle_axes, accepts="float", promotes=(0,), samples=_MIDDLES)
    def median(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Median over axes: of an even count the mean of the two in the middle, as in NumPy.

        NaN if any element is NaN.  torch and Burn take the lower of the two: `median_with_indices`.

        >>> import pyrite
        >>> pyrite.tensor([1.0, 2.0, 4.0, 8.0]).median().item()
        3.0
        """
        return self.quantile(0.5, axis, keepdims=keepdims)

    @composite(
        canonical=_middle_axis,
        samples=(sample(distinct((4,)), axis=0), sample(distinct((2, 3)), axis=1, keepdims=True)),
    )
    def median_with_indices(self, /, axis: int, *, keepdims: bool = False) -> tuple[Self, Self]:
        """The element in the middle of an axis, the lower of two, and its position, int32.

        NaN, and the position of the first, if any element is NaN.
        """
        order = self.argsort(axis)
        middle = (self.shape[axis] - 1) // 2
        is_nan = self.not_equal(self)
        first_nan = is_nan.argmax(axis, keepdims=True)
        indices = is_nan.any(axis, keepdims=True)._where(
            first_nan, span(order, axis, middle, middle + 1)
        )
        return self._at_positions(indices, axis, keepdims)

    @composite(
        canonical=_quantile_attributes,
        accepts="float",
        promotes=(0,),
        samples=(
            sample(distinct((5,)), q=0.3),
            sample(distinct((2, 4)), q=(0.0, 0.6, 1.0), axis=-1, keepdims=True),
            sample(distinct((2, 3, 2)), q=0.7, axis=(0, 2), method="midpoint"),
        ),
    )
    def quantile(
        self,
        /,
        q: float | Sequence[float],
        axis: Axis = None,
        *,
        keepdims: bool = False,
        method: Method = "linear",
    ) -> Self:
        """The value below which a part q of the elements lies, 0 <= q <= 1; NaN if any is NaN.

        Several q put an axis of their own in front.  ``method`` says what lies between two
        elements: "linear", "lower", "higher", "midpoint", or "nearest" (of halves the even one).
        Raises ArgumentError for q outside 0 to 1, and ShapeError over an axis of size 0.
        Source: Hyndman & Fan 1996, "Sample quantiles in statistical packages", definition 7.

        >>> import pyrite
        >>> pyrite.tensor([1.0, 2.0, 3.0]).quantile((0.25, 0.5)).tolist()
        [1.5, 2.0]
        """
        axes = normalize_axes("quantile", axis, self.ndim)
        shape = reduced_shape(self.shape, axes, keepdims)
        many = q if isinstance(q, Sequence) else (q,)
        found = [
            in_dtype(v.reshape((1, *shape)), self.dtype)
            for v in _quantiles(self, many, axes, method)
        ]
        result: Self = concat(found) if isinstance(q, Sequence) else found[0].reshape(shape)
        return result

    # ---- search ----

    @primitive(
        reference=lambda x, values, *, side: np.searchsorted(x, values, side).astype(np.int32),
        canonical=_side_of,
        infer=_places,
        vjp=(None, None),
        accepts="any",
        promotes=(0, 1),
        samples=(
            sample(integers((5,), 3, 4), integers((2, 3), 0, 6)),
            sample(integers((5,), 3, 4), integers((4,), 0, 6), side="right"),
            sample((0,), (3,)),
        ),
    )
    def _searchsorted(
        self, values: Self | float, /, *, side: Literal["left", "right"] = "left"
    ) -> Self:
        """Where values belong among these sorted ones, int32.  Shapes: (N,), (...) -> (...)."""
        ...

    @public
    def searchsorted(
        self,
        values: Self | float,
        *,
        side: Literal["left", "right"] = "left",
        sorter: Self | None = None,
    ) -> Self:
        """Where values belong among these sorted ones, int32.  Shapes: (N,), (...) -> (...).

        Before equal elements, or after them with ``side="right"``.  NaN is above infinity.
        ``sorter`` gives the positions that sort them, as `argsort` does, where they are not sorted.

        >>> import pyrite
        >>> pyrite.tensor([1.0, 3.0]).searchsorted(pyrite.tensor([0.0, 3.0, 9.0])).tolist()
        [0, 1, 2]
        """
        ordered = self if sorter is None else self.take(sorter)
        return ordered._searchsorted(values, side=side)
