"""Dropout: random elements become 0, the rest grow, so that the expected value stays."""

from __future__ import annotations

from pyrite.op import public
from pyrite.tensor.random import random_bits
from pyrite.tensor.tensor import Tensor


@public
def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Return x with each element 0 with probability p, and x / (1 - p) otherwise: (...) -> (...).

    The draw is one of `random_bits`, the same on every device; the backward pass uses the same
    words and keeps no mask of floats.  It drops whatever the training mode is: that is
    `nn.Dropout`'s to ask.

    Raises ArgumentError unless 0 <= p <= 1.
    Source: Srivastava et al. 2014, jmlr.org/papers/v15/srivastava14a.html.

    >>> from pyrite.tensor.creation import full
    >>> sorted(set(dropout(full((64,), 1.0), 0.5).numpy().tolist()))
    [0.0, 2.0]
    """
    if p == 0:
        return x
    return x._dropout(random_bits(x.shape, device=x.device), p=p)
