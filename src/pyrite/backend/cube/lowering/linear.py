"""x @ weight.T + bias: a product whose sums get the bias before they are rounded and stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.registry import Input, finishes, lowers
from pyrite.backend.cube.skeleton.contraction.epilogue import Around
from pyrite.backend.cube.skeleton.contraction.matrix_product import (
    flat_rows,
    multiply_to,
    rows_of_result,
)
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.op import Attributes, Op


def _has_bias(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether there is something to multiply, and something to add."""
    return all(isinstance(i, CubeTensor) and i.type.size > 0 for i in inputs)


@lowers("linear", when=_has_bias)
def linear(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return x @ weight.T, and the bias on each sum before it is rounded and stored."""
    x, weight, bias = inputs
    target = launcher.empty(out[0])
    around = Around.of(launcher, [bias], None, lambda t: rows_of_result(t, launcher.machine))
    multiply_to(launcher, _matrix(x), weight.permuted((1, 0)), _matrix(target), around)
    return [target]


@finishes(linear)
def linear_and_finish(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of the biased sums, where the rows of x lie as one matrix's."""
    x, weight, bias = inputs
    x, y = _matrix(x), weight.permuted((1, 0))
    if flat_rows(x, y) is None:
        return False
    around = Around.of(launcher, [bias], epilogue, lambda t: rows_of_result(t, launcher.machine))
    multiply_to(launcher, x, y, _matrix(unstored(out[0])), around)
    return True


def _matrix(x: CubeTensor) -> CubeTensor:
    """Return a vector as the one row of a matrix."""
    return x.strided((1, *x.shape), (0, *x.strides)) if len(x.shape) == 1 else x
