"""A cache that forgets: what was made once is found again, as long as it is asked for.

Two generations: what is found in the old one moves to the young one, and when that is full it
becomes the old one.  So a look-up is one of a dict and takes no lock.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

#: Compiled kernels that a runtime, or a backend, holds at least: more than programs have.
KERNELS: Final = 4096


class Recent(Generic[Key, Item]):
    """The last items asked for: at least ``size`` of them, and never more than twice as many.

    >>> cache = Recent(2)
    >>> for n in range(100):
    ...     cache.put(n, str(n))
    ...     _ = cache.get(0)
    >>> cache.get(0), cache.get(1), len(cache)
    ('0', None, 3)
    """

    __slots__ = ("_old", "_size", "young")

    def __init__(self, size: int) -> None:
        self._size = size
        #: Most that are asked for are here: who looks before calling ``get`` saves the call.
        self.young: dict[Key, Item] = {}
        self._old: dict[Key, Item] = {}

    def get(self, key: Key) -> Item | None:
        """Return the item of a key, or None."""
        found = self.young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Key, item: Item) -> None:
        """Keep an item under a key, and maybe forget others."""
        if len(self.young) >= self._size:
            self._old, self.young = self.young, {}
        self.young[key] = item

    def __len__(self) -> int:
        return len(self.young.keys() | self._old.keys())
