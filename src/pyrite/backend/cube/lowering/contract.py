"""Ops whose rule is a contraction: convolutions, products of matrices, and all other sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.convolution import (
    FINISHING_GRADIENTS,
    GRADIENTS,
    convolve,
    finish_forward,
)
from pyrite.backend.cube.lowering.convolution_positions import flat, with_one_axis
from pyrite.backend.cube.lowering.convolution_rehearsal import (
    ShapeOf,
    image_shape,
    note_windows,
    rehearse_forward,
    rehearse_gradient,
    result_shape,
)
from pyrite.backend.cube.registry import finishes, lowers_rule
from pyrite.backend.cube.skeleton.contraction import contract_terms, takes_epilogue
from pyrite.backend.cube.skeleton.contraction.windows import windows_of_products
from pyrite.backend.cube.skeleton.copy import as_tensor, dense, zeros
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.op import Attributes, Op
from pyrite.op.rule import Contract, Terms
from pyrite.op.rule.contract import terms_of
from pyrite.types import TensorType


@lowers_rule(Contract)
def contract(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the sums of products, as a convolution or a product of matrices where they are one."""
    rule = op.rule
    assert isinstance(rule, Contract)
    x, y, *others = (None if i is None else as_tensor(launcher, i) for i in inputs)
    assert x is not None
    assert y is not None
    (type,) = out
    biases = [_spread(rule, bias, type) for bias in others if bias is not None]
    if 0 in (type.size, x.type.size, y.type.size):
        return [_without_terms(launcher, biases, type)]
    products, role = rule.products_of([x.shape, y.shape], attrs), rule.role
    target = launcher.empty(type)
    windows = windows_of_products(products, attrs.get("stride"))
    if windows is not None:
        note_windows(launcher, windows, _operands(role, x, y))
        sums = target
        if role != 1:  # sums over positions go by whole rows
            windows, (x, y, sums, *biases) = with_one_axis(windows, [x, y, target, *biases])
        if role == 2:
            convolve(launcher, windows, x, y, biases, sums)
            rehearse_forward(launcher, windows, x, y, biases, sums)
        else:
            GRADIENTS[role](launcher, windows, x, y, sums)
            rehearse_gradient(launcher, windows, role, x, y, sums)
        return [target]
    terms = terms_of(products, role)
    parted, *spread = (_parted(t, terms) for t in (target, *biases))
    contract_terms(launcher, terms, x, y, parted, spread)
    return [target]


def _operands(role: int, x: CubeTensor, y: CubeTensor) -> list[tuple[CubeTensor, ShapeOf]]:
    """Return the operands of a convolution, or of a gradient, and their shapes by its windows."""
    shapes: tuple[tuple[ShapeOf, ShapeOf], ...] = (
        (result_shape, None), (image_shape, result_shape), (image_shape, None)
    )  # fmt: skip
    return [*zip((x, y), shapes[role], strict=True)]


def _spread(rule: Contract, bias: CubeTensor, type: TensorType) -> CubeTensor:
    """Return a bias with the axes of a result, stretched along all but its own."""
    (step,) = bias.strides
    axis = rule.bias_axis(len(type.shape))
    return bias.strided(type.shape, tuple(step if a == axis else 0 for a in range(len(type.shape))))


def _without_terms(
    launcher: Launcher, biases: Sequence[CubeTensor], type: TensorType
) -> CubeTensor:
    """Return sums of no products: the bias, or zeros."""
    return dense(launcher, biases[0], type) if biases else zeros(launcher, type)


def _parted(tensor: CubeTensor, terms: Terms) -> CubeTensor:
    """Return what has a result's axes with those of the terms, which are parts of them."""
    found = tensor.reshaped(terms.shape)
    assert found is not None, "an axis of any stride takes parts"
    return found


@finishes(contract)
def contract_and_finish(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of the sums of products, where one kernel makes all of them."""
    rule = op.rule
    assert isinstance(rule, Contract)
    (type,) = out
    x, y, *others = (i for i in inputs if i is not None)
    if not all(isinstance(i, CubeTensor) and i.type.size for i in (x, y, *others)):
        return False
    biases = [_spread(rule, bias, type) for bias in others]
    products, role = rule.products_of([x.shape, y.shape], attrs), rule.role
    windows = windows_of_products(products, attrs.get("stride"))
    if windows is not None:
        note_windows(launcher, windows, _operands(role, x, y))
        flat_windows, (flat_x, flat_y, sums, *rest) = with_one_axis(
            windows, [x, y, unstored(type), *biases]
        )
        seen = None if flat_windows is windows else epilogue.seen(flat)
        if seen is not None:
            windows, x, y, biases = flat_windows, flat_x, flat_y, rest
            type, epilogue = sums.type, seen
        if role == 2:
            return finish_forward(launcher, windows, x, y, biases, type, epilogue)
        return FINISHING_GRADIENTS[role](launcher, windows, x, y, type, epilogue)
    terms = terms_of(products, role)
    parted = epilogue.seen(lambda t: t.reshaped(terms.shape))
    if parted is None or not takes_epilogue(terms, type.dtype):
        return False
    target = unstored(TensorType(terms.shape, type.dtype))
    spread = [_parted(bias, terms) for bias in biases]
    contract_terms(launcher, terms, x, y, target, spread, parted)
    return True
