"""Trees: a container of tensors comes back as what it was, and shared where nothing changed."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from pyrite import nn
from pyrite.autodiff import grad
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import is_branch, tree_items, tree_leaves, tree_map


class Point(NamedTuple):
    x: Any
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    x: Any
    size: int = 2
    cache: Any = field(init=False, default=None)


TREES = [
    lambda t: [t, None, "text"],
    lambda t: (t, (), {}),
    lambda t: {"a": [t], 2: True},
    lambda t: OrderedDict(a=t),
    lambda t: defaultdict(list, a=[t]),
    lambda t: MappingProxyType({"a": t}),
    lambda t: Point(t, "p"),
    lambda t: Batch(t),
]


@pytest.mark.parametrize("plant", TREES)
def test_a_mapped_tree_is_of_the_same_kind(plant: Any) -> None:
    t = tensor([1.0, 2.0])
    tree = plant(t)
    doubled = tree_map(lambda leaf: leaf * 2, tree)
    assert type(doubled) is type(tree)
    assert [leaf.tolist() for leaf in tree_leaves(doubled)] == [[2.0, 4.0]]
    assert tree_leaves(tree)[0] is t
    assert tree_map(lambda leaf: leaf, tree) is tree


def test_a_default_dict_keeps_its_default() -> None:
    mapped = tree_map(lambda t: t + 1, defaultdict[str, Any](list, a=tensor(1.0)))
    assert mapped["new"] == []


@pytest.mark.parametrize("plant", TREES)
def test_gradients_have_the_form_of_the_tree(plant: Any) -> None:
    def loss(tree: Any) -> Tensor:
        return (tree_leaves(tree)[0] ** 2).sum()

    gradients = grad(loss)(plant(tensor([1.0, 2.0])))
    assert [g.tolist() for g in tree_leaves(gradients)] == [[2.0, 4.0]]
    assert type(gradients) is type(plant(None))


def test_a_tensor_that_occurs_twice_is_changed_once() -> None:
    t = tensor(1.0)
    tree: list[Any] = [t, {"again": t}]
    mapped = tree_map(lambda leaf: leaf + 1, tree)
    assert mapped[0] is mapped[1]["again"]
    assert [path for path, _ in tree_items(tree)] == ["0"]


@pytest.mark.parametrize("plant", TREES)
def test_a_branch_is_what_may_hold_a_tensor(plant: Any) -> None:
    assert is_branch(plant(tensor(1.0)))
    assert not any(is_branch(value) for value in (None, 1, "a", (), (1, (2.0,)), len, int, Point))
    assert is_branch([])


def test_a_module_in_a_tuple_keeps_what_is_known_of_its_tensors() -> None:
    model = nn.Linear(2, 3)
    before = tree_leaves(model)

    made, _ = tree_map(lambda t: t + 1, (model, {"loss": tensor(0.0)}))

    assert [id(t) for t in made._tree_leaves or ()] == [id(made.weight), id(made.bias)]
    assert len(before) == 2
