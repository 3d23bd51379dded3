"""Interpolation: (N, C, *sizes) read at other places, one axis after the other; pixel shuffles.

The host computes where each new element lies between old ones and how they weigh; a gradient reads
by the same tables turned round.  Positions are PyTorch's: the new element i lies at
(i + 0.5) in / out - 0.5, or, with align_corners, at i (in - 1) / (out - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, sample
from pyrite.tensor.resampling import Resampling, Tables, Taps, kept
from pyrite.tensor.window import Sizes, sizes_per_axis
from pyrite.types import Array, Number, Shape, TensorType

Mode = Literal[
    "nearest", "nearest_exact", "linear", "bilinear", "trilinear", "cubic", "bicubic", "lanczos3"
]

#: The modes that are names of others, with their number of spatial axes.
_ALIASES = {"bilinear": ("linear", 2), "trilinear": ("linear", 3), "bicubic": ("cubic", 2)}


def _cubic(distance: Array) -> Array:
    """Keys' kernel with a = -0.75, as in OpenCV and PyTorch.  Source: Keys 1981, eq. 4."""
    a, x = -0.75, np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    weight: Array = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return weight


def _lanczos3(distance: Array) -> Array:
    """sinc(x) sinc(x / 3) for |x| < 3.  Source: Turkowski 1990, Graphics Gems I."""
    window = np.sinc(distance) * np.sinc(distance / 3)
    weight: Array = np.where(np.abs(distance) < 3, window, 0.0)
    return weight


def _triangle(distance: Array) -> Array:
    weight: Array = np.maximum(1 - np.abs(distance), 0.0)
    return weight


#: Weight of an element by its distance, and how many elements to each side it reaches.
_KERNELS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_cubic, 2),
    "lanczos3": (_lanczos3, 3),
}


def _attributes(
    x: TensorType, *, size: Any, scale_factor: Any, mode: str, align_corners: bool
) -> Attributes:
    """Both sizes and scales as tuples; the scale is None where only the size was given."""
    rank = x.ndim - 2
    if not 1 <= rank <= 3:
        raise ShapeError(f"interpolate requires x of 3 to 5 axes, (N, C, *sizes), got {x.shape}")
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            f"interpolate requires either size or scale_factor, got {size} and {scale_factor}"
        )
    mode = _mode(mode, rank)
    if align_corners and mode.startswith("nearest"):
        raise ArgumentError(f"interpolate requires align_corners=False for mode {mode!r}, got True")
    if scale_factor is not None:
        scale_factor = _scales(scale_factor, rank)
        size = tuple(math.floor(n * s) for n, s in zip(x.shape[2:], scale_factor, strict=True))
    sizes = sizes_per_axis("interpolate", "size", size, rank)
    return {
        "size": sizes, "scale_factor": scale_factor, "mode": mode, "align_corners": align_corners
    }  # fmt: skip


def _mode(mode: str, rank: int) -> str:
    plain, wanted = _ALIASES.get(mode, (mode.replace("-", "_"), rank))
    if plain not in ("nearest", "nearest_exact", *_KERNELS) or wanted != rank:
        names = [m for m, (_, r) in _ALIASES.items() if r == rank]
        known = ", ".join(["nearest", "nearest_exact", *_KERNELS, *names])
        raise ArgumentError(
            f"interpolate requires mode to be one of {known} for {rank} spatial axes, got {mode!r}"
        )
    return plain


def _scales(scale_factor: Any, rank: int) -> tuple[float, ...]:
    given = scale_factor if isinstance(scale_factor, list | tuple) else (scale_factor,) * rank
    found = tuple(float(s) for s in given)
    if len(found) != rank or not all(0 < s < math.inf for s in found):
        raise ArgumentError(
            f"interpolate requires scale_factor to be a number > 0 or {rank} of them, "
            f"got {scale_factor}"
        )
    return found


def _interpolated_type(x: TensorType, *, size: Shape, **rest: Any) -> TensorType:
    if 0 in x.shape[2:]:
        raise ShapeError(f"interpolate requires spatial sizes >= 1, got shape {x.shape}")
    return TensorType((*x.shape[:2], *size), x.dtype)


def _resized_type(
    g: TensorType, *, sizes: Shape, scale_factor: Any, mode: str, align_corners: bool
) -> TensorType:
    if 0 in (*g.shape[2:], *sizes):
        raise ShapeError(
            f"interpolate_backward requires spatial sizes >= 1, got g {g.shape} for sizes {sizes}"
        )
    return TensorType((*g.shape[:2], *sizes), g.dtype)


def _interpolate_vjp(g: Any, _: Any, x_type: TensorType, *, size: Shape, **positions: Any) -> Any:
    return g._interpolate_backward(sizes=x_type.shape[2:], **positions)


def _interpolate_backward_vjp(
    c: Any, _: Any, g_type: TensorType, *, sizes: Shape, scale_factor: Any, **positions: Any
) -> Any:
    size = g_type.shape[2:] if scale_factor is None else None
    return c.interpolate(size, scale_factor=scale_factor, **positions)


@kept
def _tables(
    old: Shape, new: Shape, scales: tuple[float, ...] | None, mode: str, align_corners: bool,
    *, is_transposed: bool = False,
) -> Tables:  # fmt: skip
    """Return how axes of the old sizes are read anew, or, transposed, those of the new sizes."""
    found = {}
    axes = zip(old, new, scales or (None,) * len(old), strict=True)
    for axis, (n, count, scale) in enumerate(axes, start=2):
        if n != count or scale not in (None, 1):
            taps = _taps(n, count, scale, mode, align_corners)
            found[axis] = taps.transposed(n) if is_transposed else taps
    return Tables.of(found)


def _taps(old: int, new: int, scale: float | None, mode: str, align_corners: bool) -> Taps:
    """Return the places and weights of each new element; beyond the ends the end repeats."""
    i = np.arange(new)
    if mode == "nearest":
        places = i * old // new if scale is None else np.floor(i / scale).astype(np.int64)
        return Taps(np.minimum(places, old - 1)[None])
    if mode == "nearest_exact":
        ratio = old / new if scale is None else 1 / scale
        return Taps(np.minimum(np.floor((i + 0.5) * ratio).astype(np.int64), old - 1)[None])
    kernel, reach = _KERNELS[mode]
    position = _source(i, old, new, scale, align_corners)
    if mode == "linear":
        position = np.clip(position, 0, old - 1)
    first = np.floor(position).astype(np.int64) - reach + 1
    places = first + np.arange(2 * reach)[:, None]
    weights = kernel(position - places)
    return Taps(np.clip(places, 0, old - 1), weights / weights.sum(0))


def _source(i: Array, old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    if align_corners:
        return i * ((old - 1) / (new - 1)) if new > 1 else i * 0.0
    found: Array = (i + 0.5) * (old / new if scale is None else 1 / scale) - 0.5
    return found


def _shuffled_type(x: TensorType, *, upscale_factor: int) -> TensorType:
    area = upscale_factor**2
    if x.ndim < 3 or x.shape[-3] % area:
        raise ShapeError(
            f"pixel_shuffle requires x.shape[-3] to be a multiple of upscale_factor ** 2, got "
            f"{x.shape} and {upscale_factor}"
        )
    *batch, channels, height, width = x.shape
    sizes = (channels // area, height * upscale_factor, width * upscale_factor)
    return TensorType((*batch, *sizes), x.dtype)


def _unshuffled_type(x: TensorType, *, downscale_factor: int) -> TensorType:
    if x.ndim < 3 or x.shape[-2] % downscale_factor or x.shape[-1] % downscale_factor:
        raise ShapeError(
            f"pixel_unshuffle requires height and width to be multiples of downscale_factor, got "
            f"{x.shape} and {downscale_factor}"
        )
    *batch, channels, height, width = x.shape
    sizes = (height // downscale_factor, width // downscale_factor)
    return TensorType((*batch, channels * downscale_factor**2, *sizes), x.dtype)


def _factor(op: str, name: str) -> Callable[..., Attributes]:
    def canonical(x: TensorType, **attrs: Any) -> Attributes:
        return {name: sizes_per_axis(op, name, attrs[name], 1)[0]}

    return canonical


class Interpolation(Resampling):
    """Images resized."""

    __slots__ = ()

    @composite(
        infer=_interpolated_type,
        canonical=_attributes,
        vjp=(_interpolate_vjp,),
        accepts="float",
        promotes="all",
        samples=(
            sample((1, 2, 3), size=5),
            sample((1, 1, 3, 4), size=(5, 2), mode="bilinear"),
            sample((1, 1, 3, 3), scale_factor=2, mode="bicubic", align_corners=True),
            sample((1, 1, 2, 3, 2), scale_factor=(1, 2, 1.5), mode="trilinear"),
            sample((1, 1, 4), size=7, mode="lanczos3"),
        ),
    )
    def interpolate(
        self,
        /,
        size: Sizes | None = None,
        *,
        scale_factor: Number | Sequence[Number] | None = None,
        mode: Mode = "nearest",
        align_corners: bool = False,
    ) -> Self:
        """Resized along the spatial axes: (N, C, *S) -> (N, C, *size); size = floor(S scale).

        "nearest" reads floor(i in / out) and "nearest_exact" the element in whose middle i falls;
        "linear" (also "bilinear", "trilinear"), "cubic" ("bicubic") and "lanczos3" weigh 2, 4 or 6
        neighbours along each axis.  Beyond the ends the end repeats.  Integers become floats.

        Raises ArgumentError unless just one of size and scale_factor is given.

        >>> import pyrite
        >>> pyrite.tensor([[[1.0, 2.0]]]).interpolate(4, mode="linear").numpy().tolist()
        [[[1.0, 1.25, 1.75, 2.0]]]
        """
        sizes: Any = size
        scales: Any = scale_factor
        return self._resampled(_tables(self.shape[2:], sizes, scales, mode, align_corners))

    @composite(
        infer=_resized_type,
        vjp=(_interpolate_backward_vjp,),
        accepts="float",
        promotes="all",
        samples=(
            sample(
                (1, 2, 5), sizes=(3,), scale_factor=None, mode="nearest", align_corners=False
            ),
            sample(
                (1, 1, 5, 3), sizes=(3, 4), scale_factor=None, mode="linear", align_corners=True
            ),
            sample(
                (1, 1, 2, 9), sizes=(2, 4), scale_factor=(1.0, 2.3), mode="cubic",
                align_corners=False,
            ),
        ),
    )  # fmt: skip
    def _interpolate_backward(
        self, /, *, sizes: Shape, scale_factor: tuple[float, ...] | None, mode: str,
        align_corners: bool,
    ) -> Self:  # fmt: skip
        """The transpose of `interpolate`: (N, C, *size) -> (N, C, *sizes); self is g."""
        new = self.shape[2:]
        tables = _tables(sizes, new, scale_factor, mode, align_corners, is_transposed=True)
        return self._resampled(tables)

    @composite(
        infer=_shuffled_type,
        canonical=_factor("pixel_shuffle", "upscale_factor"),
        samples=(sample((2, 4, 2, 3), upscale_factor=2),),
    )
    def pixel_shuffle(self, /, upscale_factor: int) -> Self:
        """Channels spread over pixels: (..., C r², H, W) -> (..., C, H r, W r).

        Source: Shi et al. 2016, arXiv:1609.05158.
        """
        r = upscale_factor
        *batch, channels, height, width = self.shape
        split = self.reshape((*batch, channels // r**2, r, r, height, width))
        b = len(batch)
        moved = split.permute_dims((*range(b + 1), b + 3, b + 1, b + 4, b + 2))
        return moved.reshape((*batch, channels // r**2, height * r, width * r))

    @composite(
        infer=_unshuffled_type,
        canonical=_factor("pixel_unshuffle", "downscale_factor"),
        samples=(sample((2, 1, 4, 6), downscale_factor=2),),
    )
    def pixel_unshuffle(self, /, downscale_factor: int) -> Self:
        """Pixels gathered into channels: (..., C, H r, W r) -> (..., C r², H, W)."""
        r = downscale_factor
        *batch, channels, height, width = self.shape
        split = self.reshape((*batch, channels, height // r, r, width // r, r))
        b = len(batch)
        moved = split.permute_dims((*range(b + 1), b + 2, b + 4, b + 1, b + 3))
        return moved.reshape((*batch, channels * r**2, height // r, width // r))
