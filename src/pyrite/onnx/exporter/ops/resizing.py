"""Images resized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.onnx.exporter.size import Size
from pyrite.op import Attributes
from pyrite.types import float32

#: Modes that ONNX has: lanczos3 it has not, so that is written by its body.
_MODES = {"nearest": "nearest", "nearest_exact": "nearest", "linear": "linear", "cubic": "cubic"}


def _has_mode(types: Types, attrs: Attributes) -> bool:
    return attrs["mode"] in _MODES


@exports("interpolate", when=_has_mode)
def _interpolate(
    call: Call,
    x: Value,
    *,
    size: Sequence[Size],
    scale_factor: Sequence[float] | None,
    mode: str,
    align_corners: bool,
) -> Value:
    attrs: dict[str, Any] = {"mode": _MODES[mode]}
    if mode == "nearest":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif mode == "nearest_exact":
        attrs |= {
            "coordinate_transformation_mode": "half_pixel",
            "nearest_mode": "round_prefer_ceil",
        }
    else:
        corners = "align_corners" if align_corners else "half_pixel"
        attrs |= {"coordinate_transformation_mode": corners}
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": -0.75}
    if scale_factor is not None:
        scales = call.array(np.array([1, 1, *scale_factor]), float32)
        return call.emit("Resize", x, None, scales, None, **attrs)
    sizes = call.integers((*x.shape[:2], *size))
    return call.emit("Resize", x, None, None, sizes, **attrs)


@exports("pixel_shuffle", when=lambda types, _: types[0] is not None and types[0].ndim == 4)
def _pixel_shuffle(call: Call, x: Value, *, upscale_factor: int) -> Value:
    return call.emit("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")
