"""Lists and dicts that stay as they are: what a module makes of those in its fields.

To change one, make another for the module: ``model.at["blocks"].set([*model.blocks, block])``.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyrite.errors import ModuleError


def _refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise ModuleError: the container belongs to a module, which never changes."""
    raise ModuleError(
        f"a {self._kind} of a module requires its items to stay as __init__ left them, got a "
        f"change; make another: {self._fix}"
    )


class FrozenList(tuple[Any, ...]):
    """A list of layers that was frozen: a tuple, whose list methods say what to write instead."""

    __slots__ = ()

    _kind = "list"
    _fix = 'model = model.at["blocks"].set([*model.blocks, block])'

    append = extend = insert = pop = remove = clear = reverse = sort = _refused
    __setitem__ = __delitem__ = __iadd__ = _refused


class FrozenDict(dict[Any, Any]):
    """A dict of a module that was frozen: read as any dict; a change raises ModuleError."""

    __slots__ = ()

    _kind = "dict"
    _fix = 'model = model.at["heads"].set({**model.heads, name: head})'

    # A subclass of dict to be looked up as fast as one.
    __setitem__ = __delitem__ = __ior__ = _refused
    update = setdefault = pop = popitem = clear = _refused

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)
