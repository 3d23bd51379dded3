"""Convolutions over one to three axes, and their gradients, which are ops too.

Convolution is bilinear, so three ops close the circle: `convolution` of x and weight, and its
transposes in x and in the weight.  The derivatives of each are the other two, to any order.

Deep learning's convolution is meant: the window is not flipped, which mathematics calls
cross-correlation.  Source: Dumoulin & Visin 2016, arXiv:1603.07285; "same"
as in TensorFlow and JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

from pyrite.errors import ShapeError
from pyrite.op import Attributes, Sample, composite, primitive, sample
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.convolution_reference import (
    convolution,
    input_gradient,
    weight_gradient,
)
from pyrite.tensor.movement import Movement
from pyrite.tensor.product_rules import (
    BIASED_CONVOLUTION,
    CONVOLUTION,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
)
from pyrite.tensor.spatial_rank import named_by_rank
from pyrite.tensor.window import (
    Padding,
    Pairs,
    Sizes,
    padding_pairs,
    sizes_per_axis,
    window_counts,
)
from pyrite.types import Shape, TensorType

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Convolution")

# ---- types ----


def require_ranks(op: str, x: TensorType, weight: TensorType, rank: int | None = None) -> int:
    """Return the number of spatial axes of x (N, C, *sizes) and weight (O, I, *kernel)."""
    found = x.ndim - 2
    if not 1 <= found <= 3 or weight.ndim != x.ndim or rank not in (None, found):
        axes = f"{rank + 2} axes" if rank else "3 to 5 axes"
        raise ShapeError(f"{op} requires x and weight of {axes}, got {x.shape} and {weight.shape}")
    return found


def _window_attributes(
    x: TensorType, weight: TensorType, *, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Attributes:
    rank = require_ranks("convolution", x, weight)
    return windows_of(
        f"conv{rank}d", x.shape[2:], weight.shape[2:], stride, padding, dilation, groups
    )


def windows_of(
    op: str, sizes: Shape, kernel_size: Shape, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Attributes:
    """Return stride, padding, dilation and groups in their one form."""
    rank = len(sizes)
    if 0 in kernel_size:
        raise ShapeError(f"{op} requires a kernel of sizes >= 1, got {kernel_size}")
    stride = sizes_per_axis(op, "stride", stride, rank)
    dilation = sizes_per_axis(op, "dilation", dilation, rank)
    (groups,) = sizes_per_axis(op, "groups", groups, 1)
    pairs = padding_pairs(op, padding, sizes, kernel_size, stride, dilation)
    return {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}


def _convolution_type(
    x: TensorType,
    weight: TensorType,
    *,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> TensorType:
    op = f"conv{x.ndim - 2}d"
    outputs, channels = weight.shape[:2]
    if x.shape[1] != channels * groups:
        raise ShapeError(
            f"{op} requires x.shape[1] == groups * weight.shape[1], got {x.shape} and "
            f"{weight.shape} with groups={groups}"
        )
    if outputs % groups:
        raise ShapeError(
            f"{op} requires weight.shape[0] to be a multiple of groups, got {weight.shape} with "
            f"groups={groups}"
        )
    counts = window_counts(op, x.shape[2:], weight.shape[2:], stride, padding, dilation)
    return TensorType((x.shape[0], outputs, *counts), x.dtype)


def _input_gradient_type(
    g: TensorType, weight: TensorType, *, sizes: Shape, groups: int, **windows: Any
) -> TensorType:
    x = TensorType((g.shape[0], groups * weight.shape[1], *sizes), g.dtype)
    expected = _convolution_type(x, weight, groups=groups, **windows)
    if g.shape != expected.shape:
        raise ShapeError(
            f"convolution_input_gradient requires g of shape {expected.shape} for x {x.shape} and "
            f"weight {weight.shape}, got {g.shape}"
        )
    return x


def _weight_gradient_type(
    x: TensorType, g: TensorType, *, kernel_size: Shape, groups: int, **windows: Any
) -> TensorType:
    weight = TensorType((g.shape[1], x.shape[1] // groups, *kernel_size), x.dtype)
    expected = _convolution_type(x, weight, groups=groups, **windows)
    if g.shape != expected.shape:
        raise ShapeError(
            f"convolution_weight_gradient requires g of shape {expected.shape} for x {x.shape} "
            f"and weight {weight.shape}, got {g.shape}"
        )
    return weight


def _convolution_attributes(rank: int) -> Callable[..., Attributes]:
    """Return the canonical rule of conv1d, conv2d or conv3d."""

    def canonical(
        x: TensorType,
        weight: TensorType,
        bias: TensorType | None,
        *,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: Any,
    ) -> Attributes:
        op = f"conv{rank}d"
        require_ranks(op, x, weight, rank)
        return windows_of(op, x.shape[2:], weight.shape[2:], stride, padding, dilation, groups)

    return canonical


def _biased_type(
    x: TensorType, weight: TensorType, bias: TensorType | None, **windows: Any
) -> TensorType:
    out = _convolution_type(x, weight, **windows)
    require_bias(f"conv{x.ndim - 2}d", bias, out.shape[1])
    return out


def require_bias(op: str, bias: TensorType | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(
            f"{op} requires bias.shape == ({channels},), one for each output channel, "
            f"got {bias.shape}"
        )


# ---- derivatives ----


def _transposed_in_x(g: Any, _out: None, x_type: TensorType, weight: Any, **windows: Any) -> Any:
    return g._convolution_input_gradient(weight, sizes=x_type.shape[2:], **windows)


def _transposed_in_weight(
    g: Any, _out: None, x: Any, weight_type: TensorType, **windows: Any
) -> Any:
    return x._convolution_weight_gradient(g, kernel_size=weight_type.shape[2:], **windows)


def _summed_over_positions(g: Any, *_: Any) -> Any:
    return g.sum((0, *range(2, g.ndim)))


#: The derivatives of a convolution with a bias.
_BIASED = (_transposed_in_x, _transposed_in_weight, _summed_over_positions)


def _transposed_weight_in_x(
    v: Any, _out: None, x_type: TensorType, y: Any, *, kernel_size: Shape, **windows: Any
) -> Any:
    return y._convolution_input_gradient(v, sizes=x_type.shape[2:], **windows)


# ---- with a bias ----


def _biased(
    self: T,
    weight: T,
    bias: T | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> T:
    """Convolution over {axes}: (N, C, {x}), (O, C/groups, {kernel}), (O) -> (N, O, {out}).

    {out} as in `convolution`.  Raises ShapeError if the channels do not fit.
    """
    out = self.convolution(weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return out._plus_bias(bias)


def _of_rank(rank: int, function: Callable[P, R], *samples: Sample) -> Callable[P, R]:
    """Declare a function as conv1d, conv2d or conv3d."""
    declare = composite(
        rule=BIASED_CONVOLUTION,
        infer=_biased_type,
        canonical=_convolution_attributes(rank),
        vjp=_BIASED,
        accepts="number",
        promotes="all",
        samples=samples,
    )
    return declare(named_by_rank(f"conv{rank}d", rank, function))


class Convolution(Movement, Arithmetic):
    """Convolutions of (N, C, *sizes).

    ``stride`` and ``dilation`` are one int, or one per spatial axis.  ``padding`` counts zeros: an
    int, one per axis, one (before, after) pair per axis, "valid" for none, or "same" for as many
    as give ceil(size / stride) positions, the odd one after.  These are no elements: a weight that
    is not finite does not make NaN of them, but on ``torch:*`` and ``candle`` the libraries do.
    ``groups`` splits the channels; with as many as there are channels the convolution is depthwise.
    """

    __slots__ = ()

    @primitive(
        rule=CONVOLUTION,
        reference=convolution,
        accumulates=True,
        infer=_convolution_type,
        canonical=_window_attributes,
        vjp=(_transposed_in_x, _transposed_in_weight),
        promotes="all",
        samples=(
            sample((2, 2, 5), (3, 2, 2), stride=2, padding=((1, 0),)),
            sample((1, 2, 4, 5), (2, 2, 3, 2), padding="same"),
            sample((2, 4, 5, 4), (4, 2, 2, 2), stride=(2, 1), dilation=2, padding=1, groups=2),
            sample((1, 1, 3, 3, 3), (2, 1, 2, 2, 2)),
            sample((0, 1, 4, 4), (2, 1, 3, 3)),
        ),
    )
    def convolution(
        self,
        weight: Self,
        /,
        *,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Self:
        """Convolution over one to three axes: (N, C, *S), (O, C/groups, *K) -> (N, O, *S').

        S' = floor((S + before + after - dilation (K - 1) - 1) / stride) + 1 on each axis.

        Raises ShapeError if the channels do not fit, or a window exceeds the padded input.
        """
        ...

    @primitive(
        rule=INPUT_GRADIENT,
        reference=input_gradient,
        accumulates=True,
        infer=_input_gradient_type,
        vjp=(
            lambda g, _, _y, weight, *, sizes, **windows: g.convolution(weight, **windows),
            lambda g, _, y, weight_type, *, sizes, **windows: g._convolution_weight_gradient(
                y, kernel_size=weight_type.shape[2:], **windows
            ),
        ),
        promotes="all",
        samples=(
            sample(
                (2, 2, 2, 3), (2, 1, 3, 2), sizes=(4, 4), stride=(2, 1), padding=((1, 1), (0, 0)),
                dilation=(1, 1), groups=2,
            ),
        ),
    )  # fmt: skip
    def _convolution_input_gradient(
        self,
        weight: Self,
        /,
        *,
        sizes: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        groups: int,
    ) -> Self:
        """Its transpose in x: (N, O, *S'), (O, C/groups, *K) -> (N, C, *sizes)."""
        ...

    @primitive(
        rule=WEIGHT_GRADIENT,
        reference=weight_gradient,
        accumulates=True,
        infer=_weight_gradient_type,
        vjp=(
            _transposed_weight_in_x,
            lambda v, _, x, *, kernel_size, **windows: x.convolution(v, **windows),
        ),
        promotes="all",
        samples=(
            sample(
                (2, 2, 4, 4), (2, 2, 2, 3), kernel_size=(3, 2), stride=(2, 1),
                padding=((1, 1), (0, 0)), dilation=(1, 1), groups=2,
            ),
        ),
    )  # fmt: skip
    def _convolution_weight_gradient(
        self,
        g: Self,
        /,
        *,
        kernel_size: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        groups: int,
    ) -> Self:
        """Its transpose in the weight: (N, C, *S), (N, O, *S') -> (O, C/groups, *kernel_size)."""
        ...

    # ---- with a bias, by the number of axes ----

    conv1d = _of_rank(
        1,
        _biased,
        sample((2, 2, 5), (3, 2, 3), (3,), padding=1),
        sample((1, 2, 4), (2, 1, 2), None, groups=2),
    )
    conv2d = _of_rank(
        2,
        _biased,
        sample((2, 2, 4, 5), (3, 2, 3, 2), (3,), stride=2, padding=(1, 0)),
        sample((1, 1, 4, 4), (2, 1, 2, 2), None, padding="same"),
    )
    conv3d = _of_rank(3, _biased, sample((1, 2, 3, 3, 2), (2, 2, 2, 2, 2), (2,), padding=(1, 0, 0)))

    def _plus_bias(self, bias: Self | None) -> Self:
        if bias is None:
            return self
        return self + bias.reshape((bias.size,) + (1,) * (self.ndim - 2))
