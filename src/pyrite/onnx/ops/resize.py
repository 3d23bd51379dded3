"""Resize and Upsample: as Pyrite's own op where it means the same, else axis by axis.

Each new element of an axis is a weighted sum of old ones.  The weights are a matrix that the host
makes, (new, old), from where each new element lies.  Source: the ONNX specification of Resize-19.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import ArgumentError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Host, converts
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


@dataclass(frozen=True, slots=True)
class Manner:
    """How elements are found: the attributes of Resize that hold for all axes."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    excludes_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0
    #: Whether the file has scales, from which the sizes follow, and not sizes.
    has_scales: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis to resize; ``region`` is the part of it that tf_crop_and_resize looks at."""

    axis: int
    size: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


@converts("Resize", since=11)
def resize(
    x: Tensor,
    roi: Host | None = None,
    scales: Host | None = None,
    sizes: Host | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Return x with axes of other sizes."""
    manner = Manner(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a,
        bool(exclude_outside), bool(antialias), extrapolation_value,
        has_scales=scales is not None and bool(scales.size),
    )  # fmt: skip
    named = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    if scales is not None and manner.has_scales:
        found = [
            (math.floor(x.shape[a] * s), s) for a, s in zip(named, map(float, scales), strict=True)
        ]
    elif sizes is not None and sizes.size:
        found = _scaled_to([x.shape[a] for a in named], sizes.tolist(), keep_aspect_ratio_policy)
    else:
        raise ArgumentError("Resize requires scales or sizes, got neither")
    regions = [(0.0, 1.0)] * len(named)
    if roi is not None and roi.size:
        regions = list(zip(roi[: len(named)].tolist(), roi[len(named) :].tolist(), strict=True))
    wanted = [
        Axis(a, size, scale, region)
        for a, (size, scale), region in zip(named, found, regions, strict=True)
    ]
    return _resized(x, wanted, manner)


def _scaled_to(old: Sequence[int], new: Sequence[int], policy: str) -> list[tuple[int, float]]:
    scales = [n / o for n, o in zip(new, old, strict=True)]
    if policy == "stretch":
        return list(zip(new, scales, strict=True))
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [(math.floor(scale * o + 0.5), scale) for o in old]


@converts("Resize", since=10)
def resize_10(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    """Return x with axes of other sizes."""
    return _upsampled(x, scales.tolist(), mode)


@converts("Upsample", since=9)
def upsample(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    """Return x with axes of other sizes."""
    return _upsampled(x, scales.tolist(), mode)


@converts("Upsample", since=7)
def upsample_7(x: Tensor, *, mode: str = "nearest", scales: Sequence[float]) -> Tensor:
    """Return x with axes of other sizes."""
    return _upsampled(x, scales, mode)


@converts("Upsample", since=1)
def upsample_1(
    x: Tensor, *, height_scale: float, mode: str = "nearest", width_scale: float
) -> Tensor:
    """Return x with its last two axes of other sizes."""
    return _upsampled(x, [1.0, 1.0, height_scale, width_scale], mode)


def _upsampled(x: Tensor, scales: Sequence[float], mode: str) -> Tensor:
    manner = Manner("linear" if mode == "bilinear" else mode, "asymmetric", "floor")
    axes = [Axis(a, math.floor(x.shape[a] * s), s) for a, s in enumerate(scales)]
    return _resized(x, axes, manner)


def _resized(x: Tensor, axes: Sequence[Axis], manner: Manner) -> Tensor:
    _require_bounded(x, axes)
    own = own_manner(manner)
    if own is not None and (given := _own_sizes(x, axes, manner)) is not None:
        return x.interpolate(**given, **own)
    outside = np.zeros((1,) * x.ndim, bool)
    wide = x
    for axis in axes:
        old = x.shape[axis.axis]
        is_kept = axis.size == old and axis.scale == 1.0
        if is_kept and manner.coordinates != "tf_crop_and_resize":
            continue
        at = _positions(axis, old, manner)
        wide = _moved(wide, axis, at, old, manner)
        if manner.coordinates == "tf_crop_and_resize":
            beyond = (at < 0) | (at > old - 1)
            outside = outside | beyond.reshape([-1 if a == axis.axis else 1 for a in range(x.ndim)])
    if outside.any():
        wide = functions.where(
            functions.tensor(outside, device=x.device), manner.extrapolation, wide
        )
    return _as(wide, x)


#: What Pyrite's op calls a mode: by the mode, the coordinates and, of the nearest, its rule.
_OWN = {
    ("nearest", "asymmetric", "floor"): ("nearest", False),
    ("nearest", "half_pixel", "round_prefer_ceil"): ("nearest_exact", False),
    ("linear", "half_pixel", ""): ("linear", False),
    ("linear", "pytorch_half_pixel", ""): ("linear", False),
    ("linear", "align_corners", ""): ("linear", True),
    ("cubic", "half_pixel", ""): ("cubic", False),
    ("cubic", "pytorch_half_pixel", ""): ("cubic", False),
    ("cubic", "align_corners", ""): ("cubic", True),
}


def own_manner(manner: Manner) -> dict[str, Any] | None:
    """Return the attributes with which `Tensor.interpolate` means the same; None without any."""
    if manner.antialias or manner.excludes_outside:
        return None
    if manner.mode == "cubic" and manner.cubic != -0.75:
        return None
    rule = manner.nearest if manner.mode == "nearest" else ""
    found = _OWN.get((manner.mode, manner.coordinates, rule))
    return None if found is None else {"mode": found[0], "align_corners": found[1]}


def _own_sizes(x: Tensor, axes: Sequence[Axis], manner: Manner) -> dict[str, Any] | None:
    """Return what `Tensor.interpolate` takes for axes; None where it has no such call."""
    by_axis = {axis.axis: axis for axis in axes}
    spatial = [by_axis.get(a, Axis(a, x.shape[a], 1.0)) for a in range(2, x.ndim)]
    keeps_others = all(a.scale == 1.0 for a in axes if a.axis < 2)
    if not x.dtype.is_float or not spatial or not keeps_others or not all(x.shape):
        return None
    if any(a.size == 0 or (a.size == 1 and manner.coordinates != "asymmetric") for a in spatial):
        return None
    if manner.has_scales and manner.coordinates != "align_corners":
        return {"scale_factor": tuple(a.scale for a in spatial)}
    is_exact = all(a.scale == a.size / x.shape[a.axis] for a in spatial)
    return {"size": tuple(a.size for a in spatial)} if is_exact else None


def _require_bounded(x: Tensor, axes: Sequence[Axis]) -> None:
    sizes = [*x.shape]
    for axis in axes:
        sizes[axis.axis] = axis.size
        require_bounded("Resize", (axis.size, x.shape[axis.axis]))
    require_bounded("Resize", sizes, x.size)


def _as(wide: Tensor, x: Tensor) -> Tensor:
    if wide.dtype is x.dtype:
        return wide
    if x.dtype.is_float:
        return wide.astype(x.dtype)
    return wide.round().clip(x.dtype.lowest, x.dtype.highest).astype(x.dtype)


def _positions(axis: Axis, old: int, manner: Manner) -> Array:
    """Return where each new element lies among the old ones, by the coordinates' rule."""
    i = np.arange(axis.size, dtype=np.float64)
    width = axis.scale * old
    if manner.coordinates == "align_corners":
        return i * 0.0 if width == 1 else i * (old - 1) / (width - 1)
    if manner.coordinates == "asymmetric":
        return i / axis.scale
    if manner.coordinates == "tf_crop_and_resize":
        start, end = axis.region
        if width == 1:
            return i * 0.0 + 0.5 * (start + end) * (old - 1)
        return start * (old - 1) + i * (end - start) * (old - 1) / (width - 1)
    if manner.coordinates == "pytorch_half_pixel" and width == 1:
        return i * 0.0 - 0.5
    centred = (i + 0.5) / axis.scale - 0.5
    if manner.coordinates == "half_pixel_symmetric":
        return centred + old / 2 * (1 - axis.size / width)
    if manner.coordinates == "tf_half_pixel_for_nn":
        return (i + 0.5) / axis.scale
    return centred


def _moved(x: Tensor, axis: Axis, at: Array, old: int, manner: Manner) -> Tensor:
    """Return x with one axis read at other places."""
    if manner.mode == "nearest":
        places = _nearest(at, manner.nearest).clip(0, old - 1).astype(np.int32)
        return x.take(functions.tensor(places, device=x.device), axis.axis)
    kind = x.dtype if x.dtype.is_float else types.float32
    weights = _weights(at, old, axis.scale, manner)
    matrix = functions.tensor(weights.astype(np.float32), device=x.device).astype(kind)
    last = x.astype(kind).swap_axes(axis.axis, -1)
    return last.matmul(matrix.mT).swap_axes(axis.axis, -1)


def _nearest(at: Array, rule: str) -> Array:
    if rule == "floor":
        return np.floor(at)
    if rule == "ceil":
        return np.ceil(at)
    rounded: Array = np.floor(at + 0.5) if rule == "round_prefer_ceil" else np.ceil(at - 0.5)
    return rounded


def _weights(at: Array, old: int, scale: float, manner: Manner) -> Array:
    """Return the weight of each old element in each new one: (new, old)."""
    reach = 2.0 if manner.mode == "cubic" else 1.0
    shrink = min(scale, 1.0) if manner.antialias else 1.0
    # An element that lies on an old one has it as the right of its two: ratios are in (0, 1].
    left = np.ceil(at) - 1
    first = math.floor(-reach / shrink) + 1
    taps = np.arange(first, 2 - first)
    places = left[:, None] + taps
    weights = _kernel((places - at[:, None]) * shrink, manner)
    if manner.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    inside = (places >= 0) & (places < old)
    if manner.excludes_outside:
        weights = np.where(inside, weights, 0.0)
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(at), old))
    rows = np.repeat(np.arange(len(at)), len(taps))
    np.add.at(matrix, (rows, places.clip(0, old - 1).astype(int).reshape(-1)), weights.reshape(-1))
    return matrix


def _kernel(distance: Array, manner: Manner) -> Array:
    x = np.abs(distance)
    if manner.mode == "linear":
        return np.maximum(1 - x, 0.0)
    a = manner.cubic
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    found: Array = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return found
