"""Attention.  Plain causal or full attention runs in PyTorch's fused kernels, forward and backward.

Those never hold the matrix of scores.  A mask, a bias, a cap or dropout takes the explicit path,
in which a query without a key gets 0.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pyrite.backend.torch import layout
from pyrite.backend.torch.activation import dropped
from pyrite.backend.torch.dtype import NARROW
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.words import words_of
from pyrite.op import Constant
from pyrite.philox import WORDS
from pyrite.types import TensorType, uint32


class Attention(Native):
    """Attention, forward and backward."""

    @native("split_heads", carrier="bits", narrow="everywhere")
    def split_heads(self, x: torch.Tensor, *, heads: int) -> torch.Tensor:
        batch, length, features = x.shape
        return x.view(batch, length, heads, features // heads).transpose(1, 2)

    @native("join_heads", carrier="bits", narrow="everywhere")
    def join_heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(2)

    @native("scaled_dot_product_attention", narrow="cuda", carrier="order")
    def scaled_dot_product_attention(
        self, *inputs: Any, **attrs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.note_products(inputs[0])
        fused = self._fused(*inputs, **attrs)
        if fused is not None:
            return fused.forward(*inputs[:3])
        return self._explicit(*inputs, **attrs).forward()

    @native("scaled_dot_product_attention_backward", narrow="cuda", carrier="order")
    def scaled_dot_product_attention_backward(
        self,
        g: torch.Tensor,
        g_log_sum: torch.Tensor,
        out: torch.Tensor,
        log_sum: torch.Tensor,
        *inputs: Any,
        argnums: tuple[int, ...],
        **attrs: Any,
    ) -> Any:
        fused = self._fused(*inputs, **attrs)
        if fused is not None and self.is_zero(g_log_sum):
            made = fused.backward(g, *inputs[:3], out, log_sum)
            found = dict(enumerate(made))
        else:
            explicit = self._explicit(*inputs, **attrs)
            found = explicit.backward(g, g_log_sum, out, log_sum, argnums)
        chosen = tuple(found[position] for position in argnums)
        return chosen[0] if len(chosen) == 1 else chosen

    def _explicit(self, *inputs: Any, **attrs: Any) -> Explicit:
        """Return such an attention with a matrix of its scores, and of their random words."""
        query, key, value, mask, bias, draw = inputs
        bits = None
        if draw is not None and attrs["dropout_p"] > 0:
            keys = key.shape[-2]
            drawn = (*query.shape[:-1], -(-keys // WORDS) * WORDS)
            words = words_of((draw[0], draw[1], *_REST), drawn, self.device)
            bits = words.to(torch.int64)[..., :keys]
        return Explicit(query, key, value, mask, bias, bits, **attrs)

    def _fused(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        bias: torch.Tensor | None,
        _draw: torch.Tensor | None,
        *,
        is_causal: bool,
        scale: float,
        softcap: float | None,
        dropout_p: float,
    ) -> Fused | None:
        """Return the fused kernel for such an attention, None where there is none."""
        is_plain = mask is None and bias is None and softcap is None and dropout_p == 0
        fits = query.ndim in (3, 4) and query.numel() > 0 and key.shape == value.shape
        if not (is_plain and fits and query.shape[:-2] == key.shape[:-2]):
            return None
        if self.is_host:
            return _kernel(HostFlash, is_causal, scale)
        if self.device.type != "cuda" or query.shape[-1] % 8 or query.shape[-1] > 256:
            return None
        if query.dtype is torch.float32:
            return _kernel(Efficient, is_causal, scale)
        # With fewer queries than keys this kernel counts causality from the last of each.
        is_aligned = not is_causal or query.shape[-2] == key.shape[-2]
        is_narrow = query.dtype in (torch.float16, torch.bfloat16)
        return _kernel(Flash, is_causal, scale) if is_narrow and is_aligned else None


#: The words of such a draw behind its key: all counters but for the index.
_REST = (Constant(0, TensorType((), uint32)),) * 3


# ---- fused kernels ----


@dataclass(frozen=True, slots=True)
class Fused(ABC):
    """A kernel that gives attention and the logarithms of its sums, and one that gives gradients.

    Both take (H, T, D) or (B, H, T, D).
    """

    is_causal: bool
    scale: float

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output, and per query the logarithm of the sum of its exponentials."""
        out, log_sum = self._forward(*_batched(query, key, value))
        return (out, log_sum) if query.ndim == 4 else (out[0], log_sum[0])

    def backward(self, g: torch.Tensor, *saved: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of query, key and value from these, the output and the sums."""
        found = self._backward(*_batched(g, *saved))
        return tuple(found) if g.ndim == 4 else tuple(f[0] for f in found)

    @abstractmethod
    def _forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    @abstractmethod
    def _backward(self, g: torch.Tensor, *saved: torch.Tensor) -> Sequence[torch.Tensor]: ...


def _batched(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return tensors of one attention with a batch axis in front, where they lack it."""
    return [t if tensors[0].ndim == 4 else t[None] for t in tensors]


class HostFlash(Fused):
    """The kernel of the host."""

    def _forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, log_sum = layout.host_flash(*inputs, 0.0, self.is_causal, scale=self.scale)
        return out, log_sum

    def _backward(self, g: torch.Tensor, *saved: torch.Tensor) -> Sequence[torch.Tensor]:
        return layout.host_flash_backward(  # type: ignore[no-any-return]
            g, *saved, 0.0, self.is_causal, scale=self.scale
        )


class Flash(Fused):
    """FlashAttention-2 of float16 and bfloat16 on a GPU."""

    def _forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, log_sum, *_ = layout.flash(*inputs, 0.0, self.is_causal, False, scale=self.scale)
        return out, log_sum

    def _backward(self, g: torch.Tensor, *saved: torch.Tensor) -> Sequence[torch.Tensor]:
        query, key, value, out, log_sum = saved
        # Without dropout the state of the generator is not looked at.
        unused = torch.empty((2,), dtype=torch.uint64, device=g.device)
        # The kernel reads the sums as float32, whatever they are.
        return layout.flash_backward(  # type: ignore[no-any-return]
            g, query, key, value, out, log_sum.float(), None, None, query.shape[2], key.shape[2],
            0.0, self.is_causal, unused, unused, scale=self.scale,
        )  # fmt: skip


class Efficient(Fused):
    """The memory-efficient kernel of float32 on a GPU, which pads its sums to 32 queries."""

    def _forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, log_sum, *_ = layout.efficient(
            *inputs, None, True, 0.0, self.is_causal, scale=self.scale
        )
        queries = out.shape[-2]
        return out, log_sum if log_sum.shape[-1] == queries else log_sum[..., :queries]

    def _backward(self, g: torch.Tensor, *saved: torch.Tensor) -> Sequence[torch.Tensor]:
        *inputs, out, log_sum = saved
        if missing := -log_sum.shape[-1] % 32:
            log_sum = torch.nn.functional.pad(log_sum, (0, missing), value=math.inf)
        unused = _unused(g.device)
        return layout.efficient_backward(  # type: ignore[no-any-return]
            g, *inputs, None, out, log_sum, unused, unused, 0.0, [True, True, True, False],
            self.is_causal, scale=self.scale,
        )[:3]  # fmt: skip


@functools.lru_cache(maxsize=64)
def _kernel(kind: type[Fused], is_causal: bool, scale: float) -> Fused:
    return kind(is_causal, scale)


@functools.lru_cache(maxsize=16)
def _unused(device: torch.device) -> torch.Tensor:
    """Return what stands for the state of a generator, at which nobody looks without dropout."""
    return torch.zeros((), dtype=torch.int64, device=device)


# ---- the explicit path ----


@dataclass(slots=True)
class Explicit:
    """Attention by the matrix of its scores, in float32 where the inputs are narrow."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    bias: torch.Tensor | None
    bits: torch.Tensor | None
    is_causal: bool
    scale: float
    softcap: float | None
    dropout_p: float

    def __post_init__(self) -> None:
        self.query, self.key, self.value = _wide(self.query), _wide(self.key), _wide(self.value)

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output, and per query the logarithm of the sum of its exponentials."""
        scores, _ = self._scores()
        greatest = scores.amax(-1, keepdim=True)
        greatest = torch.where(greatest == -math.inf, 0.0, greatest)
        weights = torch.exp(scores - greatest)
        total = weights.sum(-1, keepdim=True)
        sums = self._stacked(self._dropped(weights)) @ self.value
        out = sums.reshape(*self.query.shape[:-1], self.value.shape[-1])
        out = out / torch.where(total == 0, 1.0, total)
        return out, (greatest + torch.log(total)).squeeze(-1)

    def backward(
        self,
        g: torch.Tensor,
        g_log_sum: torch.Tensor,
        out: torch.Tensor,
        log_sum: torch.Tensor,
        argnums: tuple[int, ...],
    ) -> dict[int, torch.Tensor]:
        """Return the gradients at ``argnums`` from the probabilities, made again."""
        g, out = _wide(g), _wide(out)
        scores, tanh = self._scores()
        finite = torch.where(log_sum == -math.inf, 0.0, log_sum)
        probabilities = torch.exp(scores - finite.unsqueeze(-1))
        stacked = self._stacked(g)
        found: dict[int, torch.Tensor] = {}
        if 2 in argnums:
            found[2] = self._stacked(self._dropped(probabilities)).mT @ stacked
        if set(argnums) - {2}:
            of_kept = self._dropped((stacked @ self.value.mT).reshape(scores.shape))
            shared = (g * out).sum(-1, keepdim=True) - g_log_sum.unsqueeze(-1)
            of_scores = probabilities * (of_kept - shared)
            raw = self._stacked(of_scores if tanh is None else of_scores * (1.0 - tanh * tanh))
            if 0 in argnums:
                found[0] = (raw @ self.key).reshape(self.query.shape) * self.scale
            if 1 in argnums:
                found[1] = raw.mT @ self._stacked(self.query * self.scale)
            if 4 in argnums and self.bias is not None:
                found[4] = of_scores.sum_to_size(self.bias.shape)
        return found

    def _scores(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the scores, -inf where a query may not attend, and if capped the tanh of them."""
        rows = self._stacked(self.query * self.scale) @ self.key.mT
        scores = rows.reshape(*self.query.shape[:-1], self.key.shape[-2])
        tanh = None
        if self.softcap is not None:
            tanh = torch.tanh(scores / self.softcap)
            scores = tanh * self.softcap
        if self.bias is not None:
            scores = scores + _wide(self.bias)
        if self.mask is not None:
            scores = torch.where(self.mask, scores, -math.inf)
        if self.is_causal:
            above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(above, -math.inf)
        return scores, tanh

    def _stacked(self, x: torch.Tensor) -> torch.Tensor:
        """Return (..., H, T, D) as (..., K, H // K * T, D): the rows that meet one head of keys."""
        if x.ndim < 3:
            return x
        rows = x.shape[-3] * x.shape[-2] // max(1, self.key.shape[-3])
        return x.reshape(*self.key.shape[:-2], rows, x.shape[-1])

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return (
            x if self.bits is None or self.dropout_p == 0 else dropped(x, self.bits, self.dropout_p)
        )


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in NARROW else x
