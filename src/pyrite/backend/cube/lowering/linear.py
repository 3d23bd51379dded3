"""x @ weight.T + bias: a product whose sums get the bias before they are rounded and stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.contraction import layout_of
from pyrite.backend.cube.skeleton.contraction.epilogue import add
from pyrite.backend.cube.skeleton.contraction.matrix_product import multiply
from pyrite.backend.cube.skeleton.protocol import Fused, Stage
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


def _has_bias(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether there is something to multiply, and something to add."""
    return all(isinstance(i, CubeTensor) and i.type.size > 0 for i in inputs)


@lowers("linear", when=_has_bias)
def linear(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return x @ weight.T, and the bias on each sum before it is rounded and stored."""
    x, weight, bias = inputs
    (type,) = out
    (n,), (step,) = bias.shape, bias.strides
    if len(x.shape) == 1:
        x = CubeTensor(x.buffer, TensorType((1, *x.shape), x.dtype), (0, *x.strides), x.offset)
        type = TensorType((1, *type.shape), type.dtype)
    along = OperandMap(
        bias.dtype, (), (), (Digit(n, step),), (), layout_of(bias, launcher.machine).offset
    )
    fused = Fused(epilogue=Stage(add, (along,)))
    found = multiply(launcher, x, weight.permuted((1, 0)), type, fused, [bias])
    whole = found.reshaped(out[0].shape)
    assert whole is not None, "a dense tensor takes any shape"
    return [whole]
