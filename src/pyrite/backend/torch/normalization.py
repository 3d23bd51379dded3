"""Softmax and norms, forward and backward, in PyTorch's fused kernels.

Each is a composite of the op table; here it is one kernel, or two where moments are made again.
PyTorch normalises over trailing axes, so others are moved there and back.
"""

from __future__ import annotations

from typing import Any

import torch

from pyrite.backend.torch import layout
from pyrite.backend.torch.native import Native, native, remembered
from pyrite.op import Constant
from pyrite.types import Shape


def _are_numbers_last(*inputs: Any) -> bool:
    """Whether the last two of several inputs are numbers."""
    return all(isinstance(i, Constant) == (n >= len(inputs) - 2) for n, i in enumerate(inputs))


def _has_elements(x: torch.Tensor, *_: Any) -> bool:
    """Whether the first input has any: PyTorch's moments of none are errors or NaN."""
    return x.numel() > 0


class Normalization(Native):
    """Softmax and norms."""

    # ---- softmax ----

    @native("softmax", narrow="everywhere")
    def softmax(self, x: torch.Tensor, *, axis: int) -> torch.Tensor:
        return torch.softmax(x, axis)

    @native("softmax_backward", narrow="everywhere")
    def softmax_backward(self, g: torch.Tensor, out: torch.Tensor, *, axis: int) -> Any:
        return layout.softmax_backward(g, out, axis, out.dtype)

    # PyTorch's CPU kernel adds exponentials of float16 up in float16: of 65,520 it makes -inf.
    @native("log_softmax", narrow="cuda")
    def log_softmax(self, x: torch.Tensor, *, axis: int) -> torch.Tensor:
        return torch.log_softmax(x, axis)

    @native("log_softmax_backward", narrow="everywhere")
    def log_softmax_backward(self, g: torch.Tensor, out: torch.Tensor, *, axis: int) -> Any:
        return layout.log_softmax_backward(g, out, axis, out.dtype)

    # ---- layer and group norm ----

    @native("layer_norm")
    def layer_norm(
        self,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        *,
        axis: Shape,
        eps: float,
    ) -> torch.Tensor:
        moved = _last(x, axis)
        shape = moved.shape[x.ndim - len(axis) :]
        out, mean, rate = layout.layer_norm(moved, shape, weight, bias, eps)
        remembered(x, ("layer_norm", axis, eps), lambda: (mean, rate))
        return _back(out, axis)

    @native("layer_norm_backward")
    def layer_norm_backward(
        self,
        g: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        axis: Shape,
        eps: float,
        argnums: Shape,
    ) -> Any:
        moved, of_out = _last(x, axis), _last(g, axis)
        shape = moved.shape[x.ndim - len(axis) :]
        mean, rate = remembered(
            x,
            ("layer_norm", axis, eps),
            lambda: layout.layer_norm(moved, shape, None, None, eps)[1:],
        )
        weight = _of_all(weight, shape, x, argnums)
        wanted = [0 in argnums, *_sums_wanted(argnums)]
        found = layout.layer_norm_backward(of_out, moved, shape, mean, rate, weight, weight, wanted)
        made = (_back(found[0], axis) if 0 in argnums else None, *found[1:])
        return _chosen(made, argnums)

    @native("group_norm", when=_has_elements)
    def group_norm(
        self,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        *,
        num_groups: int,
        eps: float,
    ) -> torch.Tensor:
        return torch.group_norm(x, num_groups, weight, bias, eps)

    @native("group_norm_backward", when=_has_elements)
    def group_norm_backward(
        self,
        g: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        num_groups: int,
        eps: float,
        argnums: Shape,
    ) -> Any:
        batch, channels = x.shape[:2]
        size = x[0, 0].numel()
        # With three axes: where there are four, and one channel or pixel, strides may pass for
        # channels last, and PyTorch's kernel for these ends the process without a gradient of x.
        flat = layout.dense(x).reshape(batch, channels, size)
        _, mean, rate = layout.group_norm(flat, None, None, batch, channels, size, num_groups, eps)
        weight = _of_all(weight, (channels,), x, argnums)
        of_x, *others = layout.group_norm_backward(
            g.reshape(batch, channels, size), flat, mean, rate, weight, batch, channels, size,
            num_groups, [i in argnums for i in range(3)],
        )  # fmt: skip
        return _chosen((None if of_x is None else of_x.reshape(x.shape), *others), argnums)

    # ---- batch norm ----

    @native("batch_norm", when=_has_elements)
    def batch_norm(
        self,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        *,
        eps: float,
    ) -> tuple[torch.Tensor, ...]:
        if _has_running_moments(x):
            return _trained(x, weight, bias, eps)
        mean, variance = _statistics(x)
        remembered(x, ("batch_norm", eps), lambda: (mean, torch.rsqrt(variance + eps)))
        out = layout.batch_norm_by_moments(x, mean, variance, weight, bias, False, 0.0, eps)
        return out, mean, variance

    @native("batch_norm_backward", when=_has_elements)
    def batch_norm_backward(
        self,
        g: torch.Tensor,
        g_mean: torch.Tensor,
        g_variance: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        eps: float,
        argnums: Shape,
    ) -> Any:
        mean, rate = remembered(x, ("batch_norm", eps), lambda: _moments(x, eps))
        weight = _of_all(weight, mean.shape, x, argnums)
        wanted = [0 in argnums, *_sums_wanted(argnums)]
        found = list(
            layout.batch_norm_backward(
                g, x, weight, None, None, mean, rate, True, eps, wanted
            )
        )  # fmt: skip
        if 0 in argnums and not (self.is_zero(g_mean) and self.is_zero(g_variance)):
            count = x.numel() // x.shape[1]
            along = (1, -1, *(1,) * (x.ndim - 2))
            centred = x - mean.reshape(along)
            of_moments = g_mean.reshape(along) + centred * (2 * g_variance).reshape(along)
            found[0] = found[0] + of_moments / count
        return _chosen(found, argnums)

    @native("running_moments", given="numbers", when=_are_numbers_last)
    def running_moments(
        self,
        mean: torch.Tensor,
        variance: torch.Tensor,
        batch_mean: torch.Tensor,
        batch_variance: torch.Tensor,
        seen: torch.Tensor,
        share: float,
        correction: float,
    ) -> tuple[torch.Tensor, ...]:
        unbiased = batch_variance * correction
        renewed = torch.lerp(variance, unbiased, share)
        return torch.lerp(mean, batch_mean, share), renewed, torch.add(seen, 1)

    @native("batch_norm_inference", when=_has_elements)
    def batch_norm_inference(
        self,
        x: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        *,
        eps: float,
    ) -> torch.Tensor:
        return layout.batch_norm_by_moments(x, mean, variance, weight, bias, False, 0.0, eps)


def _sums_wanted(argnums: Shape) -> tuple[bool, bool]:
    """Return whether gradients of weight and bias are asked for: of both, or of none.

    CUDA's kernels make the sums of both or of none: asked for the bias alone, they have none.
    """
    is_summed = 1 in argnums or 2 in argnums
    return is_summed, is_summed


def _of_all(
    weight: torch.Tensor | None, shape: Shape, x: torch.Tensor, argnums: Shape
) -> torch.Tensor | None:
    """Return the weight; without one, ones where gradients of weight and bias are wanted.

    PyTorch's backward kernels give none of these without a weight.
    """
    if weight is not None:
        return weight
    return x.new_ones(shape) if set(argnums) - {0} else None


def _trained(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, ...]:
    """Return what batch_norm returns, by PyTorch's kernel for training.

    With a momentum of 1 its running moments are those of this batch.
    """
    first, second = x.new_zeros((2, x.shape[1])).unbind()
    out, mean, rate = layout.batch_norm(x, weight, bias, first, second, True, 1.0, eps)
    remembered(x, ("batch_norm", eps), lambda: (mean, rate))
    count = x.numel() // x.shape[1]
    return out, mean, second * ((count - 1) / count)


def _has_running_moments(x: torch.Tensor) -> bool:
    """Whether PyTorch's kernel for training gives them: of a GPU, for two values a channel."""
    return x.device.type == "cuda" and x.numel() // x.shape[1] > 1


def _moments(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and 1 / sqrt(variance + eps) by channel."""
    mean, variance = _statistics(x)
    return mean, torch.rsqrt(variance + eps)


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and biased variance by channel.

    On the host sums of squares are ten times as fast as PyTorch's running moments, and lose two
    bits at most where no mean is twice its deviation; a look at that costs no waiting there.
    """
    if x.device.type == "cpu" and x.ndim > 2:
        rows = x.reshape(x.shape[0], x.shape[1], -1)
        count = x.numel() // x.shape[1]
        mean = rows.mean((0, 2))
        squares = torch.linalg.vector_norm(rows, dim=-1).square_().sum(0).div_(count)
        variance = squares - mean * mean
        if bool((mean * mean <= 4 * variance).all()):
            return mean, variance
    mean, variance = layout.batch_norm_statistics(x, None, None, 0.0)
    return mean, variance


def _is_last(x: torch.Tensor, axis: Shape) -> bool:
    """Whether the axes, which are in order, are the last ones."""
    return not axis or axis[0] == x.ndim - len(axis)


def _last(x: torch.Tensor, axis: Shape) -> torch.Tensor:
    """Return x with the axes moved to the end, in order."""
    return x if _is_last(x, axis) else x.movedim(axis, tuple(range(x.ndim - len(axis), x.ndim)))


def _back(x: torch.Tensor, axis: Shape) -> torch.Tensor:
    return x if _is_last(x, axis) else x.movedim(tuple(range(x.ndim - len(axis), x.ndim)), axis)


def _chosen(found: Any, argnums: Shape) -> Any:
    made = tuple(found[position] for position in argnums)
    return made[0] if len(made) == 1 else made
