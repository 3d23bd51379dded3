"""What a few numbers in a file may ask for: memory and time have a bound, before they are taken."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.errors import ModelRunError, ShapeError
from pyrite.types import element_count

#: Elements that sizes alone may make of nothing or little: 1 GiB of float32.
MOST_MADE = 1 << 28
#: By how many times an op may stretch what it is given, where that is more.
MOST_STRETCHED = 1 << 12
#: Steps of a loop, many of which take a minute; without a bound a file could loop for ever.
MOST_STEPS = 1 << 20


def require_bounded(op: str, sizes: Sequence[int], given: int = 1) -> None:
    """Raise ShapeError where an op would make too much of so many elements."""
    limit = max(MOST_MADE, MOST_STRETCHED * given)
    if element_count(tuple(sizes)) > limit:
        raise ShapeError(
            f"{op} requires at most {limit} elements to be made of {given}, got shape "
            f"{tuple(sizes)}; give what is larger as an input"
        )


def require_end(steps: int) -> None:
    """Raise ModelRunError for a loop that goes on and on."""
    if steps > MOST_STEPS:
        raise ModelRunError(f"Loop requires an end within {MOST_STEPS} steps, got none")
