"""Normalisation layers: batch, layer, group, instance, root mean square, local response.

Parameters and states carry PyTorch's names, so that its files load; new layers start from weight 1
and bias 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.activation import Identity
from pyrite.nn.init import Ones, Zeros, optional, positive, state
from pyrite.nn.layer import Layer
from pyrite.nn.module import Module
from pyrite.tensor.gradient import in_dtype
from pyrite.tensor.inspection import finfo
from pyrite.tensor.parameter import Parameter, State, emit
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike, Shape, default_float
from pyrite.types import dtype as as_dtype


class BatchNorm(Layer):
    """Normalise each channel over the batch: (N, C, ...) -> (N, C, ...), of any rank.

    In training with the mean and variance of the batch, otherwise with running estimates of them:
    ``running = (1 - momentum) * running + momentum * batch``, the variance unbiased, as in PyTorch.
    With ``momentum=None`` they are plain averages over all batches seen.  A forward pass emits the
    new estimates and the optimiser's step commits them.  Without ``track_running_stats`` there are
    none, and evaluation uses the batch too.

    weight, bias, running_mean, running_var: (num_features,); num_batches_tracked: a count, int32,
    which files of PyTorch before 0.4.1 lack: load them with ``partial=True``.

    Raises ShapeError when x is not (N, num_features, ...), or in training has one value a channel.
    Source: Ioffe & Szegedy 2015, arXiv:1502.03167.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.BatchNorm(3)(pyrite.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("BatchNorm", num_features=num_features)
        if momentum is not None and not 0 <= momentum <= 1:
            raise ArgumentError(f"BatchNorm requires 0 <= momentum <= 1, got {momentum}")
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        sizes = (num_features,)
        kind = as_dtype(default_float if dtype is None else dtype)
        self.weight: Parameter | None = optional(affine, Ones(), sizes, dtype=kind, device=device)
        self.bias: Parameter | None = optional(affine, Zeros(), sizes, dtype=kind, device=device)
        self.running_mean: State | None = None
        self.running_var: State | None = None
        self.num_batches_tracked: State | None = None
        if track_running_stats:
            self.running_mean = state(np.zeros(sizes, kind.numpy), device=device)
            self.running_var = state(np.ones(sizes, kind.numpy), device=device)
            self.num_batches_tracked = state(np.zeros((), np.int32), device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normalised by channel."""
        _require_channels(self, x, self.num_features)
        if self.training:
            return self._trained(x)
        if self.running_mean is None or self.running_var is None:
            return x.batch_norm(self.weight, self.bias, eps=self.eps)[0]
        return x.batch_norm_inference(
            self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

    def _trained(self, x: Tensor) -> Tensor:
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(
                f"BatchNorm requires more than one value per channel in training, got {x.shape}"
            )
        out, mean, variance = x.batch_norm(self.weight, self.bias, eps=self.eps)
        return self._renewed(out, mean.detach(), variance.detach(), count / (count - 1))

    def _renewed(self, out: Tensor, mean: Tensor, variance: Tensor, correction: float) -> Tensor:
        """Return out, with the next running estimates on its graph."""
        if self.running_mean is None or self.running_var is None:
            return out
        assert self.num_batches_tracked is not None

        def renewal(old_mean: Tensor, old_variance: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
            *moments, seen = old_mean._running_moments(
                old_variance, mean, variance, seen, self.momentum, correction
            )
            return *(in_dtype(new, old_mean.dtype) for new in moments), seen

        states = (self.running_mean, self.running_var, self.num_batches_tracked)
        return emit(states, renewal, through=out)


def _require_channels(layer: Module, x: Tensor, channels: int) -> None:
    if x.ndim < 2 or x.shape[1] != channels:
        raise ShapeError(
            f"{type(layer).__name__} requires x of shape (N, {channels}, ...), got {x.shape}"
        )


class LayerNorm(Layer):
    """Normalise over the last axes: (..., *normalized_shape) -> (..., *normalized_shape).

    weight, bias: of normalized_shape, or None without ``elementwise_affine`` or ``bias``.

    Raises ShapeError when x does not end in normalized_shape.
    Source: Ba, Kiros & Hinton 2016, arXiv:1607.06450.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.LayerNorm(2)(pyrite.tensor([[1.0, 3.0]])).numpy().round(3).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        sizes = _normalized_shape("LayerNorm", normalized_shape)
        self.normalized_shape = sizes
        self.eps = eps
        self.weight: Parameter | None = optional(
            elementwise_affine, Ones(), sizes, dtype=dtype, device=device
        )
        self.bias: Parameter | None = optional(
            elementwise_affine and bias, Zeros(), sizes, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normalised over its last axes."""
        axis = _last_axes(self, x, self.normalized_shape)
        return x.layer_norm(self.weight, self.bias, axis, eps=self.eps)


class RMSNorm(Layer):
    """Divide by the root mean square over the last axes: (..., *normalized_shape) -> the same.

    ``eps=None`` is the machine epsilon of x's dtype, as in PyTorch; Burn's is 1e-5.
    weight: of normalized_shape, or None without ``elementwise_affine``.

    Raises ShapeError when x does not end in normalized_shape.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        sizes = _normalized_shape("RMSNorm", normalized_shape)
        self.normalized_shape = sizes
        self.eps = eps
        self.weight: Parameter | None = optional(
            elementwise_affine, Ones(), sizes, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x with a root mean square of about 1 over its last axes, times weight."""
        axis = _last_axes(self, x, self.normalized_shape)
        eps = _machine_epsilon(x) if self.eps is None else self.eps
        return x.rms_norm(self.weight, axis, eps=eps)


def _machine_epsilon(x: Tensor) -> float:
    return finfo(x.dtype if x.dtype.is_float else default_float).eps


def _normalized_shape(layer: str, sizes: int | tuple[int, ...]) -> Shape:
    found = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not found:
        raise ArgumentError(f"{layer} requires at least one size in normalized_shape, got ()")
    for size in found:
        positive(layer, normalized_shape=size)
    return found


def _last_axes(layer: Module, x: Tensor, sizes: Shape) -> tuple[int, ...]:
    if x.shape[-len(sizes) :] != sizes:
        wanted = ", ".join(map(str, ("...", *sizes)))
        raise ShapeError(f"{type(layer).__name__} requires x of shape ({wanted}), got {x.shape}")
    return tuple(range(-len(sizes), 0))


class GroupNorm(Layer):
    """Normalise each group of channels of each sample: (N, C, ...) -> (N, C, ...).

    weight, bias: (num_channels,), or None without ``affine``.

    Raises ShapeError when x is not (N, num_channels, ...).
    Source: Wu & He 2018, arXiv:1803.08494.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm requires num_channels to be a multiple of num_groups, got "
                f"{num_channels} and {num_groups}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        sizes = (num_channels,)
        self.weight: Parameter | None = optional(affine, Ones(), sizes, dtype=dtype, device=device)
        self.bias: Parameter | None = optional(affine, Zeros(), sizes, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normalised by group."""
        _require_channels(self, x, self.num_channels)
        return x.group_norm(self.weight, self.bias, num_groups=self.num_groups, eps=self.eps)


class InstanceNorm(Layer):
    """Normalise each channel of each sample: (N, C, ...) -> (N, C, ...), of any rank.

    weight, bias: (num_features,), or None without ``affine``, which is the default of PyTorch, not
    of Burn.  There are no running statistics: evaluation does as training.

    Raises ShapeError when x is not (N, num_features, ...).
    Source: Ulyanov, Vedaldi & Lempitsky 2016, arXiv:1607.08022.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = False,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        positive("InstanceNorm", num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        sizes = (num_features,)
        self.weight: Parameter | None = optional(affine, Ones(), sizes, dtype=dtype, device=device)
        self.bias: Parameter | None = optional(affine, Zeros(), sizes, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normalised by sample and channel."""
        _require_channels(self, x, self.num_features)
        return x.instance_norm(self.weight, self.bias, eps=self.eps)


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x ** 2 over ``size`` neighbouring channels) ** beta, as in PyTorch.

    Shapes: (N, C, ...) -> (N, C, ...).
    Source: Krizhevsky, Sutskever & Hinton 2012, section 3.3.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        positive("LocalResponseNorm", size=size)
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Return x, damped where its neighbours are large."""
        return x.local_response_norm(self.size, alpha=self.alpha, beta=self.beta, k=self.k)


#: Layers by name; each takes the number of features first.
NORMALIZATIONS: dict[str, Callable[..., Module]] = {
    "batch": BatchNorm,
    "group": lambda features, num_groups, **rest: GroupNorm(num_groups, features, **rest),
    "identity": lambda features: Identity(),
    "instance": InstanceNorm,
    "layer": LayerNorm,
    "rms": RMSNorm,
}


class Normalization(Module):
    """A normalisation chosen by name, for models whose normalisation is configuration.

    Names are batch, group (with ``num_groups``), identity, instance, layer and rms; options are
    those of the class.  Raises ArgumentError for a name that is not known.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Normalization("group", 4, num_groups=2)(pyrite.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    def __init__(self, name: str, num_features: int, **options: Any) -> None:
        if name not in NORMALIZATIONS:
            raise ArgumentError(
                f"Normalization requires one of {', '.join(NORMALIZATIONS)}, got {name!r}"
            )
        self.layer = NORMALIZATIONS[name](num_features, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer makes of x."""
        return self.layer(x)
