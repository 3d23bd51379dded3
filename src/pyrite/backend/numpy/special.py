"""Special functions that NumPy lacks, in float64 inside and in the operand's dtype outside."""

from __future__ import annotations

import math

import numpy as np

from pyrite.types import Array


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)


def erfinv(x: Array) -> Array:
    """Inverse of the error function."""
    raise NotImplementedError


def lgamma(x: Array) -> Array:
    """Logarithm of the absolute value of the gamma function."""
    return np.asarray(np.vectorize(math.lgamma, otypes=[np.float64])(x)).astype(x.dtype)


def digamma(x: Array) -> Array:
    """Derivative of lgamma."""
    raise NotImplementedError


def trigamma(x: Array) -> Array:
    """Derivative of digamma."""
    raise NotImplementedError
