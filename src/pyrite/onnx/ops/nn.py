"""Matrix products, norms, dropout and attention: what layers are made of."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite import types
from pyrite.onnx.converter import Fixed, Host, Statistic, converts
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.parameter import State
from pyrite.tensor.tensor import Tensor

# ---- matrix products ----


@converts("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product, as NumPy's."""
    return a.matmul(b)


@converts("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return alpha a b + beta c, with a or b transposed if asked for."""
    a = a.mT if transA else a
    is_linear = transB and c is not None and c.ndim == 1 and alpha == beta == 1.0
    if is_linear and c is not None and c.shape[0] == b.shape[0]:
        return a.linear(b, c)
    product = a.matmul(b.mT if transB else b)
    product = product if alpha == 1.0 else _scaled(product, alpha)
    if c is None or beta == 0.0:
        return product
    return product + (c if beta == 1.0 else _scaled(c, beta))


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor if x.dtype.is_float else (x * factor).astype(x.dtype)


@converts("Gemm", since=1)
def gemm_1(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return alpha a b + beta c, with a or b transposed if asked for."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


# ---- norms ----


@converts("BatchNormalization", since=14)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Statistic,
    var: Statistic,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Tensor, ...]:
    """Return x normalized per channel: by the statistics given, or in training by those of x."""
    if not training_mode:
        return (_normalized(x, scale, b, mean, var, epsilon),)
    y, batch_mean, batch_var = x.batch_norm(scale, b, eps=epsilon)
    running_mean = mean * momentum + batch_mean.astype(mean.dtype) * (1 - momentum)
    running_var = var * momentum + batch_var.astype(var.dtype) * (1 - momentum)
    for state, value in ((mean, running_mean), (var, running_var)):
        if isinstance(state, State):
            y = state.emit(value.detach(), through=y)
    return y, running_mean, running_var


def _normalized(
    x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, epsilon: float
) -> Tensor:
    return x.batch_norm_inference(mean, var, scale, b, eps=epsilon).astype(x.dtype)


@converts("BatchNormalization", since=1)
def batch_normalization_1(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Statistic,
    var: Statistic,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
    consumed_inputs: object = None,
) -> tuple[Tensor, ...]:
    """Return x normalized per channel; it trains where more outputs than one are asked for."""
    if not spatial:
        shaped = (t.reshape(x.shape[1:]) for t in (scale, b, mean, var))
        factor, shift, centre, spread = shaped
        return ((x - centre) * (spread + epsilon).rsqrt() * factor + shift,)
    trains = int(call.has_output(1))
    found = batch_normalization(
        x, scale, b, mean, var, epsilon=epsilon, momentum=momentum, training_mode=trains
    )
    return (*found, *found[1:])


@converts("InstanceNormalization")
def instance_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: object = None,
) -> Tensor:
    """Return x normalized per sample and channel."""
    return x.instance_norm(scale, b, eps=epsilon)


@converts("LayerNormalization", since=17)
def layer_normalization(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    """Return x normalized over the axes from ``axis`` on, its mean, and 1 / standard deviation."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    if call.has_output(1) or call.has_output(2) or scale.shape != x.shape[axes[0] :]:
        return _layer_normalization(x, scale, b, axes, epsilon)
    return (x.layer_norm(scale, b, axis=axes, eps=epsilon),)


def _layer_normalization(
    x: Tensor, scale: Tensor, b: Tensor | None, axes: Sequence[int], epsilon: float
) -> tuple[Tensor, ...]:
    wide = x.astype(x.dtype.compute)
    mean = wide.mean(tuple(axes), keepdims=True)
    centred = wide - mean
    spread = ((centred * centred).mean(tuple(axes), keepdims=True) + epsilon).rsqrt()
    y = (centred * spread).astype(x.dtype) * scale
    return (y if b is None else y + b), mean, spread


@converts("RMSNormalization", since=23)
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Return x divided by its root mean square over the axes from ``axis`` on, times scale."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    if scale.shape == x.shape[axes[0] :]:
        return x.rms_norm(scale, axis=axes, eps=epsilon)
    return x.rms_norm(axis=axes, eps=epsilon) * scale


@converts("GroupNormalization", since=21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    """Return x normalized per sample and group of channels."""
    return x.group_norm(scale, bias, num_groups=num_groups, eps=epsilon)


@converts("GroupNormalization", since=18)
def group_normalization_18(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Return x normalized per sample and group of channels; the scale is one number a group."""
    each = x.shape[1] // num_groups
    spread = (t.unsqueeze(1).broadcast_to((num_groups, each)).reshape((-1,)) for t in (scale, bias))
    return x.group_norm(*spread, num_groups=num_groups, eps=epsilon)


@converts("LRN")
def lrn(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Return x / (bias + alpha / size * sum of squares of near channels) ** beta."""
    if size % 2:
        return x.local_response_norm(size, alpha=alpha, beta=beta, k=bias)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = (x * x).pad([(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
    near = squares.narrow(1, 0, x.shape[1])
    for shift in range(1, size):
        near = near + squares.narrow(1, shift, x.shape[1])
    return x / (near * (alpha / size) + bias).pow(beta)


# ---- dropout ----


@converts("Dropout", since=12)
def dropout(
    x: Tensor,
    ratio: Host | None = None,
    training_mode: Host | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return x with elements dropped and the others scaled, and which are kept."""
    p = 0.5 if ratio is None else float(ratio)
    trains = training_mode is not None and bool(training_mode)
    return _dropped(x, p if trains else 0.0)


def _dropped(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    if p == 0.0:
        return x, functions.ones(x.shape, dtype=types.bool_, device=x.device)
    kept = functions.bernoulli(1.0 - p, x.shape, device=x.device).astype(types.bool_)
    return functions.where(kept, x * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0), kept


@converts("Dropout", since=7)
def dropout_7(x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return x: before opset 12 a graph is for inference."""
    return _dropped(x, 0.0)


@converts("Dropout", since=1)
def dropout_1(
    x: Tensor, *, consumed_inputs: object = None, is_test: int = 0, ratio: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Return x with elements dropped, unless it is a test."""
    return _dropped(x, 0.0 if is_test else ratio)


# ---- attention ----


@converts("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor,
    cos_cache: Fixed,
    sin_cache: Fixed,
    position_ids: Fixed | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Return pairs of features turned by their position: (N, H, T, D), or (N, T, H D)."""
    shape = x.shape
    if x.ndim == 3:
        x = x.reshape((shape[0], shape[1], num_heads or 1, -1)).permute_dims((0, 2, 1, 3))
    size = rotary_embedding_dim or x.shape[-1]
    cos, sin = (_angles(cache, position_ids, size // 2) for cache in (cos_cache, sin_cache))
    turned, rest = x[..., :size], x[..., size:]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : size // 2], turned[..., size // 2 :]
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    joined = (
        functions.stack([real, imaginary], -1).reshape(turned.shape)
        if interleaved
        else functions.concat([real, imaginary], -1)
    )
    y = functions.concat([joined, rest], -1) if rest.shape[-1] else joined
    return y.permute_dims((0, 2, 1, 3)).reshape(shape) if len(shape) == 3 else y


def _angles(cache: Tensor, positions: Tensor | None, half: int) -> Tensor:
    """Return a cache's rows by position, for all heads: (N, 1, T, D / 2)."""
    if positions is not None:
        rows = cache.take(positions.reshape((-1,)), 0)
        cache = rows.reshape((*positions.shape, cache.shape[-1]))
    return cache[..., :half].unsqueeze(1)


@converts("SwiGLU", since=28)
def swiglu(a: Tensor, b: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return a sigmoid(alpha a) b."""
    return a * (a * alpha).sigmoid() * b
