"""The gradients of group norm by hand on processors: what each channel has is summed on the way.

A group of channels of a sample is a row, each of its channels a piece of it.  While the variance is
taken, g and g times the centred values are summed over each channel; these few numbers are all that
the gradients of weight and bias need, and those of x besides the elements.  So every element is
read three times, of which one is from far; by the body, which knows no sums over pieces of a row,
there is a second kernel for weight and bias, which reads all of g and x once more.
Formulas and precision are those of the composite, which runs by its body on GPUs and for channels
of a few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Layout, Operand, bindings_of
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.copy import contiguous, flattened
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.row import (
    ROWS,
    At,
    Row,
    RowProblem,
    RowsConfig,
    Values,
    row_layout,
    select_in_pieces,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.extent import extent
from pyrite.op import Attributes, Op
from pyrite.types import Shape, TensorType, element_count

#: In channels of fewer elements their sums cost more than a second kernel.
LEAST_SIZE = 16


@dataclass(frozen=True, slots=True)
class Groups:
    """The rows of a kernel and their operands, each along (rows, channels, size).

    There are ``count`` groups in each of the ``samples``, of ``channels`` with ``size`` elements.
    ``totals`` are along (rows, channels), and the weight along all channels of a sample.
    """

    sources: tuple[Layout, Layout]
    weight: Layout | None
    target: Layout | None
    totals: tuple[Layout, ...]
    samples: int = extent()
    count: int = extent()
    channels: int = extent()
    size: int = extent()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.samples * self.count


class GroupRow(Row):
    """One group, inside the kernel."""

    def __init__(self, name: str, groups: Groups, config: RowsConfig, grid: int) -> None:
        targets = () if groups.target is None else (groups.target,)
        super().__init__(
            name, groups.rows, groups.channels * groups.size, groups.sources, targets, (), config,
            grid, pieces=groups.channels,
        )  # fmt: skip
        b, self._groups = self.b, groups
        of = groups.weight
        self._weight = None if of is None else Operand(b, "weight", of, "read")
        #: The weight of the channel that is gone over.
        self._scale: Value | None = None
        self.totals = [
            Operand(b, f"total{i}", layout, "read_write") for i, layout in enumerate(groups.totals)
        ]

    def _begin_piece(self) -> None:
        if self._weight is not None:
            first = self._row % self._groups.count * self._groups.channels
            self._scale = self._weight[[first + self._channel]]

    @property
    def _channel(self) -> Value | int:
        """Which of the group's channels is gone over."""
        return 0 if self._piece is None else self._piece

    def _place(self, operand: Operand, at: At) -> Value:
        return operand.at([self._row, self._channel, at.first])

    def weighted(self, x: Value) -> Value:
        """Return a number, or neighbours, of the channel times its weight."""
        scale = self._scale
        if scale is None:
            return x
        return x * (scale if x.width == 1 else self.b.splat(scale, x.width))

    def put(self, total: Operand, x: Value) -> None:
        """Write a total of the channel."""
        total[[self._row, self._channel]] = x

    def scale(self, total: Operand, rate: Value) -> None:
        """Multiply a total of each channel by a number of the row."""

        def one(_: Values) -> Values:
            self.put(total, total[[self._row, self._channel]] * rate)
            return ()

        self._over_pieces(one)


def _write(row: GroupRow, eps: float, argnums: Sequence[int]) -> None:
    """Write the gradient of x, and what each channel has of those of weight and bias."""
    (of_g, of_x), k, spread = row.sources, row.k, row.spread
    mean = row.mean(of_x)

    def centred(at: At) -> Value:
        return of_x(at) - spread(mean, at)

    def terms(at: At) -> Values:
        y, g = centred(at), of_g(at)
        return y * y, g, g * y

    kept = dict(zip([n for n in argnums if n], row.totals, strict=True))

    def take(of_channel: Values, before: Values) -> Values:
        square, total, product = of_channel
        for n, x in ((1, product), (2, total)):
            if n in kept:
                row.put(kept[n], x)
        terms = (square, row.weighted(total), row.weighted(product))
        return [x + y for x, y in zip(before, terms, strict=True)]

    zero = row.b.const(0, mean.type)
    totals = row.sum_pieces(3, terms, take, [zero] * 3)
    variance, shift, pull = (x * (1.0 / row.length) for x in totals)
    rate = k.rsqrt(variance + eps)
    pull = pull * rate * rate

    def write(at: At) -> None:
        found = row.weighted(of_g(at)) - spread(shift, at) - centred(at) * spread(pull, at)
        row.targets[0](at, found * spread(rate, at))

    if row.targets:
        row.write(write, is_light=True)
    if 1 in kept:
        row.scale(kept[1], rate)


# ---- launching ----


def sizes_of(shape: Shape, num_groups: int) -> tuple[int, int, int]:
    """Return the rows of (N, C, ...), the channels of each, and their size."""
    n, c, *rest = shape
    return n * num_groups, c // num_groups, element_count(rest)


def has_long_channels(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether channels are worth sums of their own."""
    x = inputs[1]
    assert isinstance(x, CubeTensor)
    return machine.kind == "cpu" and x.type.size > 0 and element_count(x.shape[2:]) >= LEAST_SIZE


def _in_pieces(launcher: Launcher, x: CubeTensor, shape: Shape) -> CubeTensor:
    """Return a tensor as (rows, channels, size), in which a channel lies in one piece.

    A cotangent that is one number all along a channel, as of a mean over it, stays so.  All others
    are copied: of every second element one pass takes as long as all of a copy's.
    """
    found = x.reshaped(shape)
    if found is None or found.strides[2] not in (0, 1):
        return flattened(launcher, contiguous(launcher, x), shape)
    return found


@lowers(
    "group_norm_backward", when=has_long_channels,
    why="cpu: sums of a channel are taken while its group is gone over",
)  # fmt: skip
def group_norm_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradients that were asked for; those of weight and bias are summed over samples after."""
    g, x, weight = inputs
    argnums, compute = tuple(attrs["argnums"]), x.dtype.compute
    types = dict(zip(argnums, out, strict=True))
    rows, channels, size = sizes_of(x.shape, attrs["num_groups"])
    shape = (rows, channels, size)
    sources = [_in_pieces(launcher, t, shape) for t in (g, x)]
    found = {0: launcher.empty(types[0])} if 0 in types else {}
    targets = [flattened(launcher, t, shape) for t in found.values()]
    totals = {n: launcher.empty(TensorType(shape[:2], compute)) for n in argnums if n}
    config = select_in_pieces(channels, size, compute, launcher.machine)

    def layout(t: CubeTensor) -> Layout:
        return row_layout(t, config.width, launcher.machine)

    of_g, of_x = map(layout, sources)
    groups = Groups(
        (of_g, of_x), None if weight is None else layout(weight),
        layout(targets[0]) if targets else None, tuple(map(layout, totals.values())),
        x.shape[0], attrs["num_groups"], channels, size,
    )  # fmt: skip

    def write(of: Groups, config: RowsConfig, grid: int) -> GroupRow:
        row = GroupRow(op.name, of, config, grid)
        row.run(lambda _: _write(row, attrs["eps"], argnums))
        return row

    operands = [*sources, *targets, *([] if weight is None else [weight]), *totals.values()]
    bindings = [b for t in operands for b in bindings_of(t)]
    problem = RowProblem(groups, compute, rows, channels * size)
    fused = Fused(body=Body(op.name, (op.name, attrs["eps"], argnums), write))
    launch(launcher, ROWS, problem, bindings, config=config, fused=fused)
    for n, total in totals.items():
        by_sample = flattened(launcher, total, x.shape[:2])
        found[n] = reduce_axes(launcher, sum_of(compute), by_sample, (0,), types[n])
    return [found[n] for n in argnums]
