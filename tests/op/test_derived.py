"""A derivative that is declared is the one that follows from the rule of its op, where one does.

An op may declare a derivative in terms of known ops, which are faster; what follows from its rule
(`pyrite.op.derived`) is made without it.  Neither knows of the other, so each judges the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import GradientError
from pyrite.op import OPS
from pyrite.op.derived import derivative_of
from pyrite.op.rule import ADD, ASSIGN, AVERAGE, Contract, Gather, Map, Scatter, View, WindowFold
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.types import float64

#: Ops of maps whose places are quotients: a derivative does not follow.
BY_QUOTIENTS = {"slice_update"}


def follows(example: Example) -> bool:
    """Whether the rule of an op has a derivative in the case of an example."""
    rule, attrs = example.op.rule, example.sample.attrs
    if isinstance(rule, Scatter):
        return rule.collides(attrs) in (ADD, ASSIGN)
    if isinstance(rule, WindowFold):
        return rule.fold is AVERAGE
    if isinstance(rule, Contract):
        return rule.role == 2
    return isinstance(rule, View | Map | Gather) and example.op.name not in BY_QUOTIENTS


DECLARED = [e for e in examples() if follows(e) and e.op.derivative is not None]

#: How the result is read, and so in which layout its cotangent comes.
READS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda out: out,
    "stretched": lambda out: out.sum(),
    "reversed": lambda out: out.flip(),
    "transposed": lambda out: out.permute_dims(tuple(reversed(range(out.ndim)))),
}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("example", DECLARED, ids=lambda e: e.id)
@pytest.mark.sample(1, by="example.op")
def test_the_derivative_that_is_declared_is_the_one_that_follows(
    example: Example, read: str, device: str
) -> None:
    arrays = example.arrays(float64)
    derived = replace(example.op, derivative=derivative_of(example.op.rule, len(arrays)))
    for position, array in enumerate(arrays):
        if isinstance(array, np.ndarray) and array.dtype == np.float64:
            for order in (1, 2):
                got, want = (
                    slope(replace(example, op=op), arrays, position, READS[read], order, device)
                    for op in (derived, example.op)
                )
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def slope(
    example: Example, arrays: list[Any], position: int, read: Callable[[Tensor], Tensor],
    order: int, device: str,
) -> Any:  # fmt: skip
    """Return the gradient of a sum of weighted cubes, or of the sum of the squares of that."""
    inputs = [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]

    def total(x: Tensor) -> Any:
        (out,) = example.call([*inputs[:position], x, *inputs[position + 1 :]], device)
        seen = read(out)
        weights = tensor(np.random.default_rng(1).normal(size=seen.shape), device=device)
        return (weights * seen * seen * seen).sum()

    def of_gradient(x: Tensor) -> Any:
        g = grad(total)(x)
        return (g * g).sum()

    return grad(total if order == 1 else of_gradient)(inputs[position]).numpy()


@pytest.mark.parametrize("name", sorted(BY_QUOTIENTS))
def test_an_op_that_is_not_compared_has_no_derivative_but_the_declared_one(name: str) -> None:
    example = next(e for e in examples() if e.op.name == name)
    arrays = example.arrays(float64)
    derived = replace(example.op, derivative=derivative_of(example.op.rule, len(arrays)))
    with pytest.raises(GradientError, match=f"{name} requires a derivative rule"):
        slope(replace(example, op=derived), arrays, 0, READS["dense"], 1, "numpy")


def test_every_op_whose_derivative_follows_is_compared() -> None:
    classes = View | Map | Gather | Contract
    named = {name for name, op in OPS.items() if isinstance(op.rule, classes) and op.derivative}
    transposes = {"convolution_input_gradient", "convolution_weight_gradient"}
    assert {e.op.name for e in DECLARED} >= named - transposes - BY_QUOTIENTS
