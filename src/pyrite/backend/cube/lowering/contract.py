"""Ops whose rule is a contraction: convolutions, products of matrices, and all other sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.convolution import BY_ROLE, FINISHING_BY_ROLE
from pyrite.backend.cube.registry import finishes, lowers_rule
from pyrite.backend.cube.skeleton.contraction import contract_terms, takes_epilogue
from pyrite.backend.cube.skeleton.contraction.windows import windows_of_products
from pyrite.backend.cube.skeleton.elementwise import as_tensor, zeros
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.op import Attributes, Op
from pyrite.op.rule import Contract
from pyrite.op.rule.contract import terms_of
from pyrite.types import TensorType


@lowers_rule(Contract)
def contract(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the sums of products, as a convolution or a product of matrices where they are one."""
    assert isinstance(op.rule, Contract)
    x, y = (as_tensor(launcher, i) for i in inputs)
    (type,) = out
    if 0 in (type.size, x.type.size, y.type.size):
        return [zeros(launcher, type)]
    products, role = op.rule.products_of([x.shape, y.shape], attrs), op.rule.role
    target = launcher.empty(type)
    windows = windows_of_products(products)
    if windows is not None:
        BY_ROLE[role](launcher, windows, x, y, target)
        return [target]
    terms = terms_of(products, role)
    parted = target.reshaped(terms.shape)
    assert parted is not None, "a dense tensor takes any shape"
    contract_terms(launcher, terms, x, y, parted)
    return [target]


@finishes(contract)
def contract_and_finish(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of the sums of products, where one kernel makes all of them."""
    assert isinstance(op.rule, Contract)
    (type,) = out
    if not all(isinstance(i, CubeTensor) and i.type.size for i in inputs):
        return False
    x, y = inputs
    products, role = op.rule.products_of([x.shape, y.shape], attrs), op.rule.role
    windows = windows_of_products(products)
    if windows is not None:
        return FINISHING_BY_ROLE[role](launcher, windows, x, y, type, epilogue)
    terms = terms_of(products, role)
    parted = epilogue.seen(lambda t: t.reshaped(terms.shape))
    if parted is None or not takes_epilogue(terms, type.dtype):
        return False
    target = unstored(TensorType(terms.shape, type.dtype))
    contract_terms(launcher, terms, x, y, target, parted)
    return True
