"""Normalisation of channels: (N, C, ...) over the batch, over groups, and over neighbours.

Moments, precision and gradients as in `normalization`.
"""

from __future__ import annotations

from typing import Any, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import composite, integers, sample
from pyrite.tensor.axis import Axes
from pyrite.tensor.gradient import Gradients, by_position, chosen, in_dtype, widened
from pyrite.tensor.normalization import (
    Normalization,
    T,
    Vector,
    affine,
    along,
    moments,
    other_axes,
    require_shape,
    scaled,
    summed_to,
)
from pyrite.tensor.rearrangement import Rearrangement
from pyrite.types import Number, TensorType, element_count

#: The axis of the channels.
CHANNELS = (1,)


def _require_channels(op: str, x: TensorType, **vectors: Vector) -> None:
    if x.ndim < 2:
        raise ShapeError(f"{op} requires x of shape (N, C, ...), got {x.shape}")
    require_shape(op, x, x.shape[1:2], **vectors)


def _group_norm_type(
    x: TensorType, weight: Vector, bias: Vector, *, num_groups: int, eps: float
) -> TensorType:
    _require_channels("group_norm", x, weight=weight, bias=bias)
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm requires channels in equal groups, got {x.shape[1]} channels for "
            f"num_groups={num_groups}"
        )
    return x


def _batch_norm_types(
    x: TensorType, weight: Vector, bias: Vector, *, eps: float
) -> tuple[TensorType, ...]:
    _require_channels("batch_norm", x, weight=weight, bias=bias)
    statistic = TensorType(x.shape[1:2], x.dtype)
    return (x, statistic, statistic)


def _batch_norm_inference_type(
    x: TensorType, mean: Vector, variance: Vector, weight: Vector, bias: Vector, *, eps: float
) -> TensorType:
    vectors = {"mean": mean, "variance": variance, "weight": weight, "bias": bias}
    _require_channels("batch_norm_inference", x, **vectors)
    return x


def _backward_types(x: TensorType, argnums: Axes) -> tuple[TensorType, ...]:
    vector = TensorType(x.shape[1:2], x.dtype)
    return tuple((x, vector, vector)[position] for position in argnums)


def _group_norm_backward_types(
    g: TensorType, x: TensorType, weight: Vector, *, num_groups: int, eps: float, argnums: Axes
) -> tuple[TensorType, ...]:
    _group_norm_type(x, weight, None, num_groups=num_groups, eps=eps)
    return _backward_types(x, argnums)


def _local_response_norm_type(
    x: TensorType, *, size: int, alpha: float, beta: float, k: float
) -> TensorType:
    _require_channels("local_response_norm", x)
    if size < 1:
        raise ArgumentError(f"local_response_norm requires size >= 1, got {size}")
    return x


def _group_norm_vjp(
    g: Any, _: Any, x: Any, weight: Any, _bias: Any, *, num_groups: int, eps: float, tracked: Axes
) -> tuple[Any, ...]:
    found = g._group_norm_backward(x, weight, num_groups=num_groups, eps=eps, argnums=tracked)
    return by_position(found, tracked, 3)


def _batch_norm_vjp(
    g: Any, _: Any, x: Any, weight: Any, _bias: Any, *, eps: float, tracked: Axes
) -> tuple[Any, ...]:
    found = g[0]._batch_norm_backward(g[1], g[2], x, weight, eps=eps, argnums=tracked)
    return by_position(found, tracked, 3)


def _grouped(x: T, num_groups: int) -> T:
    """Return (N, C, ...) as (N, groups, all that a group holds)."""
    per_group = element_count(x.shape[1:]) // num_groups
    return x.reshape((x.shape[0], num_groups, per_group))


class ChannelNormalization(Normalization, Rearrangement):
    """Normalisation of channels."""

    __slots__ = ()

    # ---- over groups ----

    @composite(
        infer=_group_norm_type,
        vjp=_group_norm_vjp,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 4, 3), (4,), (4,), num_groups=2, eps=0.1),
            sample((2, 3, 2, 2), None, None, num_groups=1, eps=0.1),
            sample((2, 2, 3), None, (2,), num_groups=2, eps=0.1),
            sample((0, 4, 3), (4,), (4,), num_groups=2),
        ),
    )
    def group_norm(
        self,
        weight: Self | None = None,
        bias: Self | None = None,
        /,
        *,
        num_groups: int,
        eps: float = 1e-5,
    ) -> Self:
        """Normalise each group of channels: (N, C, ...), weight and bias (C,) -> (N, C, ...).

        Mean and variance are over a group's channels and all axes that follow.
        Raises ShapeError if C is not a multiple of num_groups.
        Source: Wu & He 2018, arXiv:1803.08494.
        """
        x = widened(self)
        normal = _grouped(x, num_groups).layer_norm(eps=eps).reshape(x.shape)
        return in_dtype(affine(normal, weight, bias, CHANNELS), self.dtype)

    @composite(
        infer=_group_norm_backward_types,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 4, 3), (2, 4, 3), (4,), num_groups=2, eps=0.1, argnums=(0, 1, 2)),
            sample((2, 2, 3), (2, 2, 3), None, num_groups=1, eps=0.1, argnums=(0,)),
        ),
    )
    def _group_norm_backward(
        self, x: Self, weight: Self | None, /, *, num_groups: int, eps: float, argnums: Axes
    ) -> Gradients:
        """Gradients of x, weight and bias of `group_norm`, those at ``argnums``; self is g."""
        g, x = widened(self), widened(x)
        groups = _grouped(x, num_groups)

        def of_x() -> Any:
            of_normal = _grouped(scaled(g, weight, CHANNELS), num_groups)
            found = of_normal._layer_norm_backward(groups, None, axis=(2,), eps=eps, argnums=(0,))
            return found.reshape(x.shape)

        makers = {
            0: of_x,
            1: lambda: summed_to(g * groups.layer_norm(eps=eps).reshape(x.shape), CHANNELS),
            2: lambda: summed_to(g, CHANNELS),
        }
        return chosen(makers, argnums, self.dtype)

    def instance_norm(
        self, weight: Self | None = None, bias: Self | None = None, /, *, eps: float = 1e-5
    ) -> Self:
        """Normalise each channel of each sample: (N, C, ...), weight and bias (C,) -> (N, C, ...).

        It is `group_norm` with as many groups as channels.
        Source: Ulyanov, Vedaldi & Lempitsky 2016, arXiv:1607.08022.
        """
        channels = self.shape[1] if self.ndim > 1 else 1
        return self.group_norm(weight, bias, num_groups=channels, eps=eps)

    # ---- over the batch ----

    @composite(
        infer=_batch_norm_types,
        vjp=_batch_norm_vjp,
        accepts="float",
        promotes="all",
        samples=(
            sample((4, 3), (3,), (3,), eps=0.1),
            sample((3, 2, 2, 2), (2,), None, eps=0.1),
            sample((3, 2, 4), None, None, eps=0.1),
        ),
    )
    def batch_norm(
        self, weight: Self | None = None, bias: Self | None = None, /, *, eps: float = 1e-5
    ) -> tuple[Self, Self, Self]:
        """Normalise each channel over the batch: (N, C, ...) -> (N, C, ...), (C,), (C,).

        This is the form for training.  The second and third results are the mean and the biased
        variance of this batch; gradients flow through them too.  `batch_norm_inference` takes them
        as given.
        Source: Ioffe & Szegedy 2015, arXiv:1502.03167.
        """
        x = widened(self)
        mean, centred, variance = moments(x, other_axes(x, CHANNELS))
        normal = centred * (variance + eps).rsqrt()
        results = (
            affine(normal, weight, bias, CHANNELS),
            mean.reshape(x.shape[1:2]),
            variance.reshape(x.shape[1:2]),
        )
        out, mean, variance = (in_dtype(r, self.dtype) for r in results)
        return out, mean, variance

    @composite(
        infer=lambda g, g_mean, g_variance, x, weight, *, eps, argnums: _backward_types(x, argnums),
        accepts="float",
        promotes="all",
        samples=(
            sample((4, 3), (3,), (3,), (4, 3), (3,), eps=0.1, argnums=(0, 1, 2)),
            sample((3, 2, 4), (2,), (2,), (3, 2, 4), None, eps=0.1, argnums=(0,)),
        ),
    )
    def _batch_norm_backward(
        self, g_mean: Self, g_variance: Self, x: Self, weight: Self | None, /, *,
        eps: float, argnums: Axes,
    ) -> Gradients:  # fmt: skip
        """Gradients of x, weight and bias of `batch_norm`, those at ``argnums``.

        self, g_mean and g_variance are the cotangents of its results; those of the statistics join
        in per channel, so that they cost nothing per element.
        """
        g, x = widened(self), widened(x)
        axis = other_axes(x, CHANNELS)
        _, centred, variance = moments(x, axis)
        rate = (variance + eps).rsqrt()

        total = g.sum(axis, keepdims=True)
        product = (g * centred).sum(axis, keepdims=True)

        def of_x() -> Any:
            count = max(1, x.size // max(1, x.shape[1]))
            slope = scaled(rate, weight, CHANNELS)
            shift = (slope * total - along(g_mean, rate, CHANNELS)) / count
            pull = slope * rate * rate * product - along(g_variance, rate, CHANNELS) * 2
            return slope * g - (shift + pull / count * centred)

        makers = {
            0: of_x,
            1: lambda: (product * rate).reshape(x.shape[1:2]),
            2: lambda: total.reshape(x.shape[1:2]),
        }
        return chosen(makers, argnums, self.dtype)

    @composite(
        infer=lambda mean, variance, _batch_mean, _batch_variance, seen, *_: (mean, variance, seen),
        accepts="float",
        promotes=(0, 1, 2, 3, 5, 6),
        samples=(
            sample((3,), (3,), (3,), (3,), integers((), 0, 9), 0.1, 1.25),
            sample((3,), (3,), (3,), (3,), integers((), 0, 9), None, 1.25),
        ),
    )
    def _running_moments(
        self,
        variance: Self,
        batch_mean: Self,
        batch_variance: Self,
        seen: Self,
        share: Self | Number | None,
        correction: Self | Number,
        /,
    ) -> tuple[Self, Self, Self]:
        """Running mean, variance and number of batches after one more: (C,) each, and ().

        ``share`` is the weight of the batch, None for an average of all batches; the variance of
        the batch times ``correction`` is unbiased.
        """
        seen = seen + 1
        if share is None:
            share = seen.astype(self.dtype).reciprocal()
        unbiased = batch_variance * correction
        return self.lerp(batch_mean, share), variance.lerp(unbiased, share), seen

    @composite(
        infer=_batch_norm_inference_type,
        accepts="float",
        promotes="all",
        domain=((-2.0, 2.0), (-2.0, 2.0), (0.1, 3.0)),
        samples=(
            sample((4, 3), (3,), (3,), (3,), (3,), eps=0.1),
            sample((3, 2, 4), (2,), (2,), None, None, eps=0.1),
        ),
    )
    def batch_norm_inference(
        self, mean: Self, variance: Self, weight: Self | None = None, bias: Self | None = None,
        /, *, eps: float = 1e-5,
    ) -> Self:  # fmt: skip
        """(x - mean) / sqrt(variance + eps) * weight + bias by channel: (N, C, ...) -> (N, C, ...).

        All four are of shape (C,); mean and variance are the running statistics of training.
        """
        x = widened(self)
        rate = (along(variance, x, CHANNELS) + eps).rsqrt()
        centred = x - along(mean, x, CHANNELS)
        out = affine(centred * scaled(rate, weight, CHANNELS), None, bias, CHANNELS)
        return in_dtype(out, self.dtype)

    # ---- over neighbours ----

    @composite(
        infer=_local_response_norm_type,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 5, 3), size=3, alpha=0.5, beta=0.75, k=2.0),
            sample((2, 3), size=2, alpha=0.5, beta=0.5, k=1.0),
        ),
    )
    def local_response_norm(
        self, /, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> Self:
        """x / (k + alpha * mean of x ** 2 over neighbours) ** beta: (N, C, ...) -> (N, C, ...).

        The ``size`` neighbours of channel c are c - size // 2 to c + (size - 1) // 2; those outside
        count as zeros, and the mean is over ``size`` always, as in torch and ONNX LRN-13.
        Source: Krizhevsky, Sutskever & Hinton 2012, section 3.3 (whose alpha is ours over size).
        """
        x = widened(self)
        channels = x.shape[1]
        # No channel has neighbours that are farther than the others.
        before, after = (min(n, max(channels - 1, 0)) for n in (size // 2, (size - 1) // 2))
        squares = (x * x).pad(((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)))
        total = squares.narrow(1, 0, channels)
        for start in range(1, before + after + 1):
            total = total + squares.narrow(1, start, channels)
        return in_dtype(x / (total * (alpha / size) + k) ** beta, self.dtype)
