"""Trees of tensors: tensors, and lists, tuples, dicts, dataclasses and modules of them, nested.

One tensor that occurs twice is changed once, so tied weights stay tied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from pyrite.tensor.tensor import Tensor

#: Types that hold no tensor, told apart first because trees are full of them.
_PLAIN = frozenset({type(None), bool, int, float, str})

T = TypeVar("T")
Change = Callable[[Tensor], Any]


class TreeNode:
    """An object that holds tensors and can be rebuilt with others: a module."""

    def tree_children(self) -> dict[str, Any]:
        """Return what it holds, by field name: trees."""
        raise NotImplementedError

    def tree_rebuild(self, children: dict[str, Any]) -> Any:
        """Return a copy that holds other children."""
        raise NotImplementedError


def tree_map(change: Change, tree: T) -> T:
    """Return the tree with each tensor changed; whatever holds no changed tensor is shared.

    >>> import pyrite
    >>> tree_map(lambda t: t + 1, {"a": [pyrite.zeros(())], "b": "text"})["a"][0].item()
    1.0
    """
    return _Mapping(change).apply(tree)  # type: ignore[no-any-return]


def tree_leaves(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree in order, each once."""
    return [leaf for _, leaf in tree_items(tree)]


def tree_items(tree: Any) -> list[tuple[str, Tensor]]:
    """Return (path, tensor) pairs in order, each tensor once, under the first path to it.

    >>> import pyrite
    >>> [path for path, _ in tree_items({"a": [pyrite.zeros(())], "b": pyrite.ones(())})]
    ['a.0', 'b']
    """
    seen: set[int] = set()
    found = []
    for path, leaf in tree_paths(tree):
        if id(leaf) not in seen:
            seen.add(id(leaf))
            found.append((path, leaf))
    return found


def tree_paths(tree: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Give (path, tensor) pairs in order; a tensor that occurs twice, under each of its paths."""
    found: list[tuple[str, Tensor]] = []
    _gather(tree, path, found)
    return iter(found)


def _gather(tree: Any, path: str, found: list[tuple[str, Tensor]]) -> None:
    if isinstance(tree, Tensor):
        found.append((path, tree))
        return
    if isinstance(tree, TreeNode):
        pairs: Any = tree.tree_children().items()
    elif isinstance(tree, list | tuple):
        pairs = enumerate(tree)
    else:
        pairs = (_children(tree) or {}).items()
    for name, child in pairs:
        if type(child) not in _PLAIN:
            _gather(child, f"{path}.{name}" if path else str(name), found)


class _Mapping:
    """One pass over a tree; remembers what became of each object, so that sharing survives."""

    def __init__(self, change: Change) -> None:
        self._change = change
        # Keeps the originals alive too, so that their ids stay theirs.
        self._done: dict[int, tuple[Any, Any]] = {}

    def apply(self, tree: Any) -> Any:
        if type(tree) in _PLAIN:
            return tree
        done = self._done.get(id(tree))
        if done is not None:
            return done[1]
        made = self._made(tree)
        if isinstance(tree, Tensor | TreeNode):
            self._done[id(tree)] = (tree, made)
        return made

    def _made(self, tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return self._change(tree)
        if isinstance(tree, list | tuple):
            return self._sequence(tree)
        children = _children(tree)
        if children is None:
            return tree
        changed, is_same = {}, True
        for name, child in children.items():
            new = child if type(child) in _PLAIN else self.apply(child)
            is_same = is_same and new is child
            changed[name] = new
        if is_same:
            return tree
        if isinstance(tree, TreeNode):
            return tree.tree_rebuild(changed)
        if isinstance(tree, dict):
            made = copy(tree)  # keeps what a subclass has besides its items
            made.update(changed)
            return made
        rebuild: Any = type(tree)
        return rebuild(changed) if isinstance(tree, Mapping) else replace(tree, **changed)

    def _sequence(self, tree: list[Any] | tuple[Any, ...]) -> Any:
        changed = [self.apply(child) for child in tree]
        if all(new is old for new, old in zip(changed, tree, strict=True)):
            return tree
        return type(tree)(*changed) if hasattr(tree, "_fields") else type(tree)(changed)


def _children(tree: Any) -> dict[Any, Any] | None:
    if isinstance(tree, TreeNode):
        return tree.tree_children()
    if type(tree) in _PLAIN:
        return None
    if isinstance(tree, Mapping):
        return dict(tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
    return None
