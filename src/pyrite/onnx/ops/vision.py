"""Ops of images: sampling between pixels, regions, boxes, decoding."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, UnidentifiedImageError

from pyrite import types
from pyrite.errors import DataError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Host, converts
from pyrite.onnx.host import integer, number
from pyrite.onnx.ops.window import pairs
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, element_count

Ints = Sequence[int]

# ---- sampling ----


@converts("GridSample", since=16)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Return x read at positions from -1 to 1: (N, C, *S), (N, *P, axes) -> (N, C, *P)."""
    sizes = x.shape[2:]
    positions = []
    for axis, size in enumerate(sizes):
        normal = grid[..., len(sizes) - 1 - axis].reshape((x.shape[0], -1)).astype(types.float32)
        spread = (normal + 1) / 2 * (size - 1) if align_corners else ((normal + 1) * size - 1) / 2
        at = spread.round() if mode == "nearest" else spread
        positions.append(_within(at, size, padding_mode, bool(align_corners)))
    found = _sampled(x, positions, mode.removeprefix("bi"), padding_mode, bool(align_corners))
    return found.reshape((*x.shape[:2], *grid.shape[1:-1]))


def _within(at: Tensor, size: int, padding_mode: str, corners: bool) -> Tensor:
    """Return positions brought back into an axis, as the padding mode says."""
    if padding_mode == "border":
        return at.clip(0, size - 1)
    return _reflected(at, size, corners) if padding_mode == "reflection" else at


def _reflected(at: Tensor, size: int, corners: bool) -> Tensor:
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return at * 0
    folded = (at - low).abs().remainder(2 * span)
    return functions.where(folded > span, 2 * span - folded, folded) + low


def _sampled(
    x: Tensor, positions: Sequence[Tensor], mode: str, padding_mode: str, corners: bool
) -> Tensor:
    """Return x between its elements: (N, C, *S) at (N, P) for each axis -> (N, C, P)."""
    taps = [_taps(at, mode) for at in positions]
    sizes = x.shape[2:]
    flat = x.reshape((*x.shape[:2], -1))
    total: Tensor | None = None
    for chosen in itertools.product(*taps):
        weight = None
        place = functions.zeros_like(positions[0])
        for (at, factor), size in zip(chosen, sizes, strict=True):
            if padding_mode == "zeros":
                inside = (at >= 0).logical_and(at <= size - 1)
                factor = functions.where(inside, factor, 0.0)
            else:
                at = _within(at, size, padding_mode, corners).round()
            weight = factor if weight is None else weight * factor
            place = place * size + at.clip(0, size - 1)
        index = place.astype(types.int32).unsqueeze(1).broadcast_to((*x.shape[:2], place.shape[1]))
        assert weight is not None, "an image has at least one axis"
        part = flat.take_along_axis(index, 2) * weight.unsqueeze(1).astype(x.dtype)
        total = part if total is None else total + part
    assert total is not None, "there is at least one tap"
    return total


def _taps(at: Tensor, mode: str) -> list[tuple[Tensor, Tensor]]:
    """Return the neighbours of positions on one axis, and their weights."""
    if mode == "nearest":
        return [(at, functions.ones_like(at))]
    first = at.floor().detach()
    part = at - first
    if mode == "linear":
        return [(first, 1 - part), (first + 1, part)]
    a = -0.75
    near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (part, 1 - part)]
    far = [((a * t - 5 * a) * t + 8 * a) * t - 4 * a for t in (part + 1, 2 - part)]
    return [(first - 1, far[0]), (first, near[0]), (first + 1, near[1]), (first + 2, far[1])]


@converts("DeformConv", since=19)
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    offset_group: int = 1,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return a convolution whose taps are moved by offsets, and weighed by a mask."""
    rank = x.ndim - 2
    kernel, counts = w.shape[2:], offset.shape[2:]
    stride, dilation, sides = strides or [1] * rank, dilations or [1] * rank, pairs(pads, rank)
    taps, places = element_count(kernel), element_count(counts)
    rows = x.shape[0] * offset_group
    moved = offset.reshape((rows, taps, rank, places))
    positions = []
    for axis in range(rank):
        start = _tap_positions(axis, kernel, counts, stride, dilation, sides)
        grid = functions.tensor(start.astype(np.float32), device=x.device)
        positions.append((moved[:, :, axis] + grid).reshape((rows, -1)))
    split = x.reshape((rows, x.shape[1] // offset_group, *x.shape[2:]))
    seen = _sampled(split, positions, "linear", "zeros", True)
    seen = seen.reshape((x.shape[0], offset_group, -1, taps, places))
    if mask is not None:
        seen = seen * mask.reshape((x.shape[0], offset_group, 1, taps, places))
    columns = seen.reshape((x.shape[0], group, -1, places))
    y = w.reshape((group, w.shape[0] // group, -1)).matmul(columns)
    y = y.reshape((x.shape[0], w.shape[0], *counts))
    return y if b is None else y + b.reshape((-1, *(1,) * rank))


def _tap_positions(
    axis: int, kernel: Ints, counts: Ints, stride: Ints, dilation: Ints, sides: Sequence[Ints]
) -> Array:
    """Return where each tap of each window lies on an axis: (taps, places)."""
    taps = np.indices(kernel)[axis].reshape(-1, 1) * dilation[axis]
    steps = np.indices(counts)[axis].reshape(1, -1) * stride[axis]
    found: Array = taps + steps - sides[axis][0]
    return found


# ---- regions ----


@converts("RoiAlign", since=16)
def roi_align(
    x: Tensor,
    rois: Host,
    batch_indices: Host,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Return for each region a grid of means, or maxima, of x between its pixels."""
    half = coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    require_bounded("RoiAlign", (len(rois), x.shape[1], *size), x.size)
    rows = x.permute_dims((0, 2, 3, 1)).reshape((-1, x.shape[1]))
    made = []
    for roi, batch in zip(rois, batch_indices, strict=True):
        x1, y1, x2, y2 = (float(v) * spatial_scale - (0.5 if half else 0.0) for v in roi)
        extents = (y2 - y1, x2 - x1) if half else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
        ratios = [sampling_ratio or math.ceil(e / s) for e, s in zip(extents, size, strict=True)]
        axes = [
            _roi_taps(start, extent, bins, ratio, length)
            for start, extent, bins, ratio, length in zip(
                (y1, x1), extents, size, ratios, x.shape[2:], strict=True
            )
        ]
        made.append(_roi(rows, int(batch) * x.shape[2] * x.shape[3], axes, x.shape[3], size, mode))
    if not made:
        return functions.zeros((0, x.shape[1], *size), dtype=x.dtype, device=x.device)
    return functions.stack(made, 0)


@converts("RoiAlign", since=10)
def roi_align_10(
    x: Tensor,
    rois: Host,
    batch_indices: Host,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Return for each region a grid of means, or maxima, without the half pixel."""
    return roi_align(
        x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


def _roi_taps(
    start: float, extent: float, bins: int, ratio: int, length: int
) -> list[tuple[Array, Array]]:
    """Return the two neighbours of each sample on an axis, and their weights: (bins, ratio)."""
    steps = np.arange(bins)[:, None] * (extent / bins)
    at = start + steps + (np.arange(ratio) + 0.5) * (extent / bins / max(ratio, 1))
    inside = (at >= -1.0) & (at <= length)
    at = at.clip(0, None)
    low = np.minimum(at.astype(np.int64), length - 1)
    high = np.minimum(low + 1, length - 1)
    part = np.where(low >= length - 1, 0.0, at - low)
    return [(low, np.where(inside, 1 - part, 0.0)), (high, np.where(inside, part, 0.0))]


def _roi(
    rows: Tensor, start: int, axes: Sequence[list[tuple[Array, Array]]], width: int,
    size: tuple[int, int], mode: str,
) -> Tensor:  # fmt: skip
    """Return one region: of (pixels, C), the samples of each bin taken together: (C, *size)."""
    parts = []
    for (y, wy), (x, wx) in itertools.product(*axes):
        place = start + y[:, None, :, None] * width + x[None, :, None, :]
        weight = wy[:, None, :, None] * wx[None, :, None, :]
        index = functions.tensor(place.reshape(-1).astype(np.int32), device=rows.device)
        factor = functions.tensor(weight.reshape(-1, 1).astype(np.float32), device=rows.device)
        parts.append(rows.take(index, 0) * factor.astype(rows.dtype))
    shape = (element_count(size), -1, rows.shape[1])
    if mode == "avg":
        total = parts[0] + parts[1] + parts[2] + parts[3]
        found = (
            total.reshape(shape).mean(1)
            if total.shape[0]
            else total.sum(0)
            + functions.zeros(
                (element_count(size), rows.shape[1]), dtype=rows.dtype, device=rows.device
            )
        )
    else:
        found = functions.stack(parts, 1).reshape(shape).max(1)
    return found.mT.reshape((rows.shape[1], *size))


@converts("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Host, *, pooled_shape: Ints, spatial_scale: float = 1.0
) -> Tensor:
    """Return for each region the greatest element of each bin of a grid."""
    made = []
    for batch, *corners in rois.tolist():
        x1, y1, x2, y2 = (math.floor(c * spatial_scale + 0.5) for c in corners)
        spans = [
            _roi_bins(start, end, bins, size)
            for start, end, bins, size in zip(
                (y1, x1), (y2, x2), pooled_shape, x.shape[2:], strict=True
            )
        ]
        image = x[int(batch)]
        bins = [
            image[:, a:b, c:d].max((1, 2)) if b > a and d > c else image.sum((1, 2)) * 0
            for (a, b), (c, d) in itertools.product(*spans)
        ]
        made.append(functions.stack(bins, 1).reshape((x.shape[1], *pooled_shape)))
    return functions.stack(made, 0)


def _roi_bins(start: int, end: int, bins: int, size: int) -> list[tuple[int, int]]:
    step = max(end - start + 1, 1) / bins
    edges = ((math.floor(i * step), math.ceil((i + 1) * step)) for i in range(bins))
    return [(min(max(a + start, 0), size), min(max(b + start, 0), size)) for a, b in edges]


@converts("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes: Host,
    scores: Host,
    max_output_boxes_per_class: Host | None = None,
    iou_threshold: Host | None = None,
    score_threshold: Host | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    """Return (batch, class, box) of the boxes that no better one overlaps; the host chooses."""
    most = 0 if max_output_boxes_per_class is None else integer(max_output_boxes_per_class)
    overlap = 0.0 if iou_threshold is None else number(iou_threshold)
    least = None if score_threshold is None else number(score_threshold)
    corners = _corners(boxes, bool(center_point_box))
    found = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        kept = _kept_boxes(corners[batch], scores[batch, kind], most, overlap, least)
        found += [(batch, kind, box) for box in kept]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, is_centred: bool) -> Array:
    """Return boxes as least and greatest corners: (..., 4)."""
    if is_centred:
        half = boxes[..., 2:] / 2
        return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    ends = np.stack([boxes[..., :2], boxes[..., 2:]])
    return np.concatenate([ends.min(0), ends.max(0)], -1)


def _kept_boxes(
    corners: Array, scores: Array, most: int, overlap: float, least: float | None
) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    kept: list[int] = []
    for box in order.tolist():
        if len(kept) >= most or (least is not None and not scores[box] > least):
            break
        sides = np.minimum(corners[kept, 2:], corners[box, 2:]) - np.maximum(
            corners[kept, :2], corners[box, :2]
        )
        shared = np.where((sides > 0).all(-1), sides.prod(-1), 0.0)
        union = areas[kept] + areas[box] - shared
        if not (shared > overlap * union).any():
            kept.append(box)
    return kept


@converts("ImageDecoder", since=20)
def image_decoder(call: Call, encoded: Host, *, pixel_format: str = "RGB") -> Tensor:
    """Return the pixels of an encoded picture: (H, W, channels), uint8."""
    try:
        with Image.open(io.BytesIO(encoded.tobytes())) as picture:
            pixels = np.asarray(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"ImageDecoder requires a picture, got: {error}") from None
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return call.tensor(np.array(pixels[..., ::-1] if pixel_format == "BGR" else pixels))
