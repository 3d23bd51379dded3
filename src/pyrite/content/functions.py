"""Functions that are called once, for what is then kept: a key of all that they read.

The key is asked for at every call, so it is made again only if one of the names, cells or defaults
that were read stands for something else, or for something that may change where it lies.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from pyrite.content.reader import MISSING, Reader
from pyrite.recent import Recent

#: Contents of the same functions that are kept apart: more than a program sets a global to.
_KEPT: Final = 256


class Functions:
    """Some functions, or values that hold them, and what they read; ``key`` changes with that.

    >>> def scaled(x, scale=2.0):
    ...     return x * scale
    >>> functions = Functions(scaled)
    >>> before = functions.key()
    >>> scaled.__defaults__ = (3.0,)
    >>> functions.key() is before
    False
    >>> scaled.__defaults__ = (2.0,)
    >>> functions.key() is before
    True
    """

    __slots__ = ("_functions", "_keys", "_last")

    def __init__(self, *functions: object) -> None:
        self._functions = tuple(f for f in functions if f is not None)
        self._keys: Recent[Hashable, object] = Recent(_KEPT)
        #: What was read for the last key, that, and whether it was functions alone: where it can be
        #: looked at again.
        self._last: tuple[Reader, object, bool] | None = None

    def key(self) -> Hashable:
        """Return what stands for their content.  Raises NoContentError where that is unknown."""
        last = self._last
        if last is not None:
            # Written for speed, `_is_current` as far as most functions go: this is run twice for
            # every op of an application.
            for f, code, defaults, by_keyword in last[0].functions:
                if (
                    f.__code__ is not code
                    or f.__defaults__ is not defaults
                    or f.__kwdefaults__ is not by_keyword
                ):
                    break
            else:
                if last[2] or _is_current(last[0]):
                    return last[1]
        reader = Reader()
        content = reader.of(self._functions)
        key = self._keys.get(content)
        if key is None:
            # Smaller, and found faster, than the content itself.
            key = object()
        self._keys.put(content, key)
        is_closed = not reader.reads and not reader.cells
        self._last = (reader, key, is_closed) if reader.is_watched else None
        return key


def _is_current(reader: Reader) -> bool:
    """Whether all that functions read is what it was."""
    for names, name, value in reader.reads:
        if names.get(name, MISSING) is not value:
            return False
    for cell, value in reader.cells:
        try:
            if cell.cell_contents is not value:
                return False
        except ValueError:
            if value is not MISSING:
                return False
    return True
