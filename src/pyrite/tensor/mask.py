"""Masks of attention: bool tensors, True where a query may attend to a key.

Burn's functions of the same names return the complement, True where attention is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ShapeError
from pyrite.op import public
from pyrite.tensor.creation import tensor
from pyrite.tensor.grid import tril_mask
from pyrite.tensor.tensor import Tensor
from pyrite.types import normalize_shape


@public
def causal_mask(queries: int, keys: int | None = None, *, device: DeviceLike = None) -> Tensor:
    """Return whether query i may attend to key j, which is j <= i: bool (queries, keys).

    >>> causal_mask(2, 3).numpy().tolist()
    [[True, False, False], [True, True, False]]
    """
    return tril_mask((queries, queries if keys is None else keys), device=device)


@public
def generate_autoregressive_mask(
    batch_size: int, length: int, *, device: DeviceLike = None
) -> Tensor:
    """Return the causal mask for each of a batch: bool (N, T, T).

    Attention with heads wants an axis for them: ``mask.reshape(N, 1, T, T)``, or just
    `causal_mask`, which broadcasts; or ``is_causal``, which needs no mask.

    >>> generate_autoregressive_mask(1, 2).numpy().tolist()
    [[[True, False], [True, True]]]
    """
    sizes = normalize_shape("generate_autoregressive_mask", (batch_size, length, length))
    return causal_mask(length, device=device).broadcast_to(sizes)


@public
def generate_padding_mask(
    pad_token: int,
    sequences: Sequence[Sequence[int]],
    *,
    max_length: int | None = None,
    length: int | None = None,
    device: DeviceLike = None,
) -> tuple[Tensor, Tensor]:
    """Return sequences of tokens as one tensor, and where tokens are: int32 (N, T), bool (N, T).

    T is ``length`` if given, else that of the longest sequence, but at most ``max_length``.  Longer
    sequences lose their end, shorter ones end in ``pad_token``.  The mask is False at padding, also
    where a sequence itself holds the pad token.  Attention with heads wants it as
    ``mask.reshape(N, 1, 1, T)``.

    Raises ShapeError for an empty list of sequences without ``length``, and for a negative length.

    >>> tokens, mask = generate_padding_mask(0, [[5, 6, 7], [8]])
    >>> tokens.numpy().tolist(), mask.numpy().tolist()
    ([[5, 6, 7], [8, 0, 0]], [[True, True, True], [True, False, False]])
    """
    if length is None:
        if not sequences:
            raise ShapeError("generate_padding_mask requires a sequence or a length, got neither")
        longest = max(map(len, sequences))
        length = longest if max_length is None else min(longest, max_length)
    shape = normalize_shape("generate_padding_mask", (len(sequences), length))
    tokens = np.full(shape, pad_token, np.int32)
    for row, sequence in zip(tokens, sequences, strict=True):
        kept = sequence[: shape[1]]
        row[: len(kept)] = kept
    return tensor(tokens, device=device), tensor(tokens != pad_token, device=device)
