"""Arguments one level up: what gradients are taken of becomes leaves, all else constants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from pyrite.autodiff.node import Leaf, Variable, order_of_nodes
from pyrite.autodiff.tape import Autodiff
from pyrite.columns import Column, Maker
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.template import tree_exchanged, tree_renewed
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves

T = TypeVar("T")

#: So many parameters are lifted together.
_MANY: Final = 4
_slots: Final = ("_handle", "_type", "_backend")
_own_slots: Final = ("_initial", "id", "version", "trainable")
_handle, _type, _backend = [Column(Parameter, name) for name in _slots]
_id, _version, _trainable = [Column(Parameter, name) for name in _own_slots[1:]]
_tensors = Maker(Tensor, *_slots)
_parameters = Maker(Parameter, *_slots, *_own_slots)
_variables = Maker(Variable, "value", "node", "index")
_leaves = Maker(Leaf, "order", "outs", "parents", "active", "key")


def lifted(tree: T, backend: Autodiff) -> tuple[T, Sequence[Tensor]]:
    """Return a tree with its tensors one level up, and these."""
    held = tree_leaves(tree)
    if len(held) >= _MANY and {*map(type, held)} == {Parameter}:
        parameters: list[Any] = held
        if all(_trainable.read(held)) and _backend.read(held).count(backend.inner) == len(held):
            made = _leaves_of(parameters, backend)
            return tree_exchanged(tree, held, made), made
    tensors: list[Tensor] = []

    def lift(tensor: Tensor) -> Tensor:
        tensors.append(_lifted(tensor, backend))
        return tensors[-1]

    return tree_renewed(lift, tree), tensors


def _leaves_of(parameters: Sequence[Parameter], backend: Autodiff) -> list[Parameter]:
    """Return trainable parameters of the level below one level up: what `_lifted` does, at once."""
    count = len(parameters)
    types, ids, versions = _type.read(parameters), _id.read(parameters), _version.read(parameters)
    values = _tensors.many(count, _handle.read(parameters), types, backend.inner)
    orders = [*islice(order_of_nodes, count)]
    keys = [*zip(ids, versions, strict=True)]
    nodes = _leaves.many(count, orders, [*zip(types, strict=True)], [()] * count, True, keys)
    handles = _variables.many(count, values, nodes, 0)
    return _parameters.many(count, handles, types, backend, None, ids, versions, True)


def _lifted(tensor: Tensor, backend: Autodiff) -> Tensor:
    if isinstance(tensor, Parameter):
        if not tensor.trainable:
            return tensor.lifted(backend.lift(tensor), backend)
        # By numbers, as `Parameter` says of its own leaves.
        return tensor.lifted(backend.leaf(tensor, (tensor.id, tensor.version)), backend)
    if isinstance(tensor, Identified):
        return tensor
    made = Tensor(backend.lift(tensor), tensor._type, backend)
    return made.require_grad() if tensor.dtype.is_float else made
