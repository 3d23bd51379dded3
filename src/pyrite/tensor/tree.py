"""Trees of tensors: tensors, and lists, tuples, dicts, dataclasses and modules of them, nested.

One tensor that occurs twice is changed once, so tied weights stay tied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from pyrite.tensor.frozen import FrozenDict, FrozenList
from pyrite.tensor.tensor import Tensor

#: Types that hold no tensor, told apart first because trees are full of them.
_PLAIN = frozenset({type(None), bool, int, float, str})

T = TypeVar("T")
Change = Callable[[Tensor], Any]


class TreeNode:
    """An object that holds tensors and can be rebuilt with others: a module."""

    #: Whether its children stay the objects that they are.
    _is_frozen: bool = False
    #: Its tensors, each once, where it is known that they stay these.
    _tree_leaves: tuple[Tensor, ...] | None = None
    #: What it is but for these, where whoever asked has left it; nodes made by `tree_map` share it.
    _tree_form: Hashable | None = None
    #: How it is made again with other tensors, by which of them stay (template.py); shared alike.
    _tree_templates: dict[tuple[int, ...], Any] | None = None

    def tree_children(self) -> dict[str, Any]:
        """Return what it holds, by field name: trees."""
        raise NotImplementedError

    def tree_branches(self) -> tuple[Iterable[str], Mapping[str, Any]]:
        """Return the names of the children that are branches, and where to find these by name."""
        children = self.tree_children()
        return [name for name, child in children.items() if is_branch(child)], children

    def tree_fields(self) -> dict[str, Any] | None:
        """Return what a copy has in its ``__dict__`` but for its branches, where that is all.

        None where `tree_rebuild` does more.
        """
        return None

    def tree_rebuild(self, children: dict[str, Any]) -> Any:
        """Return a copy with these in the place of its branches of the same names."""
        raise NotImplementedError


#: What a pass over a tree remembers by identity.
_SHARED = (Tensor, TreeNode)
_SEQUENCES = (list, tuple)
_BRANCHES = (*_SHARED, *_SEQUENCES, Mapping)
#: Containers that cannot come to hold other things; modules have their lists and dicts in such.
_FROZEN = frozenset({tuple, FrozenList, FrozenDict, MappingProxyType})


def tree_map(change: Change, tree: T) -> T:
    """Return the tree with each tensor changed; whatever holds no changed tensor is shared.

    >>> import pyrite
    >>> tree_map(lambda t: t + 1, {"a": [pyrite.zeros(())], "b": "text"})["a"][0].item()
    1.0
    """
    if isinstance(tree, Tensor):
        return change(tree)  # type: ignore[no-any-return]
    return _Mapping(change).apply(tree)  # type: ignore[no-any-return]


def tree_leaves(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree in order, each once."""
    if isinstance(tree, TreeNode) and tree._tree_leaves is not None:
        return [*tree._tree_leaves]
    if isinstance(tree, Tensor):
        return [tree]
    found: dict[int, Tensor] = {}
    _collect(tree, found)
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


def children_of(tree: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a container has, by index, key or field name; nothing of what is none.

    >>> list(children_of(["a", "b"])), list(children_of({"a": 1})), list(children_of(3))
    ([(0, 'a'), (1, 'b')], [('a', 1)], [])
    """
    return enumerate(tree) if isinstance(tree, _SEQUENCES) else _named(tree).items()


def with_children(tree: Any, changed: Mapping[Any, Any]) -> Any:
    """Return a container with some of its children exchanged, by index, key or field name.

    >>> with_children([1, 2], {0: 3}), with_children({"a": 1}, {"a": 2})
    ([3, 2], {'a': 2})
    """
    if isinstance(tree, _SEQUENCES):
        children = [changed.get(index, child) for index, child in enumerate(tree)]
        return type(tree)(*children) if hasattr(tree, "_fields") else type(tree)(children)
    if isinstance(tree, dict) and not isinstance(tree, FrozenDict):
        made = copy(tree)  # keeps what a subclass has besides its items
        made.update(changed)
        return made
    kind: Any = type(tree)
    return kind({**tree, **changed}) if isinstance(tree, Mapping) else replace(tree, **changed)


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
    return isinstance(value, _BRANCHES) or _is_record(value)


def _collect(tree: Any, found: dict[int, Tensor]) -> bool:
    """File the tensors of a tree by their ids; return whether they stay the ones that it holds."""
    if isinstance(tree, Tensor):
        found[id(tree)] = tree
        return True
    if isinstance(tree, TreeNode):
        return _collect_node(tree, found)
    if not is_branch(tree):
        return True
    children = tree if isinstance(tree, _SEQUENCES) else _named(tree).values()
    stay = [_collect(child, found) for child in children]
    return type(tree) in _FROZEN and all(stay)


def _collect_node(node: TreeNode, found: dict[int, Tensor]) -> bool:
    leaves, stay = node._tree_leaves, True
    if leaves is None:
        own: dict[int, Tensor] = {}
        names, children = node.tree_branches()
        stay = all([_collect(children[name], own) for name in names])
        leaves, stay = tuple(own.values()), stay and node._is_frozen
        if stay:
            _remember(node, leaves)
    for leaf in leaves:
        found[id(leaf)] = leaf
    return stay


def _remember(node: TreeNode, leaves: tuple[Tensor, ...]) -> None:
    # A frozen node has the entry already, and every thread that looks finds the same tensors.
    node.__dict__["_tree_leaves"] = leaves


def hand_on(node: TreeNode, made: TreeNode, changed: Sequence[Any]) -> None:
    """Tell what became of a node what became of its tensors, where these are known of the node."""
    if changed and all([isinstance(new, Tensor) for new in changed]):
        leaves = tuple(changed)
        if len(set(map(id, leaves))) < len(leaves):
            leaves = tuple({id(new): new for new in changed}.values())
        _remember(made, leaves)
        if len(leaves) == len(changed):
            made.__dict__["_tree_form"] = node._tree_form
            made.__dict__["_tree_templates"] = node._tree_templates


def _named(tree: Any) -> Mapping[Any, Any]:
    """Return what neither a tensor nor a sequence holds, by name: {} for what is no tree."""
    if isinstance(tree, TreeNode):
        names, children = tree.tree_branches()
        return {name: children[name] for name in names}
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
        #: Whether it is inside of a node.
        self._is_inside = False

    def apply(self, tree: Any) -> Any:
        if not isinstance(tree, _SHARED):
            return self._container(tree) if is_branch(tree) else tree
        done = self._done.get(id(tree))
        if done is None:
            if isinstance(tree, Tensor):
                made = self._change(tree)
            else:
                made = self._node(tree) if self._is_inside else self._outermost(tree)
            done = self._done[id(tree)] = (tree, made)
        return done[1]

    def _outermost(self, node: TreeNode) -> Any:
        self._is_inside = True
        made = self._node(node)
        self._is_inside = False
        if made is not node:
            hand_on(node, made, [self._done[id(leaf)][1] for leaf in node._tree_leaves or ()])
        return made

    def _node(self, node: TreeNode) -> Any:
        names, children = node.tree_branches()
        changed = self._changes(names, children)
        return node.tree_rebuild(changed) if changed else node

    def _changes(self, names: Iterable[Any], children: Any) -> dict[Any, Any]:
        changed = {}
        for name in names:
            child = children[name]
            new = self.apply(child)
            if new is not child:
                changed[name] = new
        return changed

    def _container(self, tree: Any) -> Any:
        if isinstance(tree, _SEQUENCES):
            changed = self._changes(range(len(tree)), tree)
        else:
            children = _named(tree)
            changed = self._changes(children, children)
        return with_children(tree, changed) if changed else tree
