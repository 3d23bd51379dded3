"""Max pooling: the greatest element of every window of (N, C, *sizes), and where it stands."""

from __future__ import annotations

from typing import Any, Self, TypeVar

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import (
    Attributes,
    TensorBase,
    composite,
    distinct,
    integers,
    primitive,
    public,
    sample,
)
from pyrite.op.index import Windows as WindowTaps
from pyrite.op.index import covering_windows, sliding_windows
from pyrite.op.rule import ADD, Fold, Scatter, WindowFold
from pyrite.op.rule.fold import Start, State
from pyrite.op.rule.folds import MAX
from pyrite.tensor.spatial_rank import of_rank
from pyrite.tensor.window import (
    Padding,
    Pairs,
    Sizes,
    adaptive_attributes,
    adaptive_type,
    adaptive_windows,
    first_inside,
    pool_attributes,
    pool_counts,
    pool_name,
)
from pyrite.types import Array, DType, Shape, TensorType, default_int, element_count, int32

T = TypeVar("T", bound="MaxPooling")

#: The ``kernel_size``, ``stride``, ``padding`` and ``dilation`` of a pool.
Windows = tuple[Shape, Shape, Pairs, Shape]

# ---- types ----


def _maximum_attributes(x: TensorType, **attrs: Any) -> Attributes:
    return pool_attributes(pool_name("max_pool", x), x, **attrs)


def _maximum_type(x: TensorType, **windows: Any) -> tuple[TensorType, TensorType]:
    counts = pool_counts(pool_name("max_pool", x), x.shape[2:], **windows)
    shape = (*x.shape[:2], *counts)
    return TensorType(shape, x.dtype), TensorType(shape, default_int)


def _adaptive_type(x: TensorType, *, output_size: Shape) -> tuple[TensorType, TensorType]:
    values = adaptive_type(x, output_size=output_size)
    return values, TensorType(values.shape, default_int)


def _scattered_type(
    g: TensorType, indices: TensorType, *, sizes: Shape, windows: Windows | None
) -> TensorType:
    if g.shape != indices.shape or g.ndim != len(sizes) + 2:
        raise ShapeError(
            f"max_pool_backward requires one index for each g and {g.ndim - 2} sizes, got "
            f"{g.shape}, {indices.shape} and sizes {sizes}"
        )
    return TensorType((*g.shape[:2], *sizes), g.dtype)


# ---- meaning: a fold of each window ----


def _windows(
    x: Shape, *, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, ceil_mode: bool
) -> WindowTaps:
    counts = pool_counts("max_pool", x[2:], kernel_size, stride, padding, dilation, ceil_mode)
    return sliding_windows(x, counts, kernel_size, stride, padding, dilation)


def _windows_of_updates(
    g: TensorType, _: TensorType, *, sizes: Shape, windows: Windows | None
) -> WindowTaps | None:
    """Return the windows of a pool, in which the maxima lie that its gradient goes to."""
    if windows is None:
        return None
    return sliding_windows((*g.shape[:2], *sizes), g.shape[2:], *windows)


def _adaptive_windows(x: Shape, *, output_size: Shape) -> WindowTaps:
    return covering_windows(x, output_size)


def _start(dtype: DType) -> Start:
    return (dtype.lowest, dtype), (-1, int32)


def _taken(_: Any, x: Any, *, position: Any) -> State:
    return x, position


def _greatest(k: Any, s: State, t: State) -> State:
    """Return the greater; of equals, and of NaNs, the first, and a position before none."""
    (x, i), (y, j) = s, t
    is_first = (j >= 0) & ((j < i) | (i < 0))
    wins = k.exceeds(y, x) | (is_first & ~k.exceeds(x, y))
    return k.maximum(x, y), k.where(wins, j, i)


def _later_if_greater(k: Any, s: State, t: State) -> State:
    """Return the greater, if the first state is of earlier elements."""
    wins = k.exceeds(t[0], s[0])
    return k.where(wins, t[0], s[0]), k.where(wins, t[1], s[1])


def _found(k: Any, s: State, *, first: Any) -> State:
    """Return the maximum and its place: the first, where no element is above the least number."""
    return s[0], k.where(s[1] < 0, first, s[1])


#: The greatest element alone: of elements that come in order the one above what was before.
GREATEST = Fold(
    start=lambda dtype: ((dtype.lowest, dtype),),
    join=lambda k, s, t: (k.where(k.exceeds(t[0], s[0]), t[0], s[0]),),
)
MAXIMUM = Fold(_start, _greatest, _taken, _found)
FIRST_MAXIMUM = Fold(_start, _later_if_greater, _taken, _found)


# ---- meaning: a table of the positions that each window reads ----


def _maximum(x: Array, *, ceil_mode: bool, **windows: Any) -> tuple[Array, Array]:
    counts = pool_counts("max_pool", x.shape[2:], ceil_mode=ceil_mode, **windows)
    return _maximum_at(x, _positions(x.shape[2:], counts=counts, **windows))


def _adaptive_maximum(x: Array, *, output_size: Shape) -> tuple[Array, Array]:
    return _maximum_at(x, _adaptive_positions(x.shape[2:], output_size))


def _positions(
    sizes: Shape, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, counts: Shape
) -> list[Array]:
    """Return, for each axis, the positions that its windows read: (taps, windows).

    A tap outside the input reads the window's first element instead: that changes no maximum.
    """
    tables = []
    axes = zip(sizes, kernel_size, stride, padding, dilation, counts, strict=True)
    for n, k, s, (before, _), d, count in axes:
        starts = np.arange(count) * s - before
        taps = starts + d * np.arange(k)[:, None]
        tables.append(np.where((taps >= 0) & (taps < n), taps, first_inside(starts, d)))
    return tables


def _adaptive_positions(sizes: Shape, counts: Shape) -> list[Array]:
    """Return such tables of the windows that cover an axis; short windows read their end twice."""
    tables = []
    for n, count in zip(sizes, counts, strict=True):
        starts, ends = adaptive_windows(n, count)
        taps = np.arange((ends - starts).max())[:, None]
        tables.append(np.minimum(starts + taps, ends - 1))
    return tables


def _maximum_at(x: Array, tables: list[Array]) -> tuple[Array, Array]:
    """Return the maximum over the taps of each window, and its index; the first of equals."""
    images = x.reshape(x.shape[0] * x.shape[1], element_count(x.shape[2:]))
    flat = _flat(tables, x.shape[2:])
    best = images.take(flat[0], axis=1)
    chosen = np.zeros(best.shape, np.int32)
    for i in range(1, len(flat)):
        value = images.take(flat[i], axis=1)
        is_better = ~(value <= best) & (best == best)  # NaN beats numbers, nothing beats NaN
        # The maximum of -0.0 and 0.0 is their sum, 0.0; NumPy takes either.
        best = np.where((best == 0) & (value == 0), best + value, np.maximum(best, value))
        chosen = np.maximum(chosen, is_better * np.int32(i))
    indices = flat[chosen, np.arange(flat.shape[1])].astype(default_int.numpy)
    shape = (*x.shape[:2], *(table.shape[1] for table in tables))
    return best.reshape(shape), indices.reshape(shape)


def _flat(tables: list[Array], sizes: Shape) -> Array:
    """Return the tables of all axes as one of flat positions: (taps, windows), row-major both."""
    flat: Array = np.zeros((1, 1), np.intp)
    for table, size in zip(tables, sizes, strict=True):
        both = flat[:, None, :, None] * size + table[None, :, None, :]
        flat = both.reshape(len(flat) * len(table), flat.shape[1] * table.shape[1])
    return flat


def _scattered(g: Array, indices: Array, *, sizes: Shape, windows: Windows | None) -> Array:
    images, positions = g.shape[0] * g.shape[1], element_count(sizes)
    places = indices.reshape(images, element_count(g.shape[2:]))
    total = np.zeros(images * positions, g.dtype)
    begins = np.arange(images)[:, None] * positions
    np.add.at(total, (places + begins).ravel(), g.ravel())
    return total.reshape(*g.shape[:2], *sizes)


def _read(c: Any, indices: Any) -> Any:
    """Return the elements of c (N, C, *sizes) at flat indices: the transpose of scattering."""
    batch, channels, *sizes = c.shape
    rows = c.reshape((batch, channels, element_count(sizes)))
    places = indices.reshape((batch, channels, element_count(indices.shape[2:])))
    return rows.take_along_axis(places, axis=2).reshape(indices.shape)


class MaxPooling(TensorBase):
    """Max pooling of (N, C, *sizes) over one to three axes.

    ``kernel_size``, ``stride`` (the kernel size unless given) and ``dilation`` are one int, or one
    per axis; ``padding`` is as in `Convolution`, and never the maximum.  ``ceil_mode`` keeps the
    last window also where the input ends inside it.
    """

    __slots__ = ()

    @composite(
        rule=WindowFold(MAX, _windows, GREATEST, lambda dtype: dtype.lowest),
        infer=lambda x, **windows: _maximum_type(x, **windows)[0],
        canonical=_maximum_attributes,
        accepts="number",
        promotes="all",
        samples=(
            sample(distinct((2, 2, 5)), kernel_size=2),
            sample(distinct((1, 2, 5, 4)), kernel_size=(3, 2), stride=(1, 2), padding=(1, 0)),
        ),
    )
    def max_pool(
        self,
        /,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> Self:
        """The greatest element of every window: (N, C, *S) -> (N, C, *S'); NaN if it holds one.

        S' = floor((S + before + after - dilation (kernel_size - 1) - 1) / stride) + 1.

        Raises ShapeError if a window holds no element of x.

        >>> import pyrite
        >>> x = pyrite.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> x.max_pool2d(2).numpy().tolist()
        [[[[4.0]]]]
        """
        return self.max_pool_with_indices(
            kernel_size, stride, padding, dilation, ceil_mode=ceil_mode
        )[0]

    @primitive(
        rule=WindowFold(MAXIMUM, _windows, FIRST_MAXIMUM, lambda dtype: dtype.lowest),
        reference=_maximum,
        infer=_maximum_type,
        canonical=_maximum_attributes,
        vjp=(
            lambda g, out, x_type, *, kernel_size, stride, padding, dilation: g[
                0
            ]._max_pool_backward(
                out[1], sizes=x_type.shape[2:], windows=(kernel_size, stride, padding, dilation)
            ),
        ),
        promotes="all",
        samples=(
            sample(distinct((2, 2, 5, 4)), kernel_size=2, stride=1, dilation=(2, 1)),
            sample(distinct((1, 1, 5)), kernel_size=2, ceil_mode=True),
            sample(distinct((1, 1, 3, 3, 4)), kernel_size=2, padding=((1, 0), (0, 1), (1, 1))),
            sample((0, 2, 4), kernel_size=2),
        ),
    )
    def max_pool_with_indices(
        self: T,
        /,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> tuple[T, T]:
        """`max_pool`, and the flat position of each maximum in its image; both (N, C, *S').

        The first of equal elements counts, and of several NaNs; 0.0 and -0.0 are equal.
        """
        ...

    @primitive(
        rule=Scatter(
            lambda at, index, g, *_, sizes, **__: (*at[:2], index(*at, axes=len(sizes))),
            ADD, updates=0, counts_from_end=False, windows=_windows_of_updates,
        ),
        reference=_scattered,
        accumulates=True,
        infer=_scattered_type,
        vjp=(lambda c, _, _g, indices: _read(c, indices), None),
        samples=(
            sample((2, 2, 2, 2), integers((2, 2, 2, 2), 0, 12), sizes=(3, 4)),
            sample(
                (2, 1, 3, 1), integers((2, 1, 3, 1), 4, 8), sizes=(3, 4),
                windows=((3, 4), (1, 4), ((1, 1), (0, 0)), (1, 1)),
            ),
        ),
    )  # fmt: skip
    def _max_pool_backward(
        self, indices: Self, /, *, sizes: Shape, windows: Windows | None = None
    ) -> Self:
        """Zeros, with g added at flat indices: (N, C, *S'), (N, C, *S') -> (N, C, *sizes).

        ``windows`` promises that each index lies in its window of that pool.
        """
        ...

    # ---- to a given size ----

    @public
    def adaptive_max_pool(self, output_size: Sizes) -> Self:
        """Return the maxima of as many windows as asked for: (N, C, *S) -> (N, C, *output_size)."""
        return self.adaptive_max_pool_with_indices(output_size)[0]

    @primitive(
        rule=WindowFold(MAXIMUM, _adaptive_windows, FIRST_MAXIMUM, lambda dtype: dtype.lowest),
        reference=_adaptive_maximum,
        infer=_adaptive_type,
        canonical=adaptive_attributes,
        vjp=(lambda g, out, x_type: g[0]._max_pool_backward(out[1], sizes=x_type.shape[2:]),),
        promotes="all",
        samples=(
            sample(distinct((2, 2, 5)), output_size=2),
            sample(distinct((1, 2, 3, 4)), output_size=(2, 5)),
        ),
    )
    def adaptive_max_pool_with_indices(self, /, output_size: Sizes) -> tuple[Self, Self]:
        """`adaptive_max_pool`, and the flat position of each maximum; both (N, C, *output_size)."""
        ...

    # ---- by the number of axes ----

    max_pool1d = of_rank(1, max_pool)
    max_pool2d = of_rank(2, max_pool)
    max_pool3d = of_rank(3, max_pool)
    max_pool1d_with_indices = of_rank(1, max_pool_with_indices)
    max_pool2d_with_indices = of_rank(2, max_pool_with_indices)
    max_pool3d_with_indices = of_rank(3, max_pool_with_indices)
    adaptive_max_pool1d = of_rank(1, adaptive_max_pool)
    adaptive_max_pool2d = of_rank(2, adaptive_max_pool)
    adaptive_max_pool3d = of_rank(3, adaptive_max_pool)
