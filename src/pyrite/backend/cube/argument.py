"""Arguments of a launch: their places among all bindings, and numbers as a kernel gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.op import Constant
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, float32


def with_arguments(
    bindings: Sequence[Buffer | Number], arguments: Sequence[tuple[int, Any]]
) -> Sequence[Buffer | Number]:
    """Return bindings with numbers in their places, which rise."""
    if not arguments:
        return bindings
    found = [*bindings]
    for position, value in arguments:
        found.insert(position, value)
    return found


def number_of(constant: Constant, dtype: DType) -> Number:
    """Return a number as one of a dtype."""
    value = constant.value
    if dtype is float32:
        # The runtime rounds it; NumPy is here for what overflows.
        if type(value) is float and -_LARGE < value < _LARGE:
            return value
        if type(value) is int and -_WHOLE < value < _WHOLE:
            return float(value)
    elif type(value) is int and dtype.is_integer and dtype.lowest <= value <= dtype.highest:
        return value
    number: Number = constant.numpy(dtype).item()
    return number


#: Less than the greatest float32.
_LARGE = 3e38
#: Whole numbers between this and its negative are float32.
_WHOLE = 1 << 24
