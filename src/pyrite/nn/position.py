"""What tells a network where in a sequence it is: sinusoids added, or pairs of features rotated.

Tables are computed once in float64, on the host, and are constants of the module: they follow it
between devices and stay out of its files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.init import positive
from pyrite.nn.module import Module
from pyrite.tensor.creation import arange, tensor
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DTypeLike, default_float
from pyrite.types import dtype as as_dtype

#: Which features make a pair: neighbours (0, 1), (2, 3), …, or those half the width apart.
Pairing = Literal["neighbours", "halves"]


def sinusoids(
    length: int,
    features: int,
    max_timescale: float = 10_000.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return sines and cosines of positions, in turn: (length, features).

    Element (t, 2 i) is sin(t / max_timescale ** (2 i / features)), and (t, 2 i + 1) its cosine.

    Raises ArgumentError unless features is even.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.

    >>> sinusoids(2, 4).numpy().round(3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.841..., 0.540..., 0.009..., 1.0]]
    """
    positive("sinusoids", length=length)
    angles = _angles(length, _frequencies("sinusoids", features, max_timescale))
    table = np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(length, features)
    kind = as_dtype(default_float if dtype is None else dtype)
    return tensor(table.astype(kind.numpy), device=device)


def _frequencies(op: str, features: int, base: float) -> Array:
    positive(op, features=features)
    if features % 2:
        raise ArgumentError(f"{op} requires an even features, got {features}")
    return base ** (-np.arange(0, features, 2, dtype=np.float64) / features)


def _angles(length: int, frequencies: Array) -> Array:
    return np.arange(length, dtype=np.float64)[:, None] * frequencies


class PositionalEncoding(Module):
    """Add the sinusoids of each position: (..., T, features) -> (..., T, features).

    Raises ShapeError when T exceeds max_length, or the last axis is not features.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.PositionalEncoding(8)(pyrite.zeros((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        features: int,
        max_length: int = 5_000,
        max_timescale: float = 10_000.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("PositionalEncoding", max_length=max_length)
        self.features = features
        self.max_length = max_length
        self.max_timescale = max_timescale
        self.sinusoids = sinusoids(max_length, features, max_timescale, dtype=dtype, device=device)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return x with its positions added, ``start`` that of the first row.

        A start that is a tensor (), as a cache's length, is no number of the program.
        """
        _require_sequence(self, x, self.features)
        return x + _rows(self, self.sinusoids, x, start).astype(x.dtype)


class RotaryEncoding(Module):
    """Rotate pairs of features by angles that grow with position: (..., T, D) -> (..., T, D).

    At position t pair i turns by t * theta ** (-2 i / D), so the product of a query and a key
    depends on the distance between them alone.  ``scaling`` takes the D / 2 frequencies, a NumPy
    array, and returns others, for longer sequences.  Pairs are ``"neighbours"``, as in the paper
    and in Burn, or ``"halves"``, feature i and i + D / 2, as in Llama files of Hugging Face.

    Raises ShapeError when positions exceed max_length, or the last axis is not features.
    Source: Su et al. 2021, arXiv:2104.09864, equation 34.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.RotaryEncoding(16, 8)(pyrite.ones((2, 5, 8)), start=3).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        max_length: int,
        features: int,
        theta: float = 10_000.0,
        *,
        scaling: Callable[[Array], Array] | None = None,
        pairs: Pairing = "neighbours",
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("RotaryEncoding", max_length=max_length)
        if pairs not in ("neighbours", "halves"):
            raise ArgumentError(
                f'RotaryEncoding requires pairs to be "neighbours" or "halves", got {pairs!r}'
            )
        frequencies = _frequencies("RotaryEncoding", features, theta)
        if scaling is not None:
            frequencies = _scaled(scaling, frequencies)
        angles = _angles(max_length, frequencies)
        kind = as_dtype(default_float if dtype is None else dtype).numpy
        self.max_length = max_length
        self.features = features
        self.theta = theta
        self.pairs: Pairing = pairs
        self.cos = tensor(np.cos(angles).astype(kind), device=device)
        self.sin = tensor(np.sin(angles).astype(kind), device=device)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return x, whose first row is at position ``start``, rotated.

        A start that is a tensor (), as a cache's length, is no number of the program.

        float16 and bfloat16 are rotated in the tables' dtype and rounded once.
        """
        _require_sequence(self, x, self.features)
        cos, sin = _rows(self, self.cos, x, start), _rows(self, self.sin, x, start)
        pairs = (-1, 2) if self.pairs == "neighbours" else (2, -1)
        axis = -1 if self.pairs == "neighbours" else -2
        first, second = x.reshape((*x.shape[:-1], *pairs)).unstack(axis)
        turned = (first * cos - second * sin, first * sin + second * cos)
        out = stack(turned, -1).reshape(x.shape) if axis == -1 else concat(turned, -1)
        return out.astype(x.dtype)


def _scaled(scaling: Callable[[Array], Array], frequencies: Array) -> Array:
    found = np.asarray(scaling(frequencies), np.float64)
    if found.shape != frequencies.shape:
        raise ShapeError(
            f"RotaryEncoding requires scaling to return {frequencies.shape[0]} frequencies, got "
            f"shape {found.shape}"
        )
    return found


def _require_sequence(layer: Module, x: Tensor, features: int) -> None:
    if x.ndim < 2 or x.shape[-1] != features:
        raise ShapeError(
            f"{type(layer).__name__} requires x of shape (..., T, {features}), got {x.shape}"
        )


def _rows(layer: Module, table: Tensor, x: Tensor, start: int | Tensor) -> Tensor:
    """Return the rows of a table for the positions of x."""
    if isinstance(start, Tensor):
        return table.embedding(start + arange(x.shape[-2], dtype=start.dtype, device=x.device))
    end = start + x.shape[-2]
    if start < 0 or end > table.shape[0]:
        raise ShapeError(
            f"{type(layer).__name__} requires positions in 0 <= position < {table.shape[0]}, got "
            f"{start} to {end - 1}"
        )
    return table.narrow(0, start, end - start)
