"""Attention with caches, windows and masks, and its linear relatives with a state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyrite import types
from pyrite.onnx.converter import Fixed, converts
from pyrite.onnx.element import ELEMENTS
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return (N, T, H D) as (N, H, T, D)."""
    return x.reshape((*x.shape[:2], heads, -1)).permute_dims((0, 2, 1, 3))


def _joined(x: Tensor) -> Tensor:
    """Return (N, H, T, D) as (N, T, H D)."""
    return x.permute_dims((0, 2, 1, 3)).reshape((x.shape[0], x.shape[2], -1))


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which keys a query sees: by their distance, and by how many keys are no padding."""

    is_causal: bool
    left: int
    right: int
    past: int
    lengths: Tensor | None

    def allowed(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Return where a query sees a key, to broadcast to (N, H, T, S); None for everywhere."""
        if not self.is_causal and self.lengths is None and self.left < 0 and self.right < 0:
            return None
        kind, device = types.int32, like.device
        lengths = None if self.lengths is None else self.lengths.astype(kind).reshape((-1, 1, 1, 1))
        steps = functions.arange(queries, dtype=kind, device=device).reshape((-1, 1))
        places = functions.arange(keys, dtype=kind, device=device)
        offset = lengths - queries if lengths is not None and not self.past else self.past
        ahead = places - (steps + offset)
        bounds = [ahead <= 0] if self.is_causal else []
        bounds += [ahead >= -self.left] if self.left >= 0 else []
        bounds += [ahead <= self.right] if self.right >= 0 else []
        bounds += [places < lengths] if lengths is not None else []
        found: Tensor | None = None
        for bound in bounds:
            found = bound if found is None else found.logical_and(bound)
        return found


@converts("Attention", since=23)
def attention(
    call: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Fixed | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, ...]:
    """Return softmax(scale q k' + mask) v, the keys and values with the past, and the scores."""
    is_packed = q.ndim == 3
    if is_packed:
        q, k, v = (
            _heads(q, q_num_heads or 1),
            _heads(k, kv_num_heads or 1),
            _heads(v, kv_num_heads or 1),
        )
    past = 0 if past_key is None else past_key.shape[2]
    k = k if past_key is None else functions.concat([past_key, k], 2)
    v = v if past_value is None else functions.concat([past_value, v], 2)
    seen = Visibility(
        bool(is_causal), left_window_size, right_window_size, past, nonpad_kv_seqlen
    ).allowed(q.shape[2], k.shape[2], q)
    mask, bias = _mask_and_bias(attn_mask, seen, k.shape[2])
    factor = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = q
    if call.has_output(3):
        wide = None if softmax_precision is None else ELEMENTS[softmax_precision].carrier
        y, scores = _by_steps(q, k, v, mask, bias, factor, softcap, wide, qk_matmul_output_mode)
    else:
        y = q.scaled_dot_product_attention(
            k, v, mask, bias=bias, scale=factor, softcap=softcap or None
        )
    return _joined(y) if is_packed else y, k, v, scores


def _mask_and_bias(
    given: Tensor | None, seen: Tensor | None, keys: int
) -> tuple[Tensor | None, Tensor | None]:
    """Return what queries may see, and what is added to scores; -inf added hides a key too."""
    if given is None:
        return seen, None
    short = keys - given.shape[-1]
    if short > 0:
        widths = [*[(0, 0)] * (given.ndim - 1), (0, short)]
        given = given.pad(widths, value=False if given.dtype.is_bool else -math.inf)
    if given.dtype.is_bool:
        return given if seen is None else given.logical_and(seen), None
    hidden = given == -math.inf
    shown = hidden.logical_not() if seen is None else seen.logical_and(hidden.logical_not())
    return shown, functions.where(hidden, 0, given)


def _by_steps(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, factor: float,
    softcap: float, wide: types.DType | None, mode: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the attention, and the scores at the step that the mode names."""
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat(groups, 1) if groups > 1 else t for t in (k, v))
    raw = (q * math.sqrt(factor)).matmul((k * math.sqrt(factor)).mT)
    capped = (raw / softcap).tanh() * softcap if softcap > 0 else raw
    scores = capped if bias is None else capped + bias
    if mask is not None:
        scores = functions.where(mask, scores, -math.inf)
    weights = (scores if wide is None else scores.astype(wide)).softmax(-1).astype(q.dtype)
    if mask is not None:
        # No key is seen: the weights are 0, not NaN.
        weights = functions.where(mask.any(-1, keepdims=True), weights, 0)
    return weights.matmul(v), (raw, capped, scores, weights)[mode].astype(q.dtype)


@converts("LinearAttention", since=27)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:
    """Return outputs of a state that each key and value renews, and the last state.

    S' = e^g S + b k (v - e^g S' k), o = scale q S; the rule says which of g and b there are.
    """
    wide = types.float32
    q = _heads(query, q_num_heads).astype(wide)
    k, v = _heads(key, kv_num_heads).astype(wide), _heads(value, kv_num_heads).astype(wide)
    factor = scale or 1.0 / math.sqrt(q.shape[-1])
    gates = None if decay is None else _heads(decay, kv_num_heads).astype(wide).exp()
    rates = None if beta is None else _heads(beta, beta.shape[-1]).astype(wide)
    shape = (q.shape[0], kv_num_heads, k.shape[-1], v.shape[-1])
    state = (
        functions.zeros(shape, dtype=wide, device=query.device)
        if past_state is None
        else past_state.astype(wide)
    )
    groups = q_num_heads // kv_num_heads
    outputs = []
    for step in range(q.shape[2]):
        state = state if gates is None else state * gates[:, :, step].unsqueeze(-1)
        k_t, v_t = k[:, :, step].unsqueeze(-1), v[:, :, step].unsqueeze(-2)
        if "delta" in update_rule and rates is not None:
            v_t = (v_t - k_t.mT.matmul(state)) * rates[:, :, step].unsqueeze(-1)
        state = state + k_t * v_t
        shared = state.repeat(groups, 1) if groups > 1 else state
        outputs.append((q[:, :, step].unsqueeze(-2) * factor).matmul(shared))
    y = _joined(functions.concat(outputs, 2)).astype(query.dtype)
    return y, state.astype(query.dtype if past_state is None else past_state.dtype)


@converts("CausalConvWithState", since=27)
def causal_conv_with_state(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    """Return a convolution of each channel with its past, and the end of what was seen."""
    size = weight.shape[2] - 1
    padded = (
        x.pad([(0, 0), (0, 0), (size, 0)])
        if past_state is None
        else functions.concat([past_state, x], 2)
    )
    given = (padded, weight) if bias is None else (padded, weight, bias)
    y: Tensor = functions.conv1d(*given, groups=x.shape[1])
    y = y.silu() if activation in ("silu", "swish") else y
    return y, padded.narrow(2, padded.shape[2] - size, size)
