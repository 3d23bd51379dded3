"""Batch norm and its gradient: one kernel each, in which a channel of all samples is a row.

A row is (N, S): the batch, by what is next to each other in a sample.  It is gone over where it
lies if vectors fit into S; else it is copied together, and the result copied back.  Per channel
there are numbers too, read and written once.  Formulas and precision are those of the composites.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Layout, Operand
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.elementwise import contiguous, map_elements
from pyrite.backend.cube.skeleton.numbered_rows import (
    NumberedRow,
    Operands,
    for_numbered_rows,
    has_elements,
    numbered_candidates,
    widest,
)
from pyrite.backend.cube.skeleton.row import At, RowsConfig, as_rows, from_rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Op
from pyrite.types import DType, Shape, TensorType, element_count

# ---- configs ----


@dataclass(frozen=True, slots=True)
class Channels:
    """The rows of a kernel: how many, and (N, S) of each; N is 1 where they were copied."""

    count: int
    outer: int
    inner: int

    @property
    def length(self) -> int:
        """How many elements a channel has."""
        return self.outer * self.inner


def channel_candidates(
    channels: Channels, dtype: DType, machine: Machine
) -> tuple[RowsConfig, ...]:
    """Return the configs for channels: a row of one invocation or of a workgroup, whole vectors."""
    divisor = 0 if channels.outer == 1 else channels.inner
    return numbered_candidates(channels.length, dtype, machine, divisor=divisor)


def select(channels: Channels, dtype: DType, machine: Machine) -> RowsConfig:
    """Return a config."""
    return widest(channel_candidates(channels, dtype, machine), channels.length, machine)


# ---- the kernel ----


class Channel(NumberedRow):
    """One channel, inside the kernel: a row, and the numbers of the channel."""

    def __init__(
        self, name: str, channels: Channels, sources: Sequence[Layout], targets: Sequence[Layout],
        numbers: Sequence[Layout], results: Sequence[Layout], config: RowsConfig, grid: int,
    ) -> None:  # fmt: skip
        super().__init__(
            name, channels.count, channels.length, sources, targets, numbers, results, config, grid,
        )  # fmt: skip
        self._inner = channels.inner

    def _place(self, operand: Operand, at: At) -> Value:
        if len(operand.layout.strides) == 2:
            return operand.at([self._row, at.first])
        return operand.at([self._row, at.first // self._inner, at.first % self._inner])


def for_channels(
    launcher: Launcher,
    name: str,
    variant: Hashable,
    sources: Sequence[CubeTensor],
    numbers: Sequence[CubeTensor],
    targets: Sequence[TensorType],
    results: Sequence[TensorType],
    body: Callable[[Channel], None],
) -> tuple[list[CubeTensor], list[CubeTensor]]:
    """Run a body for each channel of tensors of one shape (N, C, ...); return what it writes.

    ``numbers`` and ``results`` are of shape (C,), ``targets`` of the sources' shape.
    """
    channels, lie = _rows_of(launcher, sources)
    shape, is_copied = sources[0].shape, len(lie[0].shape) == 2
    config = select(channels, sources[0].dtype.compute, launcher.machine)
    made = [launcher.empty(_written(type, channels, is_copied=is_copied)) for type in targets]
    written = made if is_copied else [_seen(t) for t in made]
    totals = [launcher.empty(type) for type in results]
    for_numbered_rows(
        launcher, (name, variant, channels), channels.count,
        Operands(lie, written, numbers, totals), partial(Channel, name, channels), body, config,
    )  # fmt: skip
    if is_copied:
        made = [contiguous(launcher, from_rows(t, shape, _axes_of(shape))) for t in made]
    return made, totals


#: Vectors that are narrower are slower than copies.
_LEAST_WIDTH = 4


def _axes_of(shape: Shape) -> tuple[int, ...]:
    """Return the axes of (N, C, ...) that are a channel's own."""
    return (0, *range(2, len(shape)))


def _rows_of(
    launcher: Launcher, sources: Sequence[CubeTensor]
) -> tuple[Channels, list[CubeTensor]]:
    """Return tensors of (N, C, ...) as (C, N, S) where they lie, or copied to (C, N * S)."""
    n, c, *rest = shape = sources[0].shape
    size = element_count(rest)
    views = [_channels_of(x) for x in sources]
    lie = [view for view in views if view is not None]
    if len(lie) == len(views) and size % _LEAST_WIDTH == 0:
        return Channels(c, n, size), lie
    return Channels(c, 1, n * size), [as_rows(launcher, x, _axes_of(shape)) for x in sources]


def _channels_of(x: CubeTensor) -> CubeTensor | None:
    """Return (N, C, ...) as (C, N, S) if its elements along S are neighbours, else None."""
    n, c, *rest = x.shape
    view = x.reshaped((n, c, element_count(rest)))
    if view is None or view.strides[2] != 1:
        return None
    return view.permuted((1, 0, 2))


def _seen(x: CubeTensor) -> CubeTensor:
    view = _channels_of(x)
    assert view is not None, "what is dense can be seen so"
    return view


def _written(type: TensorType, channels: Channels, *, is_copied: bool) -> TensorType:
    shape: Shape = (channels.count, channels.length) if is_copied else type.shape
    return TensorType(shape, type.dtype)


# ---- the ops ----


@lowers("batch_norm", when=has_elements)
def batch_norm(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The moments of a channel, and its values normalised."""
    x, weight, bias = inputs
    eps = attrs["eps"]

    def body(channel: Channel) -> None:
        mean, centred = channel.centred(channel.sources[0])
        variance = channel.variance(centred)
        scale = channel.k.rsqrt(variance + eps)
        if weight is not None:
            scale = scale * channel.number(0)
        shift = None if bias is None else channel.number(int(weight is not None))

        def write(at: At) -> None:
            y = centred(at) * channel.spread(scale, at)
            channel.targets[0](at, y if shift is None else y + channel.spread(shift, at))

        channel.write(write)
        channel.result(0, mean)
        channel.result(1, variance)

    numbers = [v for v in (weight, bias) if v is not None]
    variant = content_of((eps, weight is None, bias is None))
    made, totals = for_channels(launcher, op.name, variant, [x], numbers, out[:1], out[1:], body)
    return [*made, *totals]


@lowers("batch_norm_backward", when=has_elements)
def batch_norm_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradients that were asked for: those of the statistics join in per channel."""
    g, g_mean, g_variance, x, weight = inputs
    eps, argnums = attrs["eps"], attrs["argnums"]
    vectors = [n for n in argnums if n != 0]

    def body(channel: Channel) -> None:
        of_g, length = channel.sources[0], channel.length
        _, centred = channel.centred(channel.sources[1])

        def both(at: At) -> tuple[Value, Value]:
            y = of_g(at)
            return y, y * centred(at)

        rate = channel.k.rsqrt(channel.variance(centred) + eps)
        total, product = channel.totals(2, both)
        if 0 in argnums:
            slope = rate if weight is None else rate * channel.number(2)
            shift = (slope * total - channel.number(0)) * (1 / length)
            pull = (slope * rate * rate * product - channel.number(1) * 2) * (1 / length)

            def write(at: At) -> None:
                along, above = (channel.spread(v, at) for v in (slope, shift))
                channel.targets[0](
                    at, along * of_g(at) - (above + channel.spread(pull, at) * centred(at))
                )

            channel.write(write)
        for position, n in enumerate(vectors):
            channel.result(position, product * rate if n == 1 else total)

    numbers = [v for v in (g_mean, g_variance, weight) if v is not None]
    types = dict(zip(argnums, out, strict=True))
    variant = content_of((eps, argnums, weight is None))
    made, totals = for_channels(
        launcher, op.name, variant, [g, x], numbers,
        [types[0]] if 0 in argnums else [], [types[n] for n in vectors], body,
    )  # fmt: skip
    found = dict(zip(vectors, totals, strict=True))
    return [made[0] if n == 0 else found[n] for n in argnums]


@lowers("running_moments")
def running_moments(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """A small kernel for each result, launched together."""
    mean, variance, batch_mean, batch_variance, seen, share, correction = inputs
    # Without a share it is that of one batch among all.
    weight = seen if share is None else share
    each: list[tuple[Callable[..., Value], list[Any]]] = [
        (_moved, [mean, batch_mean, weight, None]),
        (_moved, [variance, batch_variance, weight, correction]),
        (lambda _, n: n + 1, [seen]),
    ]
    targets = [launcher.empty(type) for type in out]
    for n, ((rule, operands), target) in enumerate(zip(each, targets, strict=True)):
        map_elements(launcher, op.name, n, rule, operands, target)
    return targets


def _moved(k: RecordingAlgebra, x: Value, y: Value, weight: Value, correction: Any) -> Value:
    """Return x on its way to y; ``weight`` is a share, or the number of batches before."""
    if weight.dtype.is_integer:
        weight = 1.0 / (k.builder.cast(weight, x.dtype) + 1.0)
    return x + weight * ((y if correction is None else y * correction) - x)


@lowers("batch_norm_inference", when=has_elements)
def batch_norm_inference(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Element by element, with the numbers of the channel."""
    x, *vectors = inputs
    eps = attrs["eps"]
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))

    def rule(k: Any, x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> Any:
        rate = k.rsqrt(variance + eps)
        y = (x - mean) * (rate if weight is None else rate * weight)
        return y if bias is None else y + bias

    target = launcher.empty(out[0])
    along = [v if v is None else contiguous(launcher, v).reshaped(shape) for v in vectors]
    map_elements(launcher, op.name, content_of(eps), rule, [x, *along], target)
    return [target]
