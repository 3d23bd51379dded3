"""A tree that is made again and again with other tensors in it, as a step makes a model.

What `tree_map` finds out at each pass is found out once: which containers hold tensors, and where.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final, TypeVar

from pyrite.columns import Pattern, add_nodes
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import (
    Change,
    TreeNode,
    children_of,
    hand_on,
    is_branch,
    tree_leaves,
    tree_map,
    with_children,
)

T = TypeVar("T")

#: By so many ways in which some tensors of a node stay its templates are kept.
MOST_TEMPLATES: Final = 8

#: What a step makes anew, whether it is a node, and the children that it gets: names with places
#: among what there is.
_Step = tuple[Any, bool, list[tuple[Any, int]]]


def tree_renewed(change: Change, tree: T) -> T:
    """Return what `tree_map` does, where a change gives tensors; a model once met takes no search.

    >>> import pyrite
    >>> tree_renewed(lambda t: t + 1, [pyrite.zeros(())])[0].item()
    1.0
    """
    if not isinstance(tree, TreeNode) or not tree._is_frozen or not tree._tree_leaves:
        return tree_map(change, tree)
    leaves = tree._tree_leaves
    return tree_exchanged(tree, leaves, [change(t) for t in leaves])


def tree_exchanged(tree: T, leaves: Sequence[Tensor], new: Sequence[Any]) -> T:
    """Return a tree with others in the place of its tensors, which are given in their order.

    >>> import pyrite
    >>> tree = [pyrite.zeros(()), pyrite.ones(())]
    >>> tree_exchanged(tree, tree, tree[::-1])[0].item()
    1.0
    """
    if not isinstance(tree, TreeNode) or not tree._is_frozen or not tree._tree_leaves:
        found = dict(zip(map(id, leaves), new, strict=True))
        return tree_map(lambda t: found[id(t)], tree)
    kept = tuple([n for n, (x, t) in enumerate(zip(new, leaves, strict=True)) if x is t])
    if len(kept) == len(leaves):
        return tree
    templates = tree._tree_templates
    if templates is None:
        templates = tree.__dict__["_tree_templates"] = {}
    if kept not in templates:
        if len(templates) >= MOST_TEMPLATES:
            templates.clear()
        templates[kept] = _template_of(tree, kept)
    template = templates[kept]
    if template is None:
        found = dict(zip(map(id, leaves), new, strict=True))
        return tree_map(lambda t: found[id(t)], tree)
    made = template.parts(new)[-1]
    hand_on(tree, made, new)
    return made  # type: ignore[no-any-return]


def _template_of(node: TreeNode, kept: Sequence[int]) -> Template | None:
    """Return the template of a node, which holds none of its tensors.

    None where something in it holds such tensors alone as are ``kept``, and so is shared.
    """
    blank: dict[int, Tensor] = {id(t): object.__new__(type(t)) for t in tree_leaves(node)}
    stays = {id(t) for n, t in enumerate(tree_leaves(node)) if n in kept}
    if stays and _shares(node, stays):
        return None
    return Template(tree_map(lambda t: blank[id(t)], node), [*blank.values()])


def _shares(value: Any, stays: Set[int]) -> bool:
    """Whether something in a value holds tensors, and all of them stay."""
    if isinstance(value, Tensor) or not is_branch(value):
        return False
    held = tree_leaves(value)
    if held and all([id(t) in stays for t in held]):
        return True
    return any([_shares(child, stays) for _, child in children_of(value)])


class Template:
    """A tree in whose places of some tensors others come; all that holds none of them is shared.

    >>> import pyrite
    >>> x = pyrite.zeros(())
    >>> Template({"a": [x], "b": "text"}, [x]).filled([pyrite.ones(())])["a"][0].item()
    1.0
    """

    def __init__(self, tree: Any, tensors: Sequence[Tensor]) -> None:
        self._steps: list[_Step] = []
        #: Of each step the pattern of its node, where that is made of fields alone.
        self._patterns: list[Pattern | None] = []
        #: The outermost nodes, with their places: they are told which tensors they hold.
        self._outermost: list[tuple[TreeNode, int, list[int]]] = []
        #: By id the places of tensors, and of nodes, which may occur twice.
        self._places = {id(t): n for n, t in enumerate(tensors)}
        self._count = len(tensors)
        #: Held, so that ids stay theirs.
        self._of = tree, tensors
        self._root = self._placed(tree, is_inside=False)
        self._known = tuple(self._patterns)

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """Return the tree with these in the places of its own."""
        if self._root is None:
            return self._of[0]
        made = self.parts(tensors)
        for node, place, leaves in self._outermost:
            hand_on(node, made[place], [made[n] for n in leaves])
        return made[self._root]

    def parts(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Return the tensors, and behind them all that is made of them: the tree itself last."""
        made: list[Any] = [*tensors]
        steps, patterns = self._steps, self._known
        # As by `tree_rebuild`, in a third of the time.
        at = add_nodes(patterns, made, 0)
        while at < len(steps):
            value, is_node, changes = steps[at]
            children = {name: made[n] for name, n in changes}
            made.append(value.tree_rebuild(children) if is_node else with_children(value, children))
            at = add_nodes(patterns, made, at + 1)
        return made

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
        fields = value.tree_fields() if is_node else None
        self._steps.append((value, is_node, changes))
        self._patterns.append(None if fields is None else (value.__class__, fields, tuple(changes)))
        if is_node:
            self._places[id(value)] = place
            if not is_inside:
                leaves = [self._places.get(id(t), -1) for t in value._tree_leaves or ()]
                if -1 not in leaves:
                    self._outermost.append((value, place, leaves))
        return place
