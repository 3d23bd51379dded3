"""Objects that share all but some fields with others: what a step of training makes of modules.

By machine code once there is some, as in `columns`: a network has hundreds of modules, each with a
dict that is copied, and between two steps all of them have left the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

_new = object.__new__
_put = object.__setattr__

#: A class, the fields that its objects share, and the names of others with their places in a list.
Pattern = tuple[type, dict[str, Any], tuple[tuple[str, int], ...]]


def add_by_python(patterns: Sequence[Pattern | None], made: list[Any], first: int) -> int:
    """Put an object of each pattern, from one on, behind what is in a list: their fields are of it.

    Return the number of the first that is None, or how many there are.
    """
    for n in range(first, len(patterns)):
        pattern = patterns[n]
        if pattern is None:
            return n
        cls, shared, others = pattern
        fields = shared.copy()
        for name, place in others:
            fields[name] = made[place]
        node: Any = _new(cls)
        _put(node, "__dict__", fields)
        made.append(node)
    return len(patterns)


#: What does this, where somebody can do it faster.
adders: Final[list[Callable[[Sequence[Pattern | None], list[Any], int], int]]] = [add_by_python]
