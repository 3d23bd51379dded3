"""Dropout by random words: what is dropped where a word is small, and what words that takes."""

from __future__ import annotations

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, Spec
from pyrite.types import Shape, TensorType, uint32


def dropout_threshold(p: float) -> int:
    """Return the word below which an element is dropped: p of all 32-bit words lie below.

    >>> dropout_threshold(0.5) == 2**31
    True
    """
    return min(round(p * 2**32), 2**32 - 1)


def dropout_attributes(x: TensorType, bits: TensorType, *, p: float) -> Attributes:
    return {"p": probability("dropout", p)}


def probability(op: str, p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op} requires 0 <= p <= 1, got {p}")
    return float(p)


def dropout_type(x: TensorType, bits: TensorType, *, p: float) -> TensorType:
    require_words("dropout", bits, x.shape)
    return x


def require_words(op: str, bits: TensorType, shape: Shape) -> None:
    if bits.dtype is not uint32 or bits.shape != shape:
        raise ShapeError(
            f"{op} requires random bits uint32{list(shape)}, got {bits}; "
            f"draw them: pyrite.random_bits({shape})"
        )


def random_words(shape: Shape) -> Spec:
    return Spec(shape, "uint", 0, 2**32)
