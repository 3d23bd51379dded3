"""Numbers out of arrays of the host, which ONNX has with no axis or with one."""

from __future__ import annotations

from pyrite.errors import ShapeError
from pyrite.types import Array


def integer(array: Array) -> int:
    """Return the one integer of an array.  Raises ShapeError for another number of elements.

    >>> import numpy as np
    >>> integer(np.array([3]))
    3
    """
    return int(_only(array))


def number(array: Array) -> float:
    """Return the one number of an array.  Raises ShapeError for another number of elements."""
    return float(_only(array))


def _only(array: Array) -> float:
    if array.size != 1:
        raise ShapeError(f"an operand requires one number, got shape {array.shape}")
    value: float = array.reshape(-1)[0]
    return value
