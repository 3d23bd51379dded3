"""Linear layers: affine maps of the last axis."""

from __future__ import annotations

from pyrite.backend.device import DeviceLike
from pyrite.errors import ShapeError
from pyrite.nn.init import Initializer, KaimingUniform, optional, positive
from pyrite.nn.layer import Layer
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike


class Linear(Layer):
    """x @ weight.T + bias: (..., in_features) -> (..., out_features).

    weight: (out_features, in_features), as PyTorch stores it; bias: (out_features,) or None.

    Raises ShapeError when the last axis of x is not in_features.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Linear(3, 2)(pyrite.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("Linear", in_features=in_features, out_features=out_features)
        draw = initializer or KaimingUniform()
        self.in_features = in_features
        self.out_features = out_features
        shape = (out_features, in_features)
        self.weight: Parameter = draw.parameter(shape, dtype=dtype, device=device)
        self.bias: Parameter | None = optional(
            bias, KaimingUniform(), (out_features,), fan_in=in_features, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the map of x's last axis."""
        if not x.ndim or x.shape[-1] != self.in_features:
            fix = f"; declare Linear({x.shape[-1]}, {self.out_features})" if x.ndim else ""
            raise ShapeError(
                f"Linear requires x.shape[-1] == {self.in_features}, got {x.shape}{fix}"
            )
        return x.linear(self.weight, self.bias)
