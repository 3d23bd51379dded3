"""Windows that slide over the spatial axes of (N, C, *sizes): what convolution and pooling share.

The arguments of windows in their one form, the sizes that result, and what the NumPy reference
stands on: which taps meet which elements, `unfold_windows` and its transpose, `fold_windows`.

Invariant: ``padding`` is one (before, after) pair per spatial axis once it has passed
`padding_pairs`, and ``kernel_size``, ``stride`` and ``dilation`` are one int per spatial axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes
from pyrite.sized import asked
from pyrite.types import Array, Shape, TensorType

#: One int for all spatial axes, or one each.
Sizes = int | Sequence[int]
#: One int for all sides, one per axis, or one (before, after) pair per axis.
Explicit = int | Sequence[int] | Sequence[tuple[int, int]]
Padding = Explicit | Literal["same", "valid"]
Pairs = tuple[tuple[int, int], ...]


def sizes_per_axis(op: str, name: str, value: Any, rank: int, *, least: int = 1) -> Shape:
    """Return an int, or one int per spatial axis, as a tuple.

    Raises ArgumentError for another number of ints, or ints below ``least``.

    >>> sizes_per_axis("conv2d", "stride", 2, 2)
    (2, 2)
    """
    found = (value,) * rank if _is_int(value) else _as_tuple(value)
    if len(found) != rank or not all(_is_int(i) and i >= least for i in found):
        kind = "an integer" if rank == 1 else f"an integer or {rank} integers"
        raise ArgumentError(f"{op} requires {name} to be {kind} >= {least}, got {value!r}")
    return tuple(int(i) for i in found)


def padding_pairs(
    op: str, padding: Padding, sizes: Shape, kernel_size: Shape, stride: Shape, dilation: Shape
) -> Pairs:
    """Return the padding as one (before, after) pair per spatial axis.

    "valid" is none.  "same" gives ceil(size / stride) positions; where the sides cannot be equal,
    the side after has one more, as in TensorFlow and JAX.  Raises ArgumentError for anything else.

    >>> padding_pairs("conv2d", "same", (5, 5), (3, 2), (1, 1), (1, 1))
    ((1, 1), (0, 1))
    """
    rank = len(sizes)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * rank
        if padding == "same":
            axes = zip(sizes, kernel_size, stride, dilation, strict=True)
            return tuple(_same(*axis) for axis in axes)
    per_axis = (padding,) * rank if _is_int(padding) else _as_tuple(padding)
    found = tuple((p, p) if _is_int(p) else _as_tuple(p) for p in per_axis)
    fits = len(found) == rank and all(
        len(pair) == 2 and all(_is_int(i) and i >= 0 for i in pair) for pair in found
    )
    if not fits:
        raise ArgumentError(
            f'{op} requires padding to be "same", "valid", an integer >= 0, {rank} of them, or '
            f"{rank} pairs (before, after), got {padding!r}"
        )
    return tuple((int(before), int(after)) for before, after in found)


def _same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    positions = -(-size // stride)
    total = max((positions - 1) * stride + extent(kernel, dilation) - size, 0)
    return total // 2, total - total // 2


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def extent(kernel: int, dilation: int) -> int:
    """Return how many elements a dilated window spans.

    >>> extent(3, 2)
    5
    """
    return dilation * (kernel - 1) + 1


def window_counts(
    op: str, sizes: Shape, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Shape:
    """Return the number of window positions along each spatial axis.

    floor((size + before + after - dilation (kernel - 1) - 1) / stride) + 1.
    Raises ShapeError when a window is larger than the padded input.
    """
    axes = list(zip(sizes, kernel_size, padding, dilation, strict=True))
    room = [size + sum(pair) - extent(k, d) for size, k, pair, d in axes]
    if any(r < 0 for r in room):
        padded = tuple(size + sum(pair) for size, _, pair, _ in axes)
        spans = tuple(extent(k, d) for _, k, _, d in axes)
        raise ShapeError(
            f"{op} requires windows no larger than the padded input, got windows {spans} and "
            f"input {padded}"
        )
    return tuple(r // s + 1 for r, s in zip(room, stride, strict=True))


def unfold_windows(
    x: Array, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """Return all windows of x as columns: (N, C, *sizes) -> (C, *kernel, *positions, N).

    The batch stands last, so that a run of memory as long as the batch, or longer, is copied at a
    time, and the matrix product that follows is one for all images.
    """
    rank = len(kernel_size)
    padded = np.pad(np.moveaxis(x, 0, -1), ((0, 0), *padding, (0, 0)))
    spans = tuple(extent(k, d) for k, d in zip(kernel_size, dilation, strict=True))
    windows = sliding_window_view(padded, spans, axis=tuple(range(1, rank + 1)))
    steps = tuple(slice(None, None, s) for s in stride)
    taps = tuple(slice(None, None, d) for d in dilation)
    windows = windows[:, *steps, :, *taps]
    return windows.transpose(0, *range(rank + 2, 2 * rank + 2), *range(1, rank + 2))


def fold_windows(
    columns: Array, sizes: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """Return the sum of columns where they came from.

    (C, *kernel, *positions, N) -> (N, C, *sizes): the transpose of `unfold_windows`.
    """
    rank = len(sizes)
    channels, *rest, batch = columns.shape
    kernel_size, positions = rest[:rank], rest[rank:]
    padded = tuple(size + sum(pair) for size, pair in zip(sizes, padding, strict=True))
    total: Array = np.zeros((channels, *padded, batch), columns.dtype)
    offsets: Any = itertools.product(*map(range, kernel_size))
    for offset in offsets:
        total[:, *tap(offset, positions, stride, dilation)] += columns[:, *offset]
    inside: Any = (slice(b, b + n) for n, (b, _) in zip(sizes, padding, strict=True))
    return np.ascontiguousarray(np.moveaxis(total[:, *inside], -1, 0))


def tap(offset: Sequence[int], positions: Sequence[int], stride: Shape, dilation: Shape) -> Any:
    """Return the spatial index of one element of every window: the one at ``offset``."""
    axes = zip(offset, positions, stride, dilation, strict=True)
    return tuple(slice(i * d, i * d + s * (n - 1) + 1, s) for i, n, s, d in axes)


def meetings(
    sizes: Shape, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each element of the window that meets x: its offset, where windows are, and x's places.

    Windows and places are spatial indices of as many elements: what meets padding is in neither.
    """
    axes = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    along = [list(_meetings_along(*axis)) for axis in axes]
    for of in itertools.product(*along):
        offset, windows, places = zip(*of, strict=True)
        yield offset, windows, places


def _meetings_along(
    size: int, taps: int, stride: int, padding: tuple[int, int], dilation: int
) -> Iterator[tuple[int, slice, slice]]:
    before, after = padding
    count = (size + before + after - extent(taps, dilation)) // stride + 1
    for offset in range(taps):
        shift = offset * dilation - before
        first = max(0, -(shift // stride))
        last = min(count - 1, (size - 1 - shift) // stride)
        if first <= last:
            windows = slice(first, last + 1)
            yield offset, windows, slice(first * stride + shift, last * stride + shift + 1, stride)


# ---- of pools ----


def pool_name(op: str, x: TensorType) -> str:
    """Return the name that the user knows: "max_pool2d"."""
    if not 3 <= x.ndim <= 5:
        raise ShapeError(f"{op} requires x of 3 to 5 axes, (N, C, *sizes), got {x.shape}")
    return f"{op}{x.ndim - 2}d"


def pool_attributes(
    op: str,
    x: TensorType,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    **rest: Any,
) -> dict[str, Any]:
    """Return the attributes of a pool in their one form; unless given, stride is kernel_size."""
    rank = x.ndim - 2
    kernel = sizes_per_axis(op, "kernel_size", kernel_size, rank)
    steps = kernel if stride is None else sizes_per_axis(op, "stride", stride, rank)
    dilations = sizes_per_axis(op, "dilation", dilation, rank)
    pairs = padding_pairs(op, padding, x.shape[2:], kernel, steps, dilations)
    return {"kernel_size": kernel, "stride": steps, "padding": pairs, "dilation": dilations, **rest}


def pool_counts(
    op: str,
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    ceil_mode: bool,
) -> Shape:
    """Return the number of windows along each axis, each of which holds an element of x.

    ceil_mode adds the window that the end of the input cuts off, if it begins before that end.
    """
    found = []
    for n, k, s, (before, after), d in zip(
        sizes, kernel_size, stride, padding, dilation, strict=True
    ):
        room = n + before + after - extent(k, d)
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + before:
            count -= 1
        if count < 1 or not asked(_hold_elements, n, count, s, before, k, d):
            raise ShapeError(
                f"{op} requires every window to hold an element of x, got sizes {sizes} for "
                f"kernel_size {kernel_size}, stride {stride}, padding {padding} and dilation "
                f"{dilation}"
            )
        found.append(count)
    return tuple(found)


def _hold_elements(n: int, count: int, s: int, before: int, k: int, d: int) -> bool:
    """Whether each window holds an element of an axis of n: those that lie within it do."""
    reach = extent(k, d)
    first, behind = -(-before // s), (n + before - reach) // s + 1
    if behind < first:
        first, behind = count, count
    at = [*range(min(first, count)), *[count - i for i in range(1, count - behind + 1)]]
    starts = np.array([i * s - before for i in at], np.int64)
    return not np.any(first_inside(starts, d) >= np.minimum(starts + reach, n))


def first_inside(starts: Array, dilation: int) -> Array:
    """Return the first position >= 0 of the windows that begin at ``starts``."""
    found: Array = starts + dilation * -(np.minimum(starts, 0) // dilation)
    return found


def adaptive_windows(size: int, count: int) -> tuple[Array, Array]:
    """Return the starts and the ends of ``count`` windows that cover an axis.

    >>> adaptive_windows(5, 2)
    (array([0, 2]), array([3, 5]))
    """
    i = np.arange(count)
    return i * size // count, -(-(i + 1) * size // count)


def adaptive_attributes(x: TensorType, *, output_size: Any) -> Attributes:
    """Return the output size of adaptive pooling as one int per spatial axis."""
    op = pool_name("adaptive_pool", x)
    return {"output_size": sizes_per_axis(op, "output_size", output_size, x.ndim - 2)}


def adaptive_type(x: TensorType, *, output_size: Shape) -> TensorType:
    """Return the type of an adaptive pool: (N, C, *S) -> (N, C, *output_size)."""
    if 0 in x.shape[2:]:
        raise ShapeError(
            f"adaptive_pool{x.ndim - 2}d requires spatial sizes >= 1, got shape {x.shape}"
        )
    return TensorType((*x.shape[:2], *output_size), x.dtype)
