"""Templates: what they make is what `tree_map` makes, whatever holds the tensors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pyrite import nn
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import State
from pyrite.tensor.template import Template, tree_renewed
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, tree_leaves, tree_map

from .test_tree import TREES


def made(tree: Any, change: dict[int, Tensor]) -> tuple[Any, Any]:
    leaves = tree_leaves(tree)
    return (
        Template(tree, leaves).filled([change[id(t)] for t in leaves]),
        tree_map(lambda t: change[id(t)], tree),
    )


@pytest.mark.parametrize("make", TREES)
def test_containers_come_back_as_what_they_were(make: Any) -> None:
    x, y = tensor([1.0]), tensor([2.0])

    found, wanted = made(make(x), {id(x): y})

    assert type(found) is type(wanted)
    assert [t is y for t in tree_leaves(found)] == [True]
    assert repr(found) == repr(wanted)


def test_modules_are_made_with_all_that_is_known_of_them() -> None:
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Sequential(nn.Linear(2, 1)))
    leaves: list[Any] = tree_leaves(model)
    model.__dict__["_tree_form"] = "form"
    template = Template({"model": model, "n": 3}, leaves)

    for _ in range(2):
        new: dict[int, Any] = {id(t): t.with_value(t * 2) for t in leaves}
        found = template.filled([new[id(t)] for t in leaves])["model"]
        wanted = tree_map(lambda t, new=new: new[id(t)], model)
        assert found is not model
        assert [*map(id, tree_leaves(found))] == [*map(id, tree_leaves(wanted))]
        assert found[0] is found[2]
        assert found[1] is model[1]
        assert (found._tree_form, found._tree_leaves) == ("form", wanted._tree_leaves)
        assert (found[3]._tree_form, found[3]._tree_leaves) == (None, None)


def test_two_tensors_that_become_one_are_one() -> None:
    model = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    leaves = tree_leaves(model)
    one = leaves[0]

    first, second = Template(model, leaves).filled([one, one])

    assert first.weight is second.weight is one
    assert isinstance(first, TreeNode)


def test_what_has_none_of_the_tensors_is_shared() -> None:
    x, y = tensor([1.0]), tensor([2.0])
    kept = {"a": [y]}

    found = Template([x, kept, "text"], [x]).filled([y])

    assert found[1] is kept
    assert Template(kept, [x]).filled([y]) is kept


def test_a_model_is_renewed_as_it_is_mapped() -> None:
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Sequential(nn.Linear(2, 1)))
    model.__dict__["_tree_form"] = "form"

    for _ in range(4):
        new = {id(t): t.with_value(t * 2) for t in tree_leaves(model)}  # type: ignore[attr-defined]
        found = tree_renewed(lambda t, new=new: new[id(t)], model)
        assert [*map(id, tree_leaves(found))] == [id(t) for t in new.values()]
        assert found[0] is found[2]
        assert found[1] is model[1]
        assert (found._tree_form, found[3]._tree_leaves) == ("form", None)
        assert repr(found) == repr(model)
        model = found


def test_what_a_change_leaves_is_shared_as_by_a_map() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2), nn.Sequential(nn.Linear(2, 1)))
    tree_leaves(model)

    def change(t: Tensor) -> Tensor:
        return t if isinstance(t, State) or t.shape == (1,) else t.with_value(t * 2)  # type: ignore[attr-defined]

    for _ in range(3):
        found, wanted = tree_renewed(change, model), tree_map(change, model)
        assert found[1].running_mean is model[1].running_mean
        assert found[2][0].bias is model[2][0].bias
        for x, y in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
            assert x.numpy().tolist() == y.numpy().tolist()
        assert tree_renewed(lambda t: t, found) is found
        only_first = tree_renewed(
            lambda t, own=found[0]: t if t is not own.weight else t.with_value(t * 2), found
        )
        assert only_first[2] is found[2]
        model = found


def test_a_template_holds_no_tensor_of_a_model() -> None:
    model = nn.Linear(3, 3)
    tree_leaves(model)
    gone = weakref.ref(model.weight._handle)
    model = tree_renewed(lambda t: t.with_value(t * 2), model)  # type: ignore[attr-defined]
    gc.collect()
    assert gone() is None
