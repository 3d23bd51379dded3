"""Transposed convolutions: the transpose of a convolution in its input, as a layer with a bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, Sample, composite, sample
from pyrite.tensor.convolution import Convolution, require_bias, require_ranks, windows_of
from pyrite.tensor.spatial_rank import named_by_rank
from pyrite.tensor.window import Explicit, Pairs, Sizes, extent, sizes_per_axis
from pyrite.types import Shape, TensorType

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="TransposedConvolution")


def _transpose_attributes(rank: int) -> Callable[..., Attributes]:
    """Return the canonical rule of conv_transpose1d, conv_transpose2d or conv_transpose3d."""

    def canonical(
        x: TensorType,
        weight: TensorType,
        bias: TensorType | None,
        *,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: Any,
    ) -> Attributes:
        op = f"conv_transpose{rank}d"
        require_ranks(op, x, weight, rank)
        if isinstance(padding, str):
            raise ArgumentError(f"{op} requires padding in elements, got {padding!r}")
        extra = sizes_per_axis(op, "output_padding", output_padding, rank, least=0)
        windows = windows_of(op, x.shape[2:], weight.shape[2:], stride, padding, dilation, groups)
        if any(e >= s for e, s in zip(extra, windows["stride"], strict=True)):
            raise ArgumentError(
                f"{op} requires output_padding < stride, got {extra} and {windows['stride']}"
            )
        return {**windows, "output_padding": extra}

    return canonical


def _transpose_type(
    x: TensorType,
    weight: TensorType,
    bias: TensorType | None,
    *,
    stride: Shape,
    padding: Pairs,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
) -> TensorType:
    op = f"conv_transpose{x.ndim - 2}d"
    if x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{op} requires x.shape[1] == weight.shape[0], a multiple of groups, got {x.shape} and "
            f"{weight.shape} with groups={groups}"
        )
    sizes = _transposed_sizes(x.shape, weight.shape, stride, padding, output_padding, dilation)
    if any(size < 1 for size in sizes):
        raise ShapeError(
            f"{op} requires padding that leaves an output, got sizes {sizes} from {x.shape} and "
            f"{weight.shape}"
        )
    channels = weight.shape[1] * groups
    require_bias(op, bias, channels)
    return TensorType((x.shape[0], channels, *sizes), x.dtype)


def _transposed_sizes(
    x: Shape, weight: Shape, stride: Shape, padding: Pairs, output_padding: Shape, dilation: Shape
) -> Shape:
    axes = zip(x[2:], weight[2:], stride, padding, output_padding, dilation, strict=True)
    return tuple((n - 1) * s - sum(pair) + extent(k, d) + extra for n, k, s, pair, extra, d in axes)


def _transposed(
    self: T,
    weight: T,
    bias: T | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Explicit = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> T:
    """Transposed convolution over {axes}: x (N, C, {x}) -> (N, O, {out}).

    The weight is (C, O/groups, {kernel}), the bias (O).
    W' = (W - 1) stride - before - after + dilation (kw - 1) + 1 + output_padding, and so along the
    other axes.  Raises ShapeError if the channels do not fit.
    """
    return self._transposed_convolution(
        weight, bias, stride, padding, output_padding, dilation, groups
    )


def _of_rank(rank: int, function: Callable[P, R], *samples: Sample) -> Callable[P, R]:
    """Declare a function as conv_transpose1d, conv_transpose2d or conv_transpose3d."""
    declare = composite(
        infer=_transpose_type,
        canonical=_transpose_attributes(rank),
        accepts="number",
        promotes="all",
        samples=samples,
    )
    return declare(named_by_rank(f"conv_transpose{rank}d", rank, function))


class TransposedConvolution(Convolution):
    """Transposed convolutions of (N, C, *sizes), also called deconvolutions.

    ``padding`` is what the convolution would have: it makes the output smaller.  ``output_padding``
    makes the output larger at its end, to choose between the sizes that a stride maps to one.
    """

    __slots__ = ()

    conv_transpose1d = _of_rank(
        1, _transposed, sample((2, 2, 3), (2, 3, 2), (3,), stride=2, output_padding=1)
    )
    conv_transpose2d = _of_rank(
        2,
        _transposed,
        sample((1, 2, 3, 2), (2, 2, 3, 2), (4,), stride=(2, 1), padding=(1, 0), groups=2),
        sample((1, 1, 2, 2), (1, 2, 2, 2), None, dilation=2, padding=((0, 1), (1, 0))),
    )
    conv_transpose3d = _of_rank(
        3, _transposed, sample((1, 2, 2, 2, 2), (2, 1, 2, 2, 1), (1,), stride=(1, 2, 1))
    )

    def _transposed_convolution(
        self,
        weight: Self,
        bias: Self | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
    ) -> Self:
        sizes = _transposed_sizes(
            self.shape, weight.shape, stride, padding, output_padding, dilation
        )
        out = self._convolution_input_gradient(
            weight, sizes=sizes, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        return out._plus_bias(bias)
