"""Rectifiers: activation functions that bend, at 0 or elsewhere, or turn into an exponential there.

Shapes are (...) -> (...).  At a kink the gradient is PyTorch's: that of relu at 0 is 0.
"""

from __future__ import annotations

from typing import Any, Self

from pyrite.errors import ShapeError
from pyrite.op import composite, primitive, public, sample
from pyrite.tensor.mathematics import Mathematics
from pyrite.tensor.movement import Movement
from pyrite.types import TensorType

# These keep mean 0 and variance 1: Klambauer et al. 2017, arXiv:1706.02515, equation 14.
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


def same_type(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
    """Return the type of the first input, as the type rule of an op."""
    return x


class Rectifier(Movement, Mathematics):
    """Rectifiers."""

    __slots__ = ()

    # ---- bent lines ----

    @primitive(
        scalar=lambda k, x: k.maximum(x, 0),
        vjp=(lambda g, out, _: g._relu_backward(out),),
    )
    def relu(self, /) -> Self:
        """max(x, 0); integers stay integers, NaN stays NaN, the gradient at 0 is 0."""
        ...

    @primitive(
        scalar=lambda k, g, out: k.where(out <= 0, 0, g),
        vjp=(lambda h, _, _g, out: h._relu_backward(out), None),
        domain=((-2.0, 2.0), (0.1, 2.0)),
    )
    def _relu_backward(self, out: Self, /) -> Self:
        """The cotangent of relu's input, of its output: 0 where out <= 0, else g."""
        ...

    @primitive(
        scalar=lambda k, x, *, negative_slope: k.where(x > 0, x, x * negative_slope),
        vjp=(lambda g, _, x, *, negative_slope: (x > 0)._where(g, g * negative_slope),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), negative_slope=0.3)),
    )
    def leaky_relu(self, /, negative_slope: float = 0.01) -> Self:
        """x where x > 0, else negative_slope * x."""
        ...

    @composite(
        accepts="float",
        promotes="all",
        infer=same_type,
        samples=(
            sample((2, 3, 2), (3,)),
            sample((4,), (1,)),
            sample((2, 3), (1,)),
            sample((), (1,)),
        ),
    )
    def prelu(self, weight: Self, /) -> Self:
        """x where x > 0, else weight * x: (N, C, ...), (C,) or (1,) -> (N, C, ...).

        Source: He et al. 2015, arXiv:1502.01852.
        """
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.ndim > 1 or weight.size not in (1, channels):
            raise ShapeError(
                f"prelu requires weight.shape in ((1,), ({channels},)), got {weight.shape} "
                f"for x of shape {self.shape}"
            )
        shape = () if weight.size == 1 else (weight.size, *(1,) * (self.ndim - 2))
        slope = weight.reshape(shape)
        return self.where(self > 0, slope * self)

    @primitive(
        scalar=lambda k, x, *, min_value, max_value: k.minimum(k.maximum(x, min_value), max_value),
        vjp=(
            lambda g, _, x, *, min_value, max_value: ((x > min_value) & (x < max_value))._where(
                g, 0
            ),
        ),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), min_value=-0.5, max_value=1.5)),
    )
    def hardtanh(self, /, min_value: float = -1.0, max_value: float = 1.0) -> Self:
        """x, not less than min_value and not greater than max_value; at both the gradient is 0."""
        ...

    @public
    def relu6(self, /) -> Self:
        """Return min(max(x, 0), 6)."""
        return self.hardtanh(0.0, 6.0)

    @public
    def hard_sigmoid(self, /, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * x + beta, not less than 0 and not greater than 1.

        The defaults are PyTorch's; Burn's and ONNX's alpha is 0.2.
        """
        return (self * alpha + beta).hardtanh(0.0, 1.0)

    @composite(accepts="float", promotes="all", infer=same_type, samples=(sample((2, 3)),))
    def hard_swish(self, /) -> Self:
        """x * hard_sigmoid(x): 0 below -3, x above 3.

        Source: Howard et al. 2019, arXiv:1905.02244.
        """
        return self * self.hard_sigmoid()

    @primitive(
        scalar=lambda k, x, *, threshold, value: k.where(x <= threshold, value, x),
        vjp=(lambda g, _, x, *, threshold: (x > threshold)._where(g, 0),),
        accepts="float",
        samples=(sample((2, 3), threshold=0.5, value=-1.0),),
    )
    def threshold(self, /, threshold: float, value: float) -> Self:
        """x where x > threshold, else value; NaN stays NaN."""
        ...

    @public
    def thresholded_relu(self, /, alpha: float = 1.0) -> Self:
        """Return x where x > alpha, else 0."""
        return self.threshold(alpha, 0.0)

    @primitive(
        scalar=lambda k, x, *, lambd, bias: k.where(
            k.abs(x) <= lambd, 0, k.where(x > 0, x - bias, x + bias)
        ),
        vjp=(lambda g, _, x, *, lambd: (x.abs() <= lambd)._where(0, g),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), lambd=0.3, bias=0.1)),
    )
    def shrink(self, /, lambd: float = 0.5, bias: float = 0.0) -> Self:
        """x - bias where x > lambd, x + bias where x < -lambd, else 0; NaN stays NaN."""
        ...

    @public
    def hard_shrink(self, /, lambd: float = 0.5) -> Self:
        """Return x where |x| > lambd, else 0."""
        return self.shrink(lambd, 0.0)

    @public
    def soft_shrink(self, /, lambd: float = 0.5) -> Self:
        """Return x moved towards 0 by lambd, and 0 where it would pass it."""
        return self.shrink(lambd, lambd)

    # ---- exponential below zero ----

    @primitive(
        scalar=lambda k, x, *, alpha: k.where(x > 0, x, alpha * k.expm1(x)),
        vjp=(lambda g, _, x, *, alpha: g * (x > 0)._where(1, alpha * x.minimum(0).exp()),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), alpha=0.5)),
    )
    def elu(self, /, alpha: float = 1.0) -> Self:
        """x where x > 0, else alpha * (e ** x - 1).

        Source: Clevert et al. 2015, arXiv:1511.07289.
        """
        ...

    @primitive(
        scalar=lambda k, x, *, alpha: k.where(x > 0, x, alpha * k.expm1(x / alpha)),
        vjp=(lambda g, _, x, *, alpha: g * (x.minimum(0) / alpha).exp(),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), alpha=0.5)),
    )
    def celu(self, /, alpha: float = 1.0) -> Self:
        """x where x > 0, else alpha * (e ** (x / alpha) - 1): elu with a continuous slope.

        Source: Barron 2017, arXiv:1704.07483.
        """
        ...

    @public
    def selu(self, /) -> Self:
        """1.0507 * elu(x, alpha=1.6733), which keeps mean 0 and variance 1 through layers."""
        return self.elu(SELU_ALPHA) * SELU_SCALE
