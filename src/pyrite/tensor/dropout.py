"""Dropout: random elements or channels become 0, the rest grow, so that the expected value stays.

The words that decide are one draw of `random_bits`, the same on every device.  All of these drop
whatever the training mode is: that is for layers, as `nn.Dropout`, to ask.
"""

from __future__ import annotations

import math

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Spec, composite, public, sample
from pyrite.tensor.random import bits_of, random_bits
from pyrite.tensor.random_word import dropout_threshold
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

#: What `selu` tends to for numbers far below 0: -scale * alpha.
_SELU_FLOOR = -1.7580993408473766


@public
def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Return x with each element 0 with probability p, and x / (1 - p) otherwise: (...) -> (...).

    The backward pass uses the same words as the forward pass and keeps no mask of floats.

    Raises ArgumentError unless 0 <= p <= 1.
    Source: Srivastava et al. 2014, jmlr.org/papers/v15/srivastava14a.html.

    >>> from pyrite.tensor.creation import full
    >>> sorted(set(dropout(full((64,), 1.0), 0.5).numpy().tolist()))
    [0.0, 2.0]
    """
    if p == 0:
        return x
    return x._dropout(bits_of(x), p=p)


@public
def feature_dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Return x with each channel of each sample 0 with probability p: (N, C, ...) -> (N, C, ...).

    The others are x / (1 - p).  Neighbours in an image say nearly the same, so elements that are
    dropped one by one are no loss to a convolution; whole channels are.

    Raises ArgumentError unless 0 <= p <= 1, ShapeError for fewer than two axes.
    Source: Tompson et al. 2015, arXiv:1411.4280.

    >>> from pyrite.tensor.creation import full
    >>> dropped = feature_dropout(full((2, 8, 5), 1.0), 0.5)
    >>> (dropped.min(-1) == dropped.max(-1)).all().item()
    True
    """
    if x.ndim < 2:
        raise ShapeError(f"feature_dropout requires x of shape (N, C, ...), got {x.shape}")
    return x if p == 0 else x._dropout(_bits_of_channels(x), p=p)


@public
def alpha_dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Return x with each element at selu's floor with probability p, mean and variance kept.

    (...) -> (...).  An x of mean 0 and variance 1 stays one: what is dropped is -1.758, which
    `selu` gives for numbers far below 0, and all is scaled and shifted after.  With p = 1 all is 0.

    Raises ArgumentError unless 0 <= p <= 1.
    Source: Klambauer et al. 2017, arXiv:1706.02515, section "New dropout technique".
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"alpha_dropout requires 0 <= p <= 1, got {p}")
    if p in (0, 1):
        return dropout(x, p)
    return _alpha_dropout(x, random_bits(x.shape, device=x.device), p=float(p))


@public
def feature_alpha_dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Return x with each channel of each sample at selu's floor with probability p.

    (N, C, ...) -> (N, C, ...).  `alpha_dropout` of whole channels, as `feature_dropout` drops them:
    mean and variance are kept over draws, not within one sample.

    Raises ArgumentError unless 0 <= p <= 1, ShapeError for fewer than two axes.
    Source: Klambauer et al. 2017, arXiv:1706.02515; Tompson et al. 2015, arXiv:1411.4280.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"feature_alpha_dropout requires 0 <= p <= 1, got {p}")
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout requires x of shape (N, C, ...), got {x.shape}")
    if p in (0, 1):
        return feature_dropout(x, p)
    return _alpha_dropout(x, _bits_of_channels(x), p=float(p))


def _bits_of_channels(x: Tensor) -> Tensor:
    """Return a random word for each element, one for all of a sample's channel."""
    channels = (*x.shape[:2], *(1 for _ in x.shape[2:]))
    return random_bits(channels, device=x.device).broadcast_to(x.shape)


@composite(
    infer=lambda x, bits, *, p: TensorType(x.shape, x.dtype),
    accepts="float",
    promotes=(0,),
    samples=(
        sample((2, 3), Spec((2, 3), "uint", 0, 2**32), p=0.4),
        sample((), Spec((), "uint", 0, 2**32), p=0.2),
    ),
)
def _alpha_dropout(x: Tensor, bits: Tensor, /, *, p: float) -> Tensor:
    """scale * x + shift, and scale * floor + shift where the random word is below p * 2 ** 32."""
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SELU_FLOOR**2))
    shift = -scale * _SELU_FLOOR * p
    return (bits < dropout_threshold(p))._where(scale * _SELU_FLOOR + shift, x * scale + shift)
