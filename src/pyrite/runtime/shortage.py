"""What an error says of memory that ran out: the largest buffers there, and what made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.runtime.protocol import Held

#: So many lines are named.
NAMED: Final = 5


def largest_of(held: Sequence[Held]) -> str:
    """Return what most bytes are of, where that was noted, as the part of a sentence.

    >>> largest_of([Held(4096, "float32[1024] of train.py:7"), Held(64)])
    ', most of it 4,096 for float32[1024] of train.py:7'
    >>> largest_of([Held(64)])
    ''
    """
    known: dict[str, list[int]] = {}
    for one in held:
        if one.origin is not None:
            known.setdefault(str(one.origin), []).append(one.nbytes)
    found = sorted(known.items(), key=lambda item: -sum(item[1]))[:NAMED]
    named = [
        f"{sizes[0]:,} for {f'each of {len(sizes)} ' if len(sizes) > 1 else ''}{origin}"
        for origin, sizes in found
    ]
    return ", most of it " + " and ".join(named) if named else ""
