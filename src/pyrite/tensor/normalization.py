"""Normalisation over given axes: centre and scale, with gradients that are ops.

Every norm, here and in `channel_normalization`, is a composite that keeps its input alone for the
backward pass and makes the moments again there, which cost less than the memory to keep the normal
values.  Its gradient is a composite too (``layer_norm_backward`` and so on).

The variance is biased (divided by n) and taken in two passes, from the centred values, so that a
mean that is large beside the deviation does no harm.  float16 and bfloat16 are computed in float32
from the input to the result, and rounded once.  Weight and bias may be None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, sample
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import Axes, Axis
from pyrite.tensor.gradient import Gradients, by_position, chosen, in_dtype, widened
from pyrite.tensor.movement import Movement
from pyrite.tensor.reduction import Reduction
from pyrite.types import Shape, TensorType, normalize_axes

T = TypeVar("T", bound="Normalization")
Vector = TensorType | None


# ---- what norms share ----


def require_shape(op: str, x: TensorType, wanted: Shape, **vectors: Vector) -> None:
    """Raise ShapeError unless weight, bias and the like, where given, have the wanted shape."""
    for name, vector in vectors.items():
        if vector is not None and vector.shape != wanted:
            raise ShapeError(
                f"{op} requires {name}.shape == {wanted} for x of shape {x.shape}, "
                f"got {vector.shape}"
            )


def moments(x: T, axis: Axes) -> tuple[T, T, T]:
    """Return mean, centred values and biased variance over axes, which are kept with size 1."""
    mean = x.mean(axis, keepdims=True)
    centred = x - mean
    return mean, centred, (centred * centred).mean(axis, keepdims=True)


def along(vector: T, x: T, axis: Axes) -> T:
    """Return a tensor of the sizes of some axes of x in a shape that broadcasts against x."""
    shape = tuple(n if a in axis else 1 for a, n in enumerate(x.shape))
    return widened(vector).reshape(shape)


def affine(normal: T, weight: T | None, bias: T | None, axis: Axes) -> T:
    """Return normal * weight + bias, of which either may be None, along axes."""
    weighted = scaled(normal, weight, axis)
    return weighted if bias is None else weighted + along(bias, normal, axis)


def scaled(x: T, weight: T | None, axis: Axes) -> T:
    """Return x * weight along axes, x where there is no weight."""
    return x if weight is None else x * along(weight, x, axis)


def summed_to(x: T, axis: Axes) -> T:
    """Return x summed over all axes but these: the gradient of what lies along them."""
    return x.sum(other_axes(x, axis))


def other_axes(x: T, axis: Axes) -> Axes:
    """Return the axes of x but for some."""
    return tuple(a for a in range(x.ndim) if a not in axis)


def _unscaled(g: T, y: T, rate: T, axis: Axes, *, is_centred: bool = False) -> T:
    """Return the cotangent of y, given that of y * rate where rate = rsqrt(mean(y ** 2) + eps).

    Where y = x - mean(x), that of x is the same less its mean, which is the mean of g * rate, for
    y then has no mean of its own.  What is folded does not depend on the rate: so a kernel takes
    it in while it goes over the row to have the rate.
    """
    found = g - y * ((g * y).mean(axis, keepdims=True) * rate * rate)
    if is_centred:
        found = found - g.mean(axis, keepdims=True)
    return found * rate


def _canonical_norm(op: str) -> Any:
    def canonical(x: TensorType, *rest: Vector, axis: Axis, eps: float) -> Attributes:
        if not eps >= 0:
            raise ArgumentError(f"{op} requires eps >= 0, got {eps}")
        return {"axis": normalize_axes(op, axis, x.ndim), "eps": float(eps)}

    return canonical


def _canonical_backward(
    g: TensorType, x: TensorType, _: Vector, *, axis: Axis, eps: float, argnums: Sequence[int]
) -> Attributes:
    axes = normalize_axes("norm_backward", axis, x.ndim)
    return {"axis": axes, "eps": float(eps), "argnums": tuple(argnums)}


def _norm_type(op: str) -> Any:
    def infer(
        x: TensorType, weight: Vector, bias: Vector = None, *, axis: Axes, eps: float
    ) -> TensorType:
        sizes = tuple(x.shape[a] for a in axis)
        require_shape(op, x, sizes, weight=weight, bias=bias)
        return x

    return infer


def _backward_types(
    g: TensorType, x: TensorType, weight: Vector, *, axis: Axes, eps: float, argnums: Axes
) -> tuple[TensorType, ...]:
    vector = TensorType(tuple(x.shape[a] for a in axis), x.dtype)
    require_shape("norm_backward", x, x.shape, g=g)
    require_shape("norm_backward", x, vector.shape, weight=weight)
    return tuple((x, vector, vector)[position] for position in argnums)


def _layer_norm_vjp(
    g: Any, _: Any, x: Any, weight: Any, _bias: Any, *, axis: Axes, eps: float, tracked: Axes
) -> tuple[Any, ...]:
    found = g._layer_norm_backward(x, weight, axis=axis, eps=eps, argnums=tracked)
    return by_position(found, tracked, 3)


def _rms_norm_vjp(
    g: Any, _: Any, x: Any, weight: Any, *, axis: Axes, eps: float, tracked: Axes
) -> tuple[Any, ...]:
    found = g._rms_norm_backward(x, weight, axis=axis, eps=eps, argnums=tracked)
    return by_position(found, tracked, 2)


class Normalization(Reduction, Movement, Arithmetic):
    """Normalisation over given axes."""

    __slots__ = ()

    @composite(
        canonical=_canonical_norm("layer_norm"),
        infer=_norm_type("layer_norm"),
        vjp=_layer_norm_vjp,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 3, 4), (4,), (4,)),
            sample((2, 3), None, None, eps=0.1),
            sample((2, 3, 4), (3, 4), None, axis=(1, 2)),
            sample((3, 4), None, (3,), axis=0),
            sample((0, 3), (3,), (3,)),
        ),
    )
    def layer_norm(
        self,
        weight: Self | None = None,
        bias: Self | None = None,
        /,
        axis: Axis = -1,
        *,
        eps: float = 1e-5,
    ) -> Self:
        """(x - mean) / sqrt(variance + eps) * weight + bias over axes: (..., D) -> (..., D).

        weight and bias have the sizes of the normalised axes, in order: (D,) for the default.
        torch's ``normalized_shape`` of k sizes is ``axis=tuple(range(-k, 0))``.

        Raises ShapeError where weight or bias have other sizes.
        Source: Ba, Kiros & Hinton 2016, arXiv:1607.06450.

        >>> from pyrite.tensor.creation import tensor
        >>> tensor([[1.0, 3.0]]).layer_norm(eps=0.0).numpy().tolist()
        [[-1.0, 1.0]]
        """
        assert isinstance(axis, tuple)
        _, centred, variance = moments(widened(self), axis)
        normal = centred * (variance + eps).rsqrt()
        return in_dtype(affine(normal, weight, bias, axis), self.dtype)

    @composite(
        canonical=_canonical_backward,
        infer=_backward_types,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 3, 4), (2, 3, 4), (4,), axis=-1, eps=0.1, argnums=(0, 1, 2)),
            sample((2, 3, 4), (2, 3, 4), None, axis=(0, 2), eps=0.1, argnums=(0,)),
            sample((2, 3), (2, 3), (3,), axis=-1, eps=0.1, argnums=(1, 2)),
        ),
    )
    def _layer_norm_backward(
        self, x: Self, weight: Self | None, /, *, axis: Axes, eps: float, argnums: Axes
    ) -> Gradients:
        """Gradients of x, weight and bias of `layer_norm`, those at ``argnums``; self is g."""
        g = widened(self)
        _, centred, variance = moments(widened(x), axis)
        rate = (variance + eps).rsqrt()

        def of_x() -> Any:
            return _unscaled(scaled(g, weight, axis), centred, rate, axis, is_centred=True)

        makers = {
            0: of_x,
            1: lambda: summed_to(g * (centred * rate), axis),
            2: lambda: summed_to(g, axis),
        }
        return chosen(makers, argnums, self.dtype)

    @composite(
        canonical=_canonical_norm("rms_norm"),
        infer=_norm_type("rms_norm"),
        vjp=_rms_norm_vjp,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 3, 4), (4,)),
            sample((2, 3), None, eps=0.1),
            sample((2, 3, 4), (2, 3), axis=(0, 1)),
        ),
    )
    def rms_norm(
        self, weight: Self | None = None, /, axis: Axis = -1, *, eps: float = 1e-5
    ) -> Self:
        """x / sqrt(mean(x ** 2) + eps) * weight over axes: (..., D) -> (..., D).

        weight as in `layer_norm`.
        Source: Zhang & Sennrich 2019, arXiv:1910.07467.
        """
        assert isinstance(axis, tuple)
        x = widened(self)
        normal = x * ((x * x).mean(axis, keepdims=True) + eps).rsqrt()
        return in_dtype(scaled(normal, weight, axis), self.dtype)

    @composite(
        canonical=_canonical_backward,
        infer=_backward_types,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 3, 4), (2, 3, 4), (4,), axis=-1, eps=0.1, argnums=(0, 1)),
            sample((2, 3), (2, 3), None, axis=0, eps=0.1, argnums=(0,)),
        ),
    )
    def _rms_norm_backward(
        self, x: Self, weight: Self | None, /, *, axis: Axes, eps: float, argnums: Axes
    ) -> Gradients:
        """Gradients of x and weight of `rms_norm`, those at ``argnums``; self is g."""
        g, x = widened(self), widened(x)
        rate = ((x * x).mean(axis, keepdims=True) + eps).rsqrt()
        makers = {
            0: lambda: _unscaled(scaled(g, weight, axis), x, rate, axis),
            1: lambda: summed_to(g * (x * rate), axis),
        }
        return chosen(makers, argnums, self.dtype)
