"""Modules within modules: named by path, and rebuilt from the innermost out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyrite.tensor.frozen import FrozenDict, FrozenList
from pyrite.tensor.tree import TreeNode


def modules_of(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Give (path, module) pairs of a module, list, tuple or dict: outermost first, in order."""
    if isinstance(value, TreeNode):
        yield path, value
        children: Any = value.tree_children().items()
    elif isinstance(value, tuple | list):
        children = enumerate(value)
    elif isinstance(value, Mapping):
        children = value.items()
    else:
        return
    for name, child in children:
        yield from modules_of(child, f"{path}.{name}" if path else str(name))


def holds_module(value: Any) -> bool:
    """Whether a value is a module, or holds one."""
    return next(modules_of(value, ""), None) is not None


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with every module in it changed, innermost first."""
    if isinstance(value, TreeNode):
        children = {k: rebuilt(v, change) for k, v in value.tree_children().items()}
        return change(value.tree_rebuild(children))
    if type(value) in (tuple, FrozenList):
        return type(value)([rebuilt(v, change) for v in value])
    if isinstance(value, FrozenDict):
        return FrozenDict({k: rebuilt(v, change) for k, v in value.items()})
    return value
