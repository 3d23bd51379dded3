"""Translators of what layers are made of: layers where the weights are the file's, else methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.onnx.graph import Weight
from pyrite.onnx.python.code import PRODUCT, SUM, Code, call, code, infix, literal, method
from pyrite.onnx.python.elementwise import shortest
from pyrite.onnx.python.use import NodeUse, Several, translates
from pyrite.types import Array

Ints = Sequence[int]
Read = Callable[[], Array]


def _single(sizes: Ints) -> Any:
    """Return one size for all axes where they are equal."""
    return sizes[0] if len(set(sizes)) == 1 else tuple(sizes)


def _padding(use: NodeUse, rank: int) -> Any:
    """Return the padding of windows as a layer takes it; None where sizes decide it."""
    how = use.attribute("auto_pad", "NOTSET")
    if how == "VALID":
        return 0
    if how not in ("NOTSET", ""):
        return None
    pads = use.attribute("pads") or (0,) * 2 * rank
    pairs = [(pads[i], pads[i + rank]) for i in range(rank)]
    if any(before != after for before, after in pairs):
        return tuple(pairs)
    return _single([before for before, _ in pairs])


def _held(use: NodeUse, positions: Sequence[int]) -> list[Weight] | None:
    """Return the weights at positions, if all of them are the file's and on the device."""
    found = [use.weight(i) for i in positions]
    held = [w for w in found if w is not None]
    return held if len(held) == len(found) else None


# ---- convolutions ----


@translates("Conv", "ConvTranspose")
def conv(use: NodeUse) -> Code | None:
    """Write a convolution of one to three axes."""
    shape = use.shape(1)
    rank = len(shape) - 2 if shape is not None else 0
    padding = _padding(use, rank)
    if rank not in (1, 2, 3) or padding is None:
        return None
    is_transposed = use.node.op == "ConvTranspose"
    extra = use.attribute("output_padding") or (0,) * rank
    if is_transposed and not _is_plain_transposed(use, rank, padding, extra):
        return None
    options = {
        "stride": (_single(use.attribute("strides") or (1,)), 1),
        "padding": (padding, 0),
        **({"output_padding": (_single(extra), 0)} if is_transposed else {}),
        "dilation": (_single(use.attribute("dilations") or (1,)), 1),
        "groups": (use.attribute("group", 1), 1),
    }
    named = {name: value for name, (value, default) in options.items() if value != default}
    return _conv_layer(use, rank, named) or _conv_method(use, rank, named)


def _is_plain_transposed(use: NodeUse, rank: int, padding: Any, extra: Ints) -> bool:
    strides = use.attribute("strides") or (1,) * rank
    fits = all(e < s for e, s in zip(extra, strides, strict=True))
    return use.attribute("output_shape") is None and fits and _is_natural(padding)


def _is_natural(padding: Any) -> bool:
    flat = [padding] if isinstance(padding, int) else [
        p for side in padding for p in (side if isinstance(side, tuple) else (side,))
    ]  # fmt: skip
    return all(p >= 0 for p in flat)


def _conv_layer(use: NodeUse, rank: int, named: dict[str, Any]) -> Code | None:
    held = _held(use, [1, 2] if use.has(2) else [1])
    if held is None or not use.is_float(0):
        return None
    weight = held[0]
    if use.node.op == "Conv":
        sizes = (weight.shape[1] * named.get("groups", 1), weight.shape[0])
    else:
        sizes = (weight.shape[0], weight.shape[1] * named.get("groups", 1))
    weights: dict[str, tuple[Weight, Read | None]] = {"weight": (weight, None)}
    given = dict(named)
    if len(held) == 2:
        weights["bias"] = (held[1], None)
    else:
        given["bias"] = False
    name = f"{use.node.op}{rank}d"
    layer = use.layer(name, weights, *sizes, _single(weight.shape[2:]), **given)
    return call(layer, use.tensor(0))


def _conv_method(use: NodeUse, rank: int, named: dict[str, Any]) -> Code:
    name = f"conv{rank}d" if use.node.op == "Conv" else f"conv_transpose{rank}d"
    options = {key: literal(value) for key, value in named.items()}
    return method(use.tensor(0), name, *use.tensors()[1:], **options)


# ---- matrix products ----


@translates("MatMul")
def matmul(use: NodeUse) -> Code | None:
    """Write a linear layer without a bias, or a product."""
    weight = use.weight(1)
    if weight is not None and len(weight.shape) == 2 and use.is_float(0) and use.rank(0):
        into, out = weight.shape
        weights = {"weight": (weight, _transposed(weight))}
        return call(use.layer("Linear", weights, into, out, bias=False), use.tensor(0))
    return infix("@", use.tensor(0), use.tensor(1), PRODUCT)


def _transposed(weight: Weight) -> Read:
    def read() -> Array:
        return weight.read().swapaxes(-1, -2).copy()

    return read


@translates("Linear")
def linear(use: NodeUse) -> Code | None:
    """Write a linear layer, of a product with a weight and what is added to it (`pattern`)."""
    weight, bias = use.weight(1), use.weight(2)
    assert weight is not None, "the pattern is of weights"
    is_transposed = bool(use.attribute("transposed"))
    if is_transposed and bias is None and use.is_held_elsewhere(weight, "Linear"):
        return method(use.tensor(0), "linear", use.tensor(1))
    out, into = weight.shape if is_transposed else weight.shape[::-1]
    weights: dict[str, tuple[Weight, Read | None]] = {
        "weight": (weight, None if is_transposed else _transposed(weight))
    }
    named: dict[str, Any] = {}
    if bias is not None:
        weights["bias"] = (bias, None)
    else:
        named["bias"] = False
    return call(use.layer("Linear", weights, into, out, **named), use.tensor(0))


@translates("Gemm")
def gemm(use: NodeUse) -> Code | None:
    """Write a product of matrices, scaled and added to."""
    if use.node.version < 7 or not use.is_float(0):
        return None
    a, b = use.tensor(0), use.tensor(1)
    a = code("{}.mT", a) if use.attribute("transA", 0) else a
    b = code("{}.mT", b) if use.attribute("transB", 0) else b
    made = infix("@", a, b, PRODUCT)
    alpha, beta = use.attribute("alpha", 1.0), use.attribute("beta", 1.0)
    if alpha != 1.0:
        made = infix("*", made, literal(shortest(alpha)), PRODUCT)
    if not use.has(2) or beta == 0.0:
        return made
    c = use.tensor(2)
    if beta != 1.0:
        c = infix("*", c, literal(shortest(beta)), PRODUCT)
    return infix("+", made, c, SUM)


# ---- norms ----


@translates("BatchNormalization")
def batch_norm(use: NodeUse) -> Code | None:
    """Write a batch norm by its statistics."""
    if use.attribute("training_mode", 0) or any(use.has_output(i) for i in range(1, 5)):
        return None
    if use.attribute("spatial", 1) != 1 or not use.is_float(0):
        return None
    epsilon = shortest(use.attribute("epsilon", 1e-5))
    held = _held(use, [1, 2, 3, 4])
    rank = use.rank(0)
    if held is None:
        if any(use.type(0).element is not use.type(i).element for i in range(1, 5)):
            return None
        order = [use.tensor(i) for i in (3, 4, 1, 2)]
        return method(use.tensor(0), "batch_norm_inference", *order, **_eps(epsilon))
    if held[0].shape is None or len({w.element.name for w in held}) > 1:
        return None
    if held[0].element is not use.type(0).element:
        return None
    names = ("weight", "bias", "running_mean", "running_var")
    weights = {name: (weight, None) for name, weight in zip(names, held, strict=True)}
    momentum = round(1 - use.attribute("momentum", 0.9), 6)
    named = {"eps": (epsilon, 1e-5), "momentum": (momentum, 0.1)}
    given = {key: value for key, (value, default) in named.items() if value != default}
    suffix = {3: "1d", 4: "2d", 5: "3d"}.get(rank or 0, "")
    layer = use.layer(f"BatchNorm{suffix}", weights, held[0].shape[0], **given)
    return call(layer, use.tensor(0))


def _eps(epsilon: float) -> dict[str, Code]:
    return {} if epsilon == 1e-5 else {"eps": literal(epsilon)}


@translates("LayerNormalization")
def layer_norm(use: NodeUse) -> Code | None:
    """Write a layer norm over the last axes."""
    if use.has_output(1) or use.has_output(2) or not use.is_float(0):
        return None
    return _last_axes_norm(use, "LayerNorm", "layer_norm", ["weight", "bias"])


@translates("RMSNormalization")
def rms_norm(use: NodeUse) -> Code | None:
    """Write a norm by the root mean square of the last axes."""
    return _last_axes_norm(use, "RMSNorm", "rms_norm", ["weight"]) if use.is_float(0) else None


def _last_axes_norm(use: NodeUse, layer_name: str, name: str, fields: list[str]) -> Code | None:
    shape, scale = use.shape(0), use.shape(1)
    if shape is None or scale is None:
        return None
    axis = use.attribute("axis", -1) % len(shape)
    if tuple(scale) != tuple(shape[axis:]) or not all(isinstance(s, int) for s in scale):
        return None
    epsilon = shortest(use.attribute("epsilon", 1e-5))
    count = 2 if use.has(2) else 1
    held = _held(use, range(1, 1 + count))
    if held is None or held[0].element is not use.type(0).element:
        axes = tuple(range(axis - len(shape), 0))
        at = {} if axes == (-1,) else {"axis": literal(axes)}
        return method(use.tensor(0), name, *use.tensors()[1:], **at, **_eps(epsilon))
    weights = {f: (weight, None) for f, weight in zip(fields, held, strict=False)}
    named: dict[str, Any] = (
        {} if epsilon == 1e-5 and layer_name == "LayerNorm" else {"eps": epsilon}
    )
    if len(fields) == 2 and count == 1:
        named["bias"] = False
    sizes = held[0].shape
    layer = use.layer(layer_name, weights, sizes[0] if len(sizes) == 1 else sizes, **named)
    return call(layer, use.tensor(0))


@translates("GroupNormalization")
def group_norm(use: NodeUse) -> Code | None:
    """Write a norm of groups of channels."""
    if use.node.version < 21 or not use.is_float(0):
        return None
    epsilon, groups = shortest(use.attribute("epsilon", 1e-5)), use.attribute("num_groups")
    held = _held(use, [1, 2])
    if held is None:
        scale, bias = use.tensor(1), use.tensor(2)
        named = {"num_groups": literal(groups), **_eps(epsilon)}
        return method(use.tensor(0), "group_norm", scale, bias, **named)
    given = {} if epsilon == 1e-5 else {"eps": epsilon}
    weights = {"weight": (held[0], None), "bias": (held[1], None)}
    layer = use.layer("GroupNorm", weights, groups, held[0].shape[0], **given)
    return call(layer, use.tensor(0))


@translates("InstanceNormalization")
def instance_norm(use: NodeUse) -> Code | None:
    """Write a norm of each channel."""
    if not use.is_float(0):
        return None
    epsilon = shortest(use.attribute("epsilon", 1e-5))
    return method(use.tensor(0), "instance_norm", use.tensor(1), use.tensor(2), **_eps(epsilon))


# ---- pools ----


@translates("MaxPool", "AveragePool")
def pool(use: NodeUse) -> Code | None:
    """Write a pool of one to three axes."""
    shape = use.shape(0)
    rank = len(shape) - 2 if shape is not None else 0
    padding = _padding(use, rank)
    if padding is None or rank not in (1, 2, 3) or use.has_output(1) or not use.is_float(0):
        return None
    is_mean = use.node.op == "AveragePool"
    kernel, dilations = _single(use.attribute("kernel_shape")), use.attribute("dilations") or (1,)
    if is_mean and set(dilations) != {1}:
        return None
    options = {
        "stride": (_single(use.attribute("strides") or (1,) * rank), kernel),
        "padding": (padding, 0),
        "dilation": (_single(dilations), 1),
        "ceil_mode": (bool(use.attribute("ceil_mode", 0)), False),
        **({"count_include_pad": (bool(use.attribute("count_include_pad", 0)), True)}
           if is_mean and padding != 0 else {}),
    }  # fmt: skip
    named = {key: literal(value) for key, (value, default) in options.items() if value != default}
    name = f"{'avg' if is_mean else 'max'}_pool{rank}d"
    return method(use.tensor(0), name, literal(kernel), **named)


@translates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(use: NodeUse) -> Code | None:
    """Write the mean or the maximum of each channel."""
    rank = use.rank(0)
    if rank is None or rank < 3 or not use.is_float(0):
        return None
    name = "mean" if use.node.op == "GlobalAveragePool" else "max"
    axes = literal(tuple(range(2, rank)) if rank > 3 else 2)
    return method(use.tensor(0), name, axes, keepdims=literal(True))


# ---- attention ----


@translates("Attention")
def attention(use: NodeUse) -> Code | None:
    """Write attention of heads, with what is added to its scores or hides them."""
    plain = ("scale", "is_causal", "added")
    if any(name not in plain for name in use.node.attributes) or use.rank(0) != 4:
        return None
    if any(use.has(i) for i in (4, 5, 6)) or any(use.has_output(i) for i in (1, 2, 3)):
        return None
    if use.attribute("is_causal", 0) or (use.has(3) and not _is_whole_mask(use)):
        return None
    given = [use.tensor(i) for i in ((1, 2, 3) if use.has(3) else (1, 2))]
    scale, depth = use.attribute("scale"), (use.shape(0) or (None,))[-1]
    named: dict[str, Code] = {}
    if scale is not None and not (isinstance(depth, int) and abs(scale * depth**0.5 - 1) < 1e-6):
        named["scale"] = literal(shortest(scale))
    return method(use.tensor(0), "scaled_dot_product_attention", *given, **named)


def _is_whole_mask(use: NodeUse) -> bool:
    """Whether a mask is of bools, or is added by a pattern, for which no key seen gives NaN."""
    element = use.type(3).element
    is_bool = element is not None and element.name == "bool"
    return is_bool or bool(use.attribute("added"))


__all__ = ["Several"]
