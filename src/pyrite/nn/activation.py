"""Activation functions as modules, for `Sequential` and for configuration; the ops are on Tensor.

Names and defaults are PyTorch's; Burn's spellings stand in `spelling`.  Shapes are
(...) -> (...) unless a class says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.nn.init import Constant, positive
from pyrite.nn.layer import Layer
from pyrite.nn.linear import Linear
from pyrite.nn.module import Module
from pyrite.tensor.activation import Approximation
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.random import uniform
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike


class Identity(Module):
    """x itself: stands where a layer may be left out."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


# ---- bent lines ----


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return x.relu()


class ReLU6(Module):
    """min(max(x, 0), 6)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return min(max(x, 0), 6)."""
        return x.relu6()


class LeakyReLU(Module):
    """x where x > 0, else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return x, flattened below 0."""
        return x.leaky_relu(self.negative_slope)


class PReLU(Layer):
    """x where x > 0, else weight * x, with a learned slope: (N, C, ...) -> (N, C, ...).

    weight: (num_parameters,), one slope for all channels or one for each; it starts from ``init``.

    Source: He et al. 2015, arXiv:1502.01852.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("PReLU", num_parameters=num_parameters)
        self.weight: Parameter = Constant(init).parameter(
            (num_parameters,), dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x, flattened below 0."""
        return x.prelu(self.weight)


class RReLU(Module):
    """x where x > 0, else slope * x: random slopes in training, their mean in evaluation.

    In training each element draws its slope from lower <= slope < upper.

    Source: Xu et al. 2015, arXiv:1505.00853.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        if lower > upper:
            raise ArgumentError(f"RReLU requires lower <= upper, got {lower} and {upper}")
        self.lower = lower
        self.upper = upper

    def forward(self, x: Tensor) -> Tensor:
        """Return x, flattened below 0."""
        if not self.training:
            return x.leaky_relu((self.lower + self.upper) / 2)
        slope = uniform(x.shape, self.lower, self.upper, dtype=x.dtype, device=x.device)
        return x.where(x > 0, slope * x)


class Hardtanh(Module):
    """x, not less than min_value and not greater than max_value."""

    def __init__(self, min_value: float = -1.0, max_value: float = 1.0) -> None:
        if min_value > max_value:
            raise ArgumentError(
                f"Hardtanh requires min_value <= max_value, got {min_value} and {max_value}"
            )
        self.min_value = min_value
        self.max_value = max_value

    def forward(self, x: Tensor) -> Tensor:
        """Return x within its bounds."""
        return x.hardtanh(self.min_value, self.max_value)


class Hardsigmoid(Module):
    """alpha * x + beta, not less than 0 and not greater than 1.

    The defaults are PyTorch's; Burn's and ONNX's alpha is 0.2.
    """

    def __init__(self, alpha: float = 1 / 6, beta: float = 0.5) -> None:
        self.alpha = alpha
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return the line, cut at 0 and 1."""
        return x.hard_sigmoid(self.alpha, self.beta)


class Hardswish(Module):
    """x * hard_sigmoid(x).

    Source: Howard et al. 2019, arXiv:1905.02244.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x * hard_sigmoid(x)."""
        return x.hard_swish()


class Threshold(Module):
    """x where x > threshold, else value."""

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return x above the threshold and the value elsewhere."""
        return x.threshold(self.threshold, self.value)


class ThresholdedReLU(Module):
    """x where x > alpha, else 0."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return x above alpha and 0 elsewhere."""
        return x.thresholded_relu(self.alpha)


class Hardshrink(Module):
    """x where |x| > lambd, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return x with small values cut."""
        return x.hard_shrink(self.lambd)


class Softshrink(Module):
    """x moved towards 0 by lambd, and 0 where it would pass it."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return x nearer to 0."""
        return x.soft_shrink(self.lambd)


class Shrink(Module):
    """x - bias where x > lambd, x + bias where x < -lambd, else 0.

    Source: ONNX Shrink-9; `Hardshrink` and `Softshrink` are two cases of it.
    """

    def __init__(self, lambd: float = 0.5, bias: float = 0.0) -> None:
        self.lambd = lambd
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """Return x with small values cut and the others moved."""
        return x.shrink(self.lambd, self.bias)


# ---- exponential below zero ----


class ELU(Module):
    """x where x > 0, else alpha * (e ** x - 1).

    Source: Clevert et al. 2015, arXiv:1511.07289.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return x, bent to -alpha below 0."""
        return x.elu(self.alpha)


class CELU(Module):
    """x where x > 0, else alpha * (e ** (x / alpha) - 1).

    Source: Barron 2017, arXiv:1704.07483.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        if alpha == 0:
            raise ArgumentError("CELU requires alpha != 0, got 0")
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return x, bent to -alpha below 0."""
        return x.celu(self.alpha)


class SELU(Module):
    """The ELU that keeps mean 0 and variance 1 through layers.

    Source: Klambauer et al. 2017, arXiv:1706.02515.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled ELU of x."""
        return x.selu()


# ---- smooth ----


class Sigmoid(Module):
    """1 / (1 + e ** -x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 / (1 + e ** -x)."""
        return x.sigmoid()


class LogSigmoid(Module):
    """log(sigmoid(x)), without underflow."""

    def forward(self, x: Tensor) -> Tensor:
        """Return log(sigmoid(x))."""
        return x.log_sigmoid()


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Return tanh(x)."""
        return x.tanh()


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x - tanh(x)."""
        return x.tanhshrink()


class Softplus(Module):
    """log(1 + e ** (beta * x)) / beta, a smooth relu; exact, without PyTorch's threshold."""

    def __init__(self, beta: float = 1.0) -> None:
        if not beta > 0:
            raise ArgumentError(f"Softplus requires beta > 0, got {beta}")
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return log(1 + e ** (beta * x)) / beta."""
        return x.softplus(self.beta)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x / (1 + |x|)."""
        return x.softsign()


class GELU(Module):
    """x times the share of the normal distribution below x; exact, or as in GPT-2 with "tanh".

    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
    """

    def __init__(self, approximate: Approximation = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ArgumentError(
                f'GELU requires approximate to be "none" or "tanh", got {approximate!r}'
            )
        self.approximate: Approximation = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return gelu(x)."""
        return x.gelu(self.approximate)


class SiLU(Module):
    """x * sigmoid(x), also known as swish.

    Source: Elfwing et al. 2017, arXiv:1702.03118.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x * sigmoid(x)."""
        return x.silu()


class Mish(Module):
    """x * tanh(softplus(x)).

    Source: Misra 2019, arXiv:1908.08681.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x * tanh(softplus(x))."""
        return x.mish()


# ---- over an axis ----


class Softmax(Module):
    """e ** x over its sum along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return positive values with a sum of 1 along the axis."""
        return x.softmax(self.axis)


class LogSoftmax(Module):
    """log(softmax(x)) along an axis, without underflow."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of the softmax."""
        return x.log_softmax(self.axis)


class GLU(Module):
    """One half of an axis times the sigmoid of the other: (..., 2 D) -> (..., D).

    Source: Dauphin et al. 2016, arXiv:1612.08083.
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the first half, gated by the second."""
        return x.glu(self.axis)


class SwiGLU(Module):
    """silu(linear_inner(x)) * linear_outer(x): (..., in_features) -> (..., out_features).

    Source: Shazeer 2020, arXiv:2002.05202.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.SwiGLU(4, 8)(pyrite.ones((2, 4))).shape
    (2, 8)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("SwiGLU", in_features=in_features, out_features=out_features)
        self.linear_inner = Linear(in_features, out_features, bias, dtype=dtype, device=device)
        self.linear_outer = Linear(in_features, out_features, bias, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return one map of x, gated by the silu of another."""
        return self.linear_inner(x).silu() * self.linear_outer(x)


# ---- by name ----

#: Activations by the name of their op.
ACTIVATIONS: dict[str, Callable[..., Module]] = {
    "celu": CELU,
    "elu": ELU,
    "gelu": GELU,
    "glu": GLU,
    "hard_shrink": Hardshrink,
    "hard_sigmoid": Hardsigmoid,
    "hard_swish": Hardswish,
    "hardtanh": Hardtanh,
    "identity": Identity,
    "leaky_relu": LeakyReLU,
    "log_sigmoid": LogSigmoid,
    "mish": Mish,
    "prelu": PReLU,
    "relu": ReLU,
    "relu6": ReLU6,
    "rrelu": RReLU,
    "selu": SELU,
    "shrink": Shrink,
    "sigmoid": Sigmoid,
    "silu": SiLU,
    "soft_shrink": Softshrink,
    "softplus": Softplus,
    "softsign": Softsign,
    "swiglu": SwiGLU,
    "tanh": Tanh,
    "tanhshrink": Tanhshrink,
    "threshold": Threshold,
    "thresholded_relu": ThresholdedReLU,
}


class Activation(Module):
    """An activation chosen by name, for models whose activation is configuration.

    Options are those of the class.  Raises ArgumentError for a name that is not known.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Activation("leaky_relu", negative_slope=0.1)(pyrite.tensor([-1.0, 2.0])).numpy()
    array([-0.1, 2. ], dtype=float32)
    """

    def __init__(self, name: str, **options: Any) -> None:
        if name not in ACTIVATIONS:
            raise ArgumentError(
                f"Activation requires one of {', '.join(ACTIVATIONS)}, got {name!r}"
            )
        self.function = ACTIVATIONS[name](**options)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the activation makes of x."""
        return self.function(x)
