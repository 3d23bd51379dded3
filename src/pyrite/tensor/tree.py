"""Trees of tensors: tensors, and lists, tuples, dicts, dataclasses and modules of them, nested.

One tensor that occurs twice is changed once, so tied weights stay tied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

    def tree_branches(self) -> dict[str, Any]:
        """Return those of its children in which there may be tensors, see `is_branch`."""
        return {name: child for name, child in self.tree_children().items() if is_branch(child)}

    def tree_rebuild(self, children: dict[str, Any]) -> Any:
        """Return a copy that holds other children under these names, and all others as before."""
        raise NotImplementedError


#: What a pass over a tree remembers by identity.
_SHARED = (Tensor, TreeNode)
_SEQUENCES = (list, tuple)


def tree_map(change: Change, tree: T) -> T:
    """Return the tree with each tensor changed; whatever holds no changed tensor is shared.

    >>> import pyrite
    >>> tree_map(lambda t: t + 1, {"a": [pyrite.zeros(())], "b": "text"})["a"][0].item()
    1.0
    """
    return _Mapping(change).apply(tree)  # type: ignore[no-any-return]


def tree_leaves(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree in order, each once."""
    found: dict[int, Tensor] = {}
    _collect((tree,), found)
    return list(found.values())


def tree_items(tree: Any) -> list[tuple[str, Tensor]]:
    """Return (path, tensor) pairs in order, each tensor once, under the first path to it.

    >>> import pyrite
    >>> [path for path, _ in tree_items({"a": [pyrite.zeros(())], "b": pyrite.ones(())})]
    ['a.0', 'b']
    """
    found: dict[int, tuple[str, Tensor]] = {}
    for path, leaf in tree_paths(tree):
        found.setdefault(id(leaf), (path, leaf))
    return list(found.values())


def tree_paths(tree: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Give (path, tensor) pairs in order; a tensor that occurs twice, under each of its paths."""
    if isinstance(tree, Tensor):
        yield path, tree
        return
    named = enumerate(tree) if isinstance(tree, _SEQUENCES) else _named(tree).items()
    for name, child in named:
        if type(child) not in _PLAIN:
            yield from tree_paths(child, f"{path}.{name}" if path else str(name))


def is_branch(value: Any) -> bool:
    """Whether there may be tensors in a value: in a module, a container, or a dataclass.

    Whatever happens to the value, the answer stays: a list may be given a tensor, and a number, a
    name, a function or a tuple of these will never hold one.

    >>> is_branch([]), is_branch((2, 3))
    (True, False)
    """
    if type(value) in _PLAIN:
        return False
    if type(value) is tuple:
        return any(is_branch(item) for item in value)
    return isinstance(value, (*_SHARED, *_SEQUENCES, Mapping)) or _is_record(value)


def _collect(trees: Iterable[Any], found: dict[int, Tensor]) -> None:
    """File the tensors of some trees by their ids."""
    for tree in trees:
        if isinstance(tree, Tensor):
            found[id(tree)] = tree
        elif isinstance(tree, TreeNode):
            _collect(tree.tree_branches().values(), found)
        elif type(tree) not in _PLAIN:
            _collect(tree if isinstance(tree, _SEQUENCES) else _named(tree).values(), found)


def _named(tree: Any) -> Mapping[Any, Any]:
    """Return the branches of what is neither a tensor nor a sequence, by name; {} for no tree."""
    if isinstance(tree, TreeNode):
        return tree.tree_branches()
    if isinstance(tree, Mapping):
        return tree
    if _is_record(tree):
        return {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
    return {}


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


class _Mapping:
    """One pass over a tree; remembers what became of each object, so that sharing survives."""

    def __init__(self, change: Change) -> None:
        self._change = change
        # Keeps the originals alive too, so that their ids stay theirs.
        self._done: dict[int, tuple[Any, Any]] = {}

    def apply(self, tree: Any) -> Any:
        if not isinstance(tree, _SHARED):
            return tree if type(tree) in _PLAIN else self._container(tree)
        done = self._done.get(id(tree))
        if done is None:
            made = self._change(tree) if isinstance(tree, Tensor) else self._container(tree)
            done = self._done[id(tree)] = (tree, made)
        return done[1]

    def _container(self, tree: Any) -> Any:
        if isinstance(tree, _SEQUENCES):
            return self._sequence(tree)
        changed = {}
        for name, child in _named(tree).items():
            new = self.apply(child)
            if new is not child:
                changed[name] = new
        return _rebuilt(tree, changed) if changed else tree

    def _sequence(self, tree: list[Any] | tuple[Any, ...]) -> Any:
        changed = [self.apply(child) for child in tree]
        if all(new is old for new, old in zip(changed, tree, strict=True)):
            return tree
        return type(tree)(*changed) if hasattr(tree, "_fields") else type(tree)(changed)


def _rebuilt(tree: Any, changed: dict[Any, Any]) -> Any:
    """Return a copy of what is no sequence, with other children under some names."""
    if isinstance(tree, TreeNode):
        return tree.tree_rebuild(changed)
    if isinstance(tree, dict):
        made = copy(tree)  # keeps what a subclass has besides its items
        made.update(changed)
        return made
    kind: Any = type(tree)
    return kind({**tree, **changed}) if isinstance(tree, Mapping) else replace(tree, **changed)
