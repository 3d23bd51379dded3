"""What gradient ops of several families share: precision, and the choice of what to compute.

A gradient op returns only the gradients whose positions stand in its attribute ``argnums``: the
inputs of the forward op that are tracked.  So a frozen weight costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyrite.tensor.arithmetic import Arithmetic
from pyrite.types import DType

T = TypeVar("T", bound=Arithmetic)

#: One gradient, or a tuple of those that were chosen.
Gradients = Any


def in_dtype(x: T, dtype: DType) -> T:
    """Return x in a dtype, itself where it is of that dtype."""
    return x if x.dtype is dtype else x.astype(dtype)


def widened(x: T) -> T:
    """Return x in the dtype in which it is computed: float32 for float16 and bfloat16."""
    return in_dtype(x, x.dtype.compute)


def chosen(
    makers: Mapping[int, Callable[[], Any]], argnums: Sequence[int], dtype: DType
) -> Gradients:
    """Return the gradients at ``argnums``, each made only when asked for: one, or a tuple."""
    made = tuple(in_dtype(makers[position](), dtype) for position in argnums)
    return made[0] if len(made) == 1 else made


def by_position(found: Gradients, argnums: Sequence[int], count: int) -> tuple[Any, ...]:
    """Return what `chosen` returned as one item per input, None for those without a gradient.

    >>> by_position(("of 0", "of 2"), (0, 2), 3)
    ('of 0', None, 'of 2')
    """
    items = dict(zip(argnums, found if isinstance(found, tuple) else (found,), strict=True))
    return tuple(items.get(position) for position in range(count))
