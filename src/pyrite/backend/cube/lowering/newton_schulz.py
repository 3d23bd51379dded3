"""The step of Muon, whose momentum is made orthogonal: all kernels of a matrix as one lowering.

A step of the iteration is three products and two passes over elements.  As ops they are nine, and
a matrix takes five steps.  Formulas and their order are those of the composites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.contraction.matrix_product import multiply
from pyrite.backend.cube.skeleton.elementwise import Rule, map_elements
from pyrite.backend.cube.skeleton.fold import kernel_fold, reduce_axes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.op import Attributes, Fold, Op
from pyrite.types import TensorType


def _are_matrices(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether all tensors are matrices of one shape and one dtype, in which they are computed."""
    tensors = [i for i in inputs if isinstance(i, CubeTensor)]
    shape, dtype = tensors[0].shape, tensors[0].dtype
    are_alike = all(t.shape == shape and t.dtype is dtype for t in tensors)
    return are_alike and 0 not in shape and dtype.is_float and dtype.compute is dtype


@lowers("newton_schulz", when=_are_matrices)
def newton_schulz(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return a matrix of singular values near 1."""
    return [_orthogonal(launcher, inputs[0], attrs)]


@lowers("muon_update", when=_are_matrices)
def muon_update(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the parameter and the mean gradient after a step."""
    parameter, gradient, mean, rate, decay = inputs
    momentum = attrs["momentum"]
    mean = _between(launcher, mean, gradient, 1 - momentum)
    direction = _between(launcher, gradient, mean, momentum) if attrs["nesterov"] else mean
    orthogonal = _orthogonal(launcher, direction, attrs)

    def stepped(_: Any, p: Any, x: Any, rate: Any, decay: Any) -> Any:
        return p * (1.0 - decay) - rate * x

    updated = _mapped(launcher, "muon_step", None, stepped, parameter, orthogonal, rate, decay)
    return [updated, mean]


def _orthogonal(launcher: Launcher, x: CubeTensor, attrs: Attributes) -> CubeTensor:
    """Return what ``newton_schulz`` says of a matrix."""
    is_tall = x.shape[0] > x.shape[1]
    x = x.permuted((1, 0)) if is_tall else x
    fold = kernel_fold("norm", _NORM, x.dtype, x.dtype, eps=attrs["eps"])
    norm = reduce_axes(launcher, fold, x, (0, 1), TensorType((1, 1), x.dtype))
    x = _mapped(launcher, "divide", "norm", lambda _, x, norm: x / norm, x, norm)
    a, b, c = attrs["coefficients"]
    for _ in range(attrs["steps"]):
        gram = _product(launcher, x, x.permuted((1, 0)))
        square = _product(launcher, gram, gram)
        polynomial = _sum(launcher, b, gram, c, square)
        x = _sum(launcher, a, x, 1.0, _product(launcher, polynomial, x))
    return x.permuted((1, 0)) if is_tall else x


#: sqrt(sum of squares), at least eps.
_NORM = Fold(
    start=lambda dtype: ((0, dtype),),
    take=lambda _, x: (x * x,),
    join=lambda _, s, t: (s[0] + t[0],),
    end=lambda k, s, *, eps: k.maximum(k.sqrt(s[0]), eps),
)


def _product(launcher: Launcher, x: CubeTensor, y: CubeTensor) -> CubeTensor:
    type = TensorType((x.shape[0], y.shape[1]), x.dtype)
    return multiply(launcher, x, y, type)


def _between(launcher: Launcher, x: CubeTensor, y: CubeTensor, weight: float) -> CubeTensor:
    """Return x + weight (y - x)."""
    return _mapped(launcher, "lerp", weight, lambda _, x, y: x + weight * (y - x), x, y)


def _sum(launcher: Launcher, a: float, x: CubeTensor, b: float, y: CubeTensor) -> CubeTensor:
    """Return a x + b y."""
    return _mapped(launcher, "weighted_sum", (a, b), lambda _, x, y: a * x + b * y, x, y)


def _mapped(launcher: Launcher, name: str, variant: Any, rule: Rule, *inputs: Input) -> CubeTensor:
    """Return rule(k, *elements) as a dense tensor of the first input's type."""
    first = inputs[0]
    assert isinstance(first, CubeTensor)
    target = launcher.empty(first.type)
    map_elements(launcher, name, content_of(variant), rule, inputs, target)
    return target
