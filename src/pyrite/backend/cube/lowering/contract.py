"""Ops whose rule is a contraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import finishes, lowers_rule
from pyrite.backend.cube.skeleton.contraction import contract_terms, takes_epilogue
from pyrite.backend.cube.skeleton.elementwise import as_tensor, zeros
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.op import Attributes, Op
from pyrite.op.rule import Contract
from pyrite.types import TensorType


@lowers_rule(Contract)
def contract(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the sums of products, as a product of matrices where they are one."""
    assert isinstance(op.rule, Contract)
    x, y = (as_tensor(launcher, i) for i in inputs)
    (type,) = out
    if 0 in (type.size, x.type.size, y.type.size):
        return [zeros(launcher, type)]
    terms = op.rule.of([x.shape, y.shape], attrs)
    target = launcher.empty(type)
    parted = target.reshaped(terms.shape)
    assert parted is not None, "a dense tensor takes any shape"
    contract_terms(launcher, terms, x, y, parted)
    return [target]


@finishes(contract)
def contract_and_finish(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of the sums of products, where they are those of matrices."""
    assert isinstance(op.rule, Contract)
    (type,) = out
    if not all(isinstance(i, CubeTensor) and i.type.size for i in inputs):
        return False
    x, y = inputs
    terms = op.rule.of([x.shape, y.shape], attrs)
    parted = epilogue.seen(lambda t: t.reshaped(terms.shape))
    if parted is None or not takes_epilogue(terms, type.dtype):
        return False
    target = unstored(TensorType(terms.shape, type.dtype))
    contract_terms(launcher, terms, x, y, target, parted)
    return True
