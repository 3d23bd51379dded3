"""Reading images and volumes at points of a grid: spatial transformers, warps, optical flow.

Points are given between -1 and 1 over an image, x before y before z, as in PyTorch.  A point lies
among elements, the taps of its mode; what it reads is their sum by weights that depend on it, so
gradients reach the image and the points.
Source: Jaderberg et al. 2015, arXiv:1506.02025.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple, get_args

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, Spec, composite, public, sample
from pyrite.tensor.creation import arange
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.tensor import Tensor
from pyrite.types import Shape, TensorType, normalize_shape

#: How many taps an axis has: one, two or four; PyTorch's words for images are taken too.
GridMode = Literal["nearest", "linear", "cubic", "bilinear", "bicubic"]
#: What a point outside reads: nothing, the nearest element, or what a mirror shows.
GridPadding = Literal["zeros", "border", "reflection"]

_OP = "grid_sample"
_PLAIN = {"bilinear": "linear", "bicubic": "cubic"}
#: The slope of the cubic at its inner taps, as everywhere in PyTorch (Keys 1981 has -0.5).
_CUBIC = -0.75


# ---- types ----


def _canonical(
    x: TensorType, grid: TensorType, *, mode: str, padding_mode: str, align_corners: bool
) -> Attributes:
    for name, value, known in (
        ("mode", mode, get_args(GridMode)),
        ("padding_mode", padding_mode, get_args(GridPadding)),
    ):
        if value not in known:
            raise ArgumentError(f"{_OP} requires {name} of {', '.join(known)}, got {value!r}")
    return {
        "mode": _PLAIN.get(mode, mode),
        "padding_mode": padding_mode,
        "align_corners": bool(align_corners),
    }


def _type(
    x: TensorType, grid: TensorType, *, mode: str, padding_mode: str, align_corners: bool
) -> TensorType:
    axes = x.ndim - 2
    if axes not in (2, 3):
        raise ShapeError(
            f"{_OP} requires x of shape (N, C, H, W) or (N, C, D, H, W), got {x.shape}"
        )
    if grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != axes:
        places = ", ".join("DHW"[-axes:])
        raise ShapeError(
            f"{_OP} requires a grid of shape ({x.shape[0]}, {places}, {axes}) for x of shape "
            f"{x.shape}, got {grid.shape}"
        )
    if not all(x.shape[2:]):
        raise ShapeError(f"{_OP} requires spatial axes of at least one element, got {x.shape}")
    if mode == "cubic" and axes == 3:
        raise ArgumentError(f"{_OP} requires mode 'linear' or 'nearest' for volumes, got 'cubic'")
    return TensorType((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


# ---- meaning ----


@public
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: GridMode = "linear",
    padding_mode: GridPadding = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return x at the points of a grid: (N, C, H, W), (N, H', W', 2) -> (N, C, H', W').

    Or (N, C, D, H, W), (N, D', H', W', 3) -> (N, C, D', H', W').  A point is (x, y) or (x, y, z),
    -1 to 1 from one border of the image to the other, or with ``align_corners`` from the middle of
    the first element to that of the last.  ``mode`` is "linear" (PyTorch's "bilinear"), "nearest"
    (the even one of two) or, of images, "cubic".  A point outside reads zeros, the "border", or the
    "reflection" at it.  A coordinate that is NaN gives NaN or an element of the border.

    Raises ShapeError, and ArgumentError for a mode that is none.
    Source: Jaderberg et al. 2015, arXiv:1506.02025, equation 5.

    >>> import pyrite
    >>> image = pyrite.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> pyrite.grid_sample(image, pyrite.tensor([[[[0.0, 0.0], [0.5, -0.5]]]])).tolist()
    [[[[2.5, 2.0]]]]
    """
    return _grid_sample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners)


#: Points inside and outside, of which none is between two pieces of a mode.
_POINTS = Spec((1, 2, 3, 2), low=-1.37, high=1.31)
_IMAGE = (1, 2, 3, 4)


@composite(
    canonical=_canonical,
    infer=_type,
    accepts="float",
    promotes="all",
    samples=(
        sample(_IMAGE, _POINTS, mode="linear", padding_mode="zeros", align_corners=False),
        sample(_IMAGE, _POINTS, mode="nearest", padding_mode="border", align_corners=True),
        sample(_IMAGE, _POINTS, mode="cubic", padding_mode="reflection", align_corners=False),
        sample((2, 1, 2, 3, 2), Spec((2, 1, 2, 1, 3), low=-1.37, high=1.31), mode="linear",
               padding_mode="reflection", align_corners=True),
        sample((2, 1, 2, 2), Spec((2, 0, 2, 2)), mode="linear", padding_mode="zeros",
               align_corners=False),
    ),
)  # fmt: skip
def _grid_sample(
    x: Tensor, grid: Tensor, /, *, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """x at the points of a grid."""
    n, channels, *sizes = x.shape
    points = widened(grid)
    count = math.prod(points.shape[1:-1])
    along = []
    for axis, size in enumerate(sizes):
        # The last component of a point is that of the first spatial axis.
        place = points[..., len(sizes) - 1 - axis].reshape((n, 1, count))
        rules = _Axis(size, padding_mode, align_corners)
        along.append(_TAPS[mode](rules.place(place), rules))
    taps = [_joined(parts, sizes) for parts in itertools.product(*along)]
    index = concat([tap.index for tap in taps], axis=-1).astype("int32")
    is_inside = stack([tap.is_inside for tap in taps], axis=2)
    read = x.reshape((n, channels, math.prod(sizes))).take_along_axis(index, 2)
    read = widened(read).reshape((n, channels, len(taps), count))
    # By a choice, for 0 times what is no number would not be 0.
    found: Tensor = is_inside._where(read, 0.0)
    if mode != "nearest":
        found = found * stack([tap.weight for tap in taps], axis=2)
    return in_dtype(found.sum(2), x.dtype).reshape((n, channels, *grid.shape[1:-1]))


class _Tap(NamedTuple):
    """An element near a point: where it is, as a float, whether it is there, and its weight."""

    index: Any
    is_inside: Any
    weight: Any


class _Axis(NamedTuple):
    """What an axis makes of coordinates."""

    size: int
    padding_mode: str
    align_corners: bool

    def place(self, coordinate: Any) -> Any:
        """Return where a coordinate of -1 to 1 lies, the middle of the first element being 0."""
        if self.align_corners:
            return (coordinate + 1.0) * ((self.size - 1) / 2)
        return (coordinate + 1.0) * (self.size / 2) - 0.5

    def padded(self, place: Any) -> Any:
        """Return a place that the padding moves inside; with zeros the place itself."""
        if self.padding_mode == "zeros":
            return place
        if self.padding_mode == "reflection":
            place = self._reflected(place)
        # By choices, so that a place on the border has no slope, as in PyTorch.
        place = (place > 0.0)._where(place, 0.0)
        last = self.size - 1.0
        return (place < last)._where(place, last)

    def _reflected(self, place: Any) -> Any:
        """Return the place that two mirrors show: in the first and last elements, or outside."""
        low, span = (0.0, self.size - 1.0) if self.align_corners else (-0.5, float(self.size))
        if not span:
            return place * 0.0
        far = place - low
        far = (far < 0.0)._where(-far, far)
        turns = (far / span).floor()
        left = far - turns * span
        is_even = (turns * 0.5).floor() * 2.0 == turns
        return is_even._where(left, span - left) + low

    def tap(self, place: Any, weight: Any) -> _Tap:
        """Return the tap at a whole place."""
        is_inside = (place >= 0.0) & (place <= self.size - 1.0)
        return _Tap(is_inside._where(place, 0.0), is_inside, weight)


def _nearest(place: Any, axis: _Axis) -> list[_Tap]:
    place = axis.padded(place).round()
    return [axis.tap(place, 1.0)]


def _linear(place: Any, axis: _Axis) -> list[_Tap]:
    place = axis.padded(place)
    first = place.floor()
    part = place - first
    return [axis.tap(first, 1.0 - part), axis.tap(first + 1.0, part)]


def _cubic(place: Any, axis: _Axis) -> list[_Tap]:
    """Return four taps; it is they that are padded, not the point."""
    first = place.floor()
    part = place - first
    return [
        axis.tap(axis.padded(first + float(step)), _cubic_weight((part - float(step)).abs(), step))
        for step in (-1, 0, 1, 2)
    ]


def _cubic_weight(distance: Any, step: int) -> Any:
    if step in (0, 1):
        return ((_CUBIC + 2.0) * distance - (_CUBIC + 3.0)) * distance * distance + 1.0
    outer = ((distance - 5.0) * distance + 8.0) * distance - 4.0
    return outer * _CUBIC


_TAPS = {"nearest": _nearest, "linear": _linear, "cubic": _cubic}


def _joined(parts: tuple[_Tap, ...], sizes: list[int]) -> _Tap:
    """Return the tap of all axes, its index in row-major order."""
    index, is_inside, weight = parts[0]
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        index = index.astype("int32") * size + part.index.astype("int32")
        is_inside, weight = is_inside & part.is_inside, weight * part.weight
    return _Tap(index, is_inside, weight)


# ---- grids of affine maps ----


def _sizes(theta: TensorType, *, size: Shape, align_corners: bool) -> Attributes:
    return {"size": normalize_shape("affine_grid", size), "align_corners": bool(align_corners)}


def _affine_type(theta: TensorType, *, size: Shape, align_corners: bool) -> TensorType:
    axes = len(size) - 2
    if axes not in (2, 3) or not all(n >= 1 for n in size[2:]):
        raise ShapeError(
            f"affine_grid requires a size (N, C, H, W) or (N, C, D, H, W), none of H, W, D 0, got "
            f"{size}"
        )
    if theta.shape != (size[0], axes, axes + 1):
        raise ShapeError(
            f"affine_grid requires theta of shape {(size[0], axes, axes + 1)} for size {size}, got "
            f"{theta.shape}"
        )
    return TensorType((size[0], *size[2:], axes), theta.dtype)


@composite(
    canonical=_sizes,
    infer=_affine_type,
    accepts="float",
    promotes="all",
    samples=(
        sample((2, 2, 3), size=(2, 1, 3, 2), align_corners=False),
        sample((1, 3, 4), size=(1, 2, 2, 1, 3), align_corners=True),
    ),
)
def affine_grid(theta: Tensor, /, size: Shape, *, align_corners: bool = False) -> Tensor:
    """The grid of an affine map for `grid_sample`: (N, 2, 3) -> (N, H, W, 2).

    Or (N, 3, 4) -> (N, D, H, W, 3).  ``size`` is that of the result, (N, C, H, W); the point of an
    element is theta (x, y, 1), with x and y the middle of the element between -1 and 1.

    >>> import pyrite
    >>> half = pyrite.tensor([[[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]])
    >>> pyrite.affine_grid(half, size=(1, 1, 1, 2)).tolist()
    [[[[-0.25, 0.0], [0.25, 0.0]]]]
    """
    n, _, *sizes = size
    wide = widened(theta)
    shape = tuple(sizes)
    axes = [
        _middles(count, align_corners, wide)
        .reshape(tuple(count if a == axis else 1 for a in range(len(sizes))))
        .broadcast_to(shape)
        .flatten()
        for axis, count in enumerate(sizes)
    ]
    points = stack([*reversed(axes), axes[0] * 0.0 + 1.0], axis=-1)
    found: Tensor = (points @ wide.mT).reshape((n, *shape, len(sizes)))
    return in_dtype(found, theta.dtype)


def _middles(count: int, align_corners: bool, like: Any) -> Any:
    """Return where the middles of elements lie between -1 and 1."""
    steps = arange(count, dtype=like.dtype, device=like.device)
    if not align_corners:
        return (steps * 2.0 + 1.0) / count - 1.0
    return steps * (2.0 / (count - 1)) - 1.0 if count > 1 else steps
