"""What a function is called with: its tensors in order, and all else, by which calls are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from typing import Any

from pyrite.content import ContentKey, content_of
from pyrite.op import is_host_scalar
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, tree_leaves

#: Fields in which a node keeps what was found out about it.
_FOUND = frozenset(
    {"_is_frozen", "_tree_branches", "_tree_form", "_tree_leaves", "_tree_templates"}
)

#: Classes whose values are their content.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


class Same:
    """A value that is itself only.  It is held, so that no other one takes its id."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return f"{type(self.value).__name__} at {id(self.value):#x}"


@dataclass(frozen=True, slots=True)
class Tree:
    """Trees of tensors: the tensors, each once, and the form, which says where each of them is."""

    leaves: list[Tensor]
    form: Hashable

    @classmethod
    def of(cls, value: Any) -> Tree:
        """Return a value as one."""
        walk = _Walk()
        return cls(walk.leaves, walk.form(value))

    @property
    def facts(self) -> list[Hashable]:
        """What a call depends on of its tensors, besides their values."""
        return [fact_of(t) for t in self.leaves]

    @property
    def ids(self) -> list[int]:
        """Who its parameters and states are."""
        return [t.id for t in self.leaves if isinstance(t, Identified)]


def fact_of(t: Tensor) -> Hashable:
    """Return type, device and class of a tensor, and whether it is trained."""
    trainable = t.trainable if isinstance(t, Identified) else False
    return (t._type, t._backend, t.__class__, trainable)


class _Walk:
    """One pass over a tree."""

    def __init__(self) -> None:
        self.leaves: list[Tensor] = []
        self._places: dict[int, int] = {}

    def form(self, value: Any) -> Hashable:
        # Arguments, as a rule: to ask what else they may be takes ten times as long.
        if type(value) is tuple:
            return (tuple, *[self.form(item) for item in value])
        if type(value) is dict and not value:
            return (dict,)
        if isinstance(value, Tensor):
            return ("tensor", self._place(value))
        if isinstance(value, TreeNode):
            form, leaves = _of_node(value)
            if not self.leaves:
                # A model, which comes first as a rule: a step asks for all of its tensors.
                self.leaves += leaves
                self._places = {id(t): n for n, t in enumerate(leaves)}
                return ("node", form, tuple(range(len(leaves))))
            return ("node", form, tuple([self._place(t) for t in leaves]))
        if is_host_scalar(value):
            return ("number", value.key)
        return form_of(value, self.form)

    def _place(self, t: Tensor) -> int:
        place = self._places.get(id(t))
        if place is None:
            place = self._places[id(t)] = len(self.leaves)
            self.leaves.append(t)
        return place


def form_of(value: Any, of_part: Callable[[Any], Hashable]) -> Hashable:
    """Return the form of a value that is neither a tensor nor a module, given that of its parts."""
    kind = type(value)
    if kind in _PLAIN:
        return (kind, content_of(value))
    if isinstance(value, list | tuple):
        return (kind, *[of_part(item) for item in value])
    if isinstance(value, Mapping):
        return (kind, *[(form_of(k, of_part), of_part(v)) for k, v in value.items()])
    if is_dataclass(value) and not isinstance(value, type):
        named = [(f.name, of_part(getattr(value, f.name))) for f in fields(value) if f.init]
        return (kind, *named)
    return Same(value)


def _of_node(node: TreeNode) -> tuple[Hashable, list[Tensor]]:
    """Return the form of a node, which it keeps, and its tensors in order."""
    leaves = tree_leaves(node)
    form = node._tree_form
    if form is None:
        form = ContentKey(_NodeWalk(leaves).form(node))
        if node._is_frozen and node._tree_leaves is not None:
            node.__dict__["_tree_form"] = form
    return form, leaves


class _NodeWalk:
    """A pass over all that a node has, its tensors by their places among its own."""

    def __init__(self, leaves: list[Tensor]) -> None:
        self._places = {id(t): n for n, t in enumerate(leaves)}

    def form(self, value: Any) -> Hashable:
        if isinstance(value, Tensor):
            place = self._places.get(id(value))
            return Same(value) if place is None else ("tensor", place)
        if isinstance(value, TreeNode):
            named = [(k, self.form(v)) for k, v in vars(value).items() if k not in _FOUND]
            return (type(value), *named)
        return form_of(value, self.form)


#: The handle of a tensor.
handle_of = attrgetter("_handle")
