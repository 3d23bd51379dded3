"""Activations, mixing and dropout that PyTorch has as one kernel, and their rules as several."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from pyrite.backend.torch import layout
from pyrite.backend.torch.dtype import PYRITE
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.words import dropping
from pyrite.op import Constant

#: Beyond this |x| the slope of gelu is 0 or 1 in every dtype; PyTorch's cubes x and meets infinity.
_STRAIGHT = 1e3


def _are_alike(g: Any, x: Any) -> bool:
    """Whether both are tensors of floats of one shape."""
    both = isinstance(g, torch.Tensor) and isinstance(x, torch.Tensor)
    return both and g.is_floating_point() and g.shape == x.shape


def _is_mixed_by_number(x: Any, end: Any, weight: Any) -> bool:
    """Whether x and end are tensors and the weight is a number."""
    x_and_end = isinstance(x, torch.Tensor) and isinstance(end, torch.Tensor)
    return x_and_end and isinstance(weight, Constant)


class Activation(Native):
    """Activations."""

    @native("relu", narrow="everywhere", when=lambda x: x.is_floating_point())
    def relu(self, x: torch.Tensor) -> torch.Tensor:
        # Keeps what is greater than 0, and NaN, and makes -0.0 a 0.0.
        return torch.threshold(x, 0.0, 0.0)

    @native("lerp", given="numbers", when=_is_mixed_by_number)
    def lerp(self, x: torch.Tensor, end: torch.Tensor, weight: float) -> torch.Tensor:
        # Two kernels; PyTorch's own, one, gives zeros of other signs.
        return torch.add(x, end - x, alpha=weight)

    @native("relu_backward", narrow="everywhere", when=_are_alike)
    def relu_backward(self, g: torch.Tensor, out: torch.Tensor) -> Any:
        return layout.threshold_backward(g, out, 0)

    @native("sigmoid", narrow="everywhere")
    def sigmoid(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x)

    @native("log_sigmoid", narrow="everywhere")
    def log_sigmoid(self, x: torch.Tensor) -> torch.Tensor:
        return functional.logsigmoid(x)

    @native("silu", narrow="everywhere")
    def silu(self, x: torch.Tensor) -> torch.Tensor:
        return functional.silu(x)

    @native("silu_backward", narrow="everywhere")
    def silu_backward(self, g: torch.Tensor, x: torch.Tensor) -> Any:
        return layout.silu_backward(*_alike(g, x))

    @native("gelu", narrow="everywhere")
    def gelu(self, x: torch.Tensor, *, approximate: str) -> torch.Tensor:
        out = functional.gelu(x, approximate=approximate)
        # The host's kernel gives NaN at infinity.
        if self.is_host and approximate == "none" and has_nan(out):
            return torch.where(x == math.inf, x, out)
        return out

    @native("gelu_backward", narrow="everywhere")
    def gelu_backward(self, g: torch.Tensor, x: torch.Tensor, *, approximate: str) -> Any:
        if approximate == "tanh":
            x = torch.clamp(x, -_STRAIGHT, _STRAIGHT)
        return layout.gelu_backward(*_alike(g, x), approximate=approximate)

    @native("dropout", carrier="bits")
    def dropout(self, x: torch.Tensor, bits: torch.Tensor, *, p: float) -> torch.Tensor:
        if self.is_host and x.dtype in _INTEGERS and bits.is_contiguous():
            if not x.is_contiguous() and x.numel() <= _PART:  # one number for all, for instance
                x = x.contiguous()
            if x.is_contiguous():
                return _dropped_on_host(x, bits, p)
        return dropped(x, bits.to(torch.int64) & _WORD, p)


def _alike(x: torch.Tensor, y: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return both in the shape to which they broadcast."""
    return (x, y) if x.shape == y.shape else torch.broadcast_tensors(x, y)


def has_nan(x: torch.Tensor) -> bool:
    """Whether there is a NaN, by a norm: one cheap pass, without PyTorch's threads to wait for."""
    return math.isnan(float(torch.linalg.vector_norm(x)))


def dropped(x: torch.Tensor, bits: torch.Tensor, p: float) -> torch.Tensor:
    """Return x / (1 - p), and 0 where the random word is below p * 2 ** 32; all 0 for p = 1."""
    return torch.where(bits >= _threshold(p), x * _scale(p), 0.0)


def _dropped_on_host(x: torch.Tensor, bits: torch.Tensor, p: float) -> torch.Tensor:
    """Return what `dropped` returns; both are dense, the words lie in int32.

    There a choice at random is a branch, foreseen half the time, and a large temporary is memory
    that the system gives page by page: of 1 Mi elements it took 4 to 12 ms.  So bits are multiplied
    by whether they stay, as integers, of which 0 times any is 0, a part at a time.  Whether they do
    is compared in place, so that it is an integer too: PyTorch makes none of booleans by vectors.
    """
    if (launch := dropping(x.numel(), PYRITE[x.dtype], p)) is not None:
        out = torch.empty_like(x)
        launch(x.data_ptr(), bits.data_ptr(), out.data_ptr())
        return out
    out, words = x * _scale(p), bits.view(-1)
    masked, least = out.view(-1).view(_INTEGERS[x.dtype]), _least(p)
    if len(words) <= _PART:  # to cut them in one part takes a fifth of 8 Ki elements' time
        masked.mul_((words ^ _LOWEST).ge_(least))
        return out
    for part, word in zip(masked.split(_PART), words.split(_PART), strict=True):
        part.mul_((word ^ _LOWEST).ge_(least))
    return out


#: Words are unsigned; moved down by 2 ** 31 they compare as they lie.  Of a number, PyTorch would
#: make a tensor in each call.
_LOWEST = torch.tensor(-(1 << 31), dtype=torch.int32)


@functools.lru_cache(maxsize=256)
def _least(p: float) -> torch.Tensor:
    """Return the least word, moved down, that stays."""
    return torch.tensor(_threshold(p) - (1 << 31), dtype=torch.int32)


def _scale(p: float) -> float:
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


def _threshold(p: float) -> int:
    return min(round(p * 2**32), _WORD)


_WORD = 2**32 - 1
#: Integers as long as a float, in which its bits are masked.
_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}
#: Elements of a part: its temporaries stay in the nearer caches.
_PART = 1 << 15
