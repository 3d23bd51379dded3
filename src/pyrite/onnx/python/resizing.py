"""Translators of images resized: a call of `Tensor.interpolate` where that means the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.onnx.ops.resize import Manner, own_manner
from pyrite.onnx.python.code import Code, code, listed, literal, local, method
from pyrite.onnx.python.elementwise import shortest
from pyrite.onnx.python.use import NodeUse, translates
from pyrite.onnx.python.value import Size, as_sizes, size_code

#: The names that a reader knows a mode by, by the number of axes in space.
_MODES = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("cubic", "bicubic", "cubic")}


@translates("Resize", "Upsample")
def resize(use: NodeUse) -> Code | None:
    """Write a call that resizes all axes in space, by factors or to sizes."""
    own, rank = own_manner(_manner(use)), use.rank(0)
    if own is None or rank not in (3, 4, 5) or not use.is_float(0):
        return None
    mode = _MODES.get(own["mode"], (own["mode"],) * 3)[rank - 3]
    named = {"mode": literal(mode)} if mode != "nearest" else {}
    if own["align_corners"]:
        named["align_corners"] = literal(True)
    factors = _factors(use)
    if factors is None:
        sizes = _sizes(use, rank)
        return None if sizes is None else method(use.tensor(0), "interpolate", sizes, **named)
    is_whole = all(factor == round(factor) for factor in factors)
    if len(factors) != rank or set(factors[:2]) != {1.0} or (own["align_corners"] and not is_whole):
        return None
    found = [int(f) if f == round(f) else shortest(f) for f in factors[2:]]
    factor: Any = found[0] if len(set(found)) == 1 else tuple(found)
    return method(use.tensor(0), "interpolate", scale_factor=literal(factor), **named)


def _manner(use: NodeUse) -> Manner:
    if use.node.op == "Upsample" or use.node.version < 11:
        mode = use.attribute("mode", "nearest")
        return Manner("linear" if mode == "bilinear" else mode, "asymmetric", "floor")
    return Manner(
        use.attribute("mode", "nearest"),
        use.attribute("coordinate_transformation_mode", "half_pixel"),
        use.attribute("nearest_mode", "round_prefer_floor"),
        use.attribute("cubic_coeff_a", -0.75),
        bool(use.attribute("exclude_outside", 0)),
        bool(use.attribute("antialias", 0)) or use.attribute("axes") is not None,
    )


def _factors(use: NodeUse) -> Sequence[float] | None:
    """Return the factor of each axis; None where sizes are given."""
    if use.node.op == "Upsample" or use.node.version < 11:
        array = use.fixed(1)
        found = use.attribute("scales") if array is None else array.tolist()
        return found or ()
    array = use.fixed(2)
    return array.tolist() if array is not None and array.size else None


def _sizes(use: NodeUse, rank: int) -> Code | None:
    """Return the new sizes in space; None where other axes do not keep theirs."""
    found = as_sizes(use.value(3))
    policy = use.attribute("keep_aspect_ratio_policy", "stretch")
    if found is None or len(found.items) != rank or policy != "stretch":
        return None
    if not all(_keeps(use, axis, found.items[axis]) for axis in (0, 1)):
        return None
    return listed(map(size_code, found.items[2:]))


def _keeps(use: NodeUse, axis: int, size: int | Size) -> bool:
    """Whether a size is that of an axis already."""
    old = (use.shape(0) or ())[axis]
    if isinstance(size, int):
        return size == old
    is_named = size.symbol is not None and size.symbol == old
    return is_named or size.code == code(f"{{}}.shape[{axis}]", local(use.node.inputs[0]))
