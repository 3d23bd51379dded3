"""Ops whose rule is a contraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.contraction import contract_terms
from pyrite.backend.cube.skeleton.elementwise import as_tensor, zeros
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.op.rule import Contract


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
