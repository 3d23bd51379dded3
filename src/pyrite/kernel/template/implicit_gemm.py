"""Convolutions as matrix products whose operands are read through windows.

No matrix of windows is ever built: the maps of the operands say where its elements are.  With
x (N, C, *S), weight (O, C/groups, *K) and out (N, O, *S'), for each group:

    forward           weight (O, C K) @ windows of x (C K, N S')         -> out (O, N S')
    weight gradient   g (O, N S') @ windows of x (N S', C K)             -> gradient (O, C K)

The gradient of x consists of convolutions too: see `polyphase`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyrite.kernel.extent import EXTENT
from pyrite.kernel.template.operand import Axis, Digit, OperandMap, Window
from pyrite.kernel.template.product import Product
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class OperandLayout:
    """Where a tensor lies: the distance of neighbours on each axis, and what its offset divides by.

    ``offset`` is as in `OperandMap`.
    """

    dtype: DType
    strides: tuple[int, ...] = field(metadata=EXTENT)
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """The geometry of a convolution: sizes are spatial, channels those of one group.

    ``padding`` is what stands before an axis; what stands after is in ``counts``, the sizes of out.
    A padding below 0 leaves elements out, and by a dilation below 0 the taps go backward.  Kernels
    serve all batches and sizes; channels and windows are the model's, and built in.
    """

    batch: int = field(metadata=EXTENT)
    groups: int
    channels: int
    outputs: int
    sizes: tuple[int, ...] = field(metadata=EXTENT)
    kernel_size: tuple[int, ...]
    counts: tuple[int, ...] = field(metadata=EXTENT)
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def forward(
    w: Windows,
    x: OperandLayout,
    weight: OperandLayout,
    out: OperandLayout,
    lanes: int,
    *,
    is_transposed: bool = False,
) -> Product:
    """Return the product that is the convolution.

    Rows of out are filled up in thought to a multiple of ``lanes``, so that a vector stays in one.
    ``is_transposed`` is as in `weight_map`.
    """
    image = [Window(n, s, -p) for n, s, p in _axes(w.sizes, x.strides[2:], w.padding)]
    taps = [Digit(k, 0, ((i, d),)) for i, (k, d) in enumerate(_axes(w.kernel_size, w.dilation))]
    places = [Digit(n, 0, ((i, s),)) for i, (n, s) in enumerate(_axes(w.counts, w.stride))]
    windows = operand_map(
        x, (_group(w, x, w.channels),),
        (Digit(w.channels, x.strides[1]), *taps),
        (Digit(w.batch, x.strides[0]), *places), image, lanes,
    )  # fmt: skip
    kernel = weight_map(w, weight, is_transposed=is_transposed)
    return Product(kernel, windows, _result(w, out, w.outputs, w.counts, lanes))


def weight_gradient(w: Windows, x: OperandLayout, g: OperandLayout, out: OperandLayout) -> Product:
    """Return the product that is the gradient of the weight."""
    image = [Window(n, s, -p) for n, s, p in _axes(w.sizes, x.strides[2:], w.padding)]
    taps = [Digit(k, 0, ((i, d),)) for i, (k, d) in enumerate(_axes(w.kernel_size, w.dilation))]
    places = [Digit(n, 0, ((i, s),)) for i, (n, s) in enumerate(_axes(w.counts, w.stride))]
    windows = operand_map(
        x, (_group(w, x, w.channels),),
        (Digit(w.batch, x.strides[0]), *places),
        (Digit(w.channels, x.strides[1]), *taps), image,
    )  # fmt: skip
    flat = [Digit(n, s) for n, s in _axes(w.counts, g.strides[2:])]
    left = operand_map(
        g, (_group(w, g, w.outputs),), (Digit(w.outputs, g.strides[1]),),
        (Digit(w.batch, g.strides[0]), *flat), [],
    )  # fmt: skip
    return Product(left, windows, weight_map(w, out))


def patches_gradient(
    w: Windows, g: OperandLayout, weight: OperandLayout, x: OperandLayout
) -> Product:
    """Return the gradient of x where windows do not overlap, and all lie inside: the patches of x.

    For each group that is the weight (C K, O) @ g (O, N S') -> x (C K, N S'), without windows.
    """
    taps = [Digit(k, s) for k, s in _axes(w.kernel_size, weight.strides[2:])]
    group = Digit(w.groups, w.outputs * weight.strides[0])
    rows = (Digit(w.channels, weight.strides[1]), *taps)
    left = operand_map(weight, (group,), rows, (Digit(w.outputs, weight.strides[0]),), [])
    places = [Digit(n, s) for n, s in _axes(w.counts, g.strides[2:])]
    columns = (Digit(w.batch, g.strides[0]), *places)
    outputs = (Digit(w.outputs, g.strides[1]),)
    right = operand_map(g, (_group(w, g, w.outputs),), outputs, columns, [])
    inside = [Digit(k, s * d) for k, s, d in _axes(w.kernel_size, x.strides[2:], w.dilation)]
    patches = [Digit(n, s * far) for n, s, far in _axes(w.counts, x.strides[2:], w.stride)]
    out = operand_map(
        x, (_group(w, x, w.channels),), (Digit(w.channels, x.strides[1]), *inside),
        (Digit(w.batch, x.strides[0]), *patches), [],
    )  # fmt: skip
    return Product(left, right, out)


def _axes(*of: Sequence[int]) -> list[tuple[int, ...]]:
    return list(zip(*of, strict=True))


def _group(w: Windows, tensor: OperandLayout, channels: int) -> Digit:
    """Return the group of a tensor whose second axis is the channels."""
    return Digit(w.groups, channels * tensor.strides[1])


def weight_map(w: Windows, weight: OperandLayout, *, is_transposed: bool = False) -> OperandMap:
    """Return the weight with its outputs as rows, and all else as columns; the batch is the group.

    One that ``is_transposed`` lies as (groups * channels, outputs, *K): the gradient of x reads it.
    """
    first, second = weight.strides[:2]
    outputs, channels = (second, first) if is_transposed else (first, second)
    taps = [Digit(k, s) for k, s in _axes(w.kernel_size, weight.strides[2:])]
    group = Digit(w.groups, (w.channels if is_transposed else w.outputs) * first)
    columns = (Digit(w.channels, channels), *taps)
    return operand_map(weight, (group,), (Digit(w.outputs, outputs),), columns, [])


def result_map(w: Windows, tensor: OperandLayout, lanes: int = 1) -> OperandMap:
    """Return where what is as large as the result lies, as a matrix (outputs, N positions)."""
    return _result(w, tensor, w.outputs, w.counts, lanes)


def _result(
    w: Windows, out: OperandLayout, channels: int, sizes: tuple[int, ...], lanes: int
) -> OperandMap:
    """Return the map of (channels, N sizes)."""
    flat = [Digit(n, s) for n, s in _axes(sizes, out.strides[2:])]
    group = _group(w, out, channels)
    columns = (Digit(w.batch, out.strides[0]), *flat)
    return operand_map(out, (group,), (Digit(channels, out.strides[1]),), columns, [], lanes)


def operand_map(
    tensor: OperandLayout,
    batch: Axis,
    rows: Axis,
    columns: Axis,
    windows: list[Window],
    lanes: int = 1,
) -> OperandMap:
    """Return the map, its last column digit filled up to a multiple of ``lanes`` and limited."""
    last = columns[-1] if columns else Digit(1)
    filled = -(-last.size // lanes) * lanes
    if columns and filled != last.size:
        windows = [*windows, Window(last.size, 0)]
        steps = (*last.steps, (len(windows) - 1, 1))
        columns = (*columns[:-1], Digit(filled, last.stride, steps))
    return _simplified(
        OperandMap(tensor.dtype, batch, rows, columns, tuple(windows), tensor.offset)
    )


def _simplified(map: OperandMap) -> OperandMap:
    """Return the map with as few windows and digits as say the same."""
    kept = [i for i, w in enumerate(map.windows) if map.needs_test(i) or w.origin]

    def axis(digits: Axis) -> Axis:
        found: list[Digit] = []
        for d in digits:
            stride = d.stride + sum(s * map.windows[i].stride for i, s in d.steps if i not in kept)
            steps = tuple((kept.index(i), s) for i, s in d.steps if i in kept)
            before = found[-1] if found else None
            if d.size == 1:
                continue
            if before and not (steps or before.steps) and before.stride == stride * d.size:
                found[-1] = Digit(before.size * d.size, stride)
            else:
                found.append(Digit(d.size, stride, steps))
        return tuple(found)

    windows = tuple(map.windows[i] for i in kept)
    return OperandMap(
        map.dtype, axis(map.batch), axis(map.rows), axis(map.columns), windows, map.offset
    )
