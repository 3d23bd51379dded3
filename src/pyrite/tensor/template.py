"""A tree that is made again and again with other tensors in it, as a step makes a model.

What `tree_map` finds out at each pass is found out once: which containers hold tensors, and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, children_of, hand_on, is_branch, with_children

#: What a step makes anew, and the children that it gets: names with places among what there is.
_Step = tuple[Any, bool, list[tuple[Any, int]]]


class Template:
    """A tree in whose places of some tensors others come; all that holds none of them is shared.

    >>> import pyrite
    >>> x = pyrite.zeros(())
    >>> Template({"a": [x], "b": "text"}, [x]).filled([pyrite.ones(())])["a"][0].item()
    1.0
    """

    def __init__(self, tree: Any, tensors: Sequence[Tensor]) -> None:
        self._steps: list[_Step] = []
        #: The outermost nodes, with their places: they are told which tensors they hold.
        self._outermost: list[tuple[TreeNode, int, list[int]]] = []
        #: By id the places of tensors, and of nodes, which may occur twice.
        self._places = {id(t): n for n, t in enumerate(tensors)}
        self._count = len(tensors)
        #: Held, so that ids stay theirs.
        self._of = tree, tensors
        self._root = self._placed(tree, is_inside=False)

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """Return the tree with these in the places of its own."""
        if self._root is None:
            return self._of[0]
        made: list[Any] = [*tensors]
        for value, is_node, changes in self._steps:
            children = {name: made[n] for name, n in changes}
            made.append(value.tree_rebuild(children) if is_node else with_children(value, children))
        for node, place, leaves in self._outermost:
            hand_on(node, made[place], [made[n] for n in leaves])
        return made[self._root]

    def _placed(self, value: Any, *, is_inside: bool) -> int | None:
        """Return the place of what becomes of a value; None of one that stays."""
        if isinstance(value, Tensor):
            return self._places.get(id(value))
        is_node = isinstance(value, TreeNode)
        if id(value) in self._places:
            return self._places[id(value)]
        if not is_node and not is_branch(value):
            return None
        changes = [
            (name, place)
            for name, child in children_of(value)
            if (place := self._placed(child, is_inside=is_inside or is_node)) is not None
        ]
        if not changes:
            return None
        place = self._count + len(self._steps)
        self._steps.append((value, is_node, changes))
        if is_node:
            self._places[id(value)] = place
            if not is_inside:
                leaves = [self._places.get(id(t), -1) for t in value._tree_leaves or ()]
                if -1 not in leaves:
                    self._outermost.append((value, place, leaves))
        return place
