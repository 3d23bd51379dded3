"""The border of convolutions, where a number that is not finite would be multiplied by padding.

Kernels read zeros where a window stands out of its tensor, and 0 times an infinite weight is NaN.
Padding is no element, so after the product those outputs are added up again that meet padding and
are NaN: by the definition, over the elements that there are (docs/design/0025).

That nothing is to be done is found by the cheapest of three looks, never by one at all operands.
GPUs read the outputs at the border, an invocation each.  CPUs read these too, or where it takes
fewer loads, by vectors, the factor that is multiplied by padding, or the whole result: what is
finite there is finite everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.convolution_terms import Look, Run, Sums, boxes
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    layout_of,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import WIDTHS, vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.polyfill.floats import FORMATS, isnan, magnitude
from pyrite.kernel.template.index import Index, plus

# ---- the kernel ----


@dataclass(frozen=True, slots=True)
class BorderConfig:
    """How outputs that must be mended are found: ``channels`` by a workgroup, by vectors or not.

    With 0 channels each output at the border has its own invocation.
    """

    look: Look
    channels: int = 0
    width: int = 1


#: Invocations of a workgroup where each output has its own.
_SIZE: Final = 64

#: Rounds after which Mesa's llvmpipe silently ends all loops of an invocation.
_MOST_ROUNDS: Final = (1 << 16) - 1


class _Border:
    """The kernel while it is being written: outputs that are NaN are added up again."""

    def __init__(
        self, sums: Sums, layouts: Sequence[Layout], size: int, config: BorderConfig, grid: int
    ) -> None:
        workgroup = 1 if config.channels else _SIZE
        self.b = KernelBuilder("convolution_border", workgroup_size=workgroup, grid=grid)
        left, right, out = layouts
        self.sums, self.config, self.size = sums, config, size
        self.left = Operand(self.b, "left", left, "read")
        self.right = Operand(self.b, "right", right, "read")
        self.out = Operand(self.b, "out", out, "read_write")
        self.boxes = boxes(sums.edges)

    def build(self) -> Kernel:
        """Return it."""
        if self.config.channels:
            self.write_channels()
        else:
            self.write_output(invocation_of(self.b))
        return self.b.build()

    def write_output(self, number: Value) -> None:
        for box in self.boxes:
            shape = (*self.sums.leading, *(run.count for run in box))
            with self.b.if_(number < prod(shape)):
                first, second, *numbers = unravel(self.b, number, shape)
                self.mend([first, second], box, numbers)

    def write_channels(self) -> None:
        b, channels = self.b, self.sums.leading[self.sums.channel]
        first = workgroup_of(b) * self.config.channels
        end = b.min(first + self.config.channels, channels)
        if self.config.look == "outputs":
            self.write_outputs(first, end)
            return
        with b.if_(self.is_suspect(first, end)):
            self.write_outputs(first, end)

    def write_outputs(self, first: Value, end: Value) -> None:
        b, others = self.b, self.sums.leading[1 - self.sums.channel]
        with b.for_(first, end) as channel, b.for_(0, others) as other:
            leading: list[Index] = [other.index, channel.index]
            if self.sums.channel == 0:
                leading.reverse()
            for box in self.boxes:
                counts = [run.count for run in box]
                with b.for_(0, prod(counts)) as loop:
                    self.mend(leading, box, unravel(b, loop.index, counts))

    def is_suspect(self, first: Value, end: Value) -> Value:
        """Whether anything of what is looked at is not finite."""
        b, width = self.b, self.config.width
        source = self.out if self.config.look == "rows of out" else self.right
        low, high = b.index(0), b.index(self.size)
        if self.config.look != "factor":
            row = self.size // self.sums.leading[self.sums.channel]
            low, high = first * row, end * row
        format = FORMATS[source.layout.dtype.compute]
        nothing = b.const(0, vector(format.bits, width))
        with b.for_(low, high, step=width, carried=[nothing]) as loop:
            # The last vector reads some elements twice.
            place = b.min(loop.index, high - width)
            if source.offset is not None:
                place = place + source.offset
            x = b.cast(source.memory.load(place, width=width), source.layout.dtype.compute)
            loop.yield_(b.max(loop.carried[0], magnitude(b, x)))
        (worst,) = loop.results
        lanes = [worst[i] for i in range(width)] if width > 1 else [worst]
        return reduce(b.max, lanes) >= format.infinity

    def mend(self, leading: list[Index], box: Sequence[Run], numbers: Sequence[Index]) -> None:
        at = [*leading, *(run.at(self.b, n) for run, n in zip(box, numbers, strict=True))]
        place = self.out.at(at)
        with self.b.if_(isnan(self.b, self.out.load(place))):
            self.out.store(place, self.total(at))

    def total(self, at: Sequence[Index]) -> Value:
        """Add up an output, until it is NaN."""
        b, count = self.b, prod(self.sums.terms)
        each = 1 if self.config.channels else -(-count // _MOST_ROUNDS)
        with b.while_([b.index(0), self.out.const(0)]) as loop:
            number, found = loop.carried
            loop.condition((number < count) & ~isnan(b, found))
            number, found = loop.carried
            for i in range(each):
                found = self.with_term(at, plus(number, i), count, found)
            loop.yield_(number + each, found)
        return loop.results[1]

    def with_term(self, at: Sequence[Index], number: Index, count: int, found: Value) -> Value:
        """Return a sum with one more term, if there is one."""
        b, n = self.b, self.b.index(number)
        term = self.sums.term(b, at, unravel(b, n, self.sums.terms))
        exists = (n >= 0) & (n < count) & term.exists
        x = self.left.load(self.left.at(term.left), mask=exists)
        y = self.right.load(self.right.at(term.right), mask=exists)
        return b.select(exists, b.fma(x, y, found), found)


# ---- its launch ----


def mend(
    launcher: Launcher, sums: Sums, left: CubeTensor, right: CubeTensor, out: CubeTensor
) -> None:
    """Add up again what is NaN in out because its factors were multiplied by padding."""
    if not out.dtype.is_float or not boxes(sums.edges):
        return
    config = select(launcher.machine, sums, right, out)
    size = out.type.size if config.look == "rows of out" else right.type.size
    layouts = [layout_of(t) for t in (left, right, out)]
    key = ("convolution border", sums, *layouts, config)
    bindings = [b for t in (left, right, out) for b in bindings_of(t)]
    launcher.launch(
        key, lambda grid: _Border(sums, layouts, size, config, grid).build(), bindings,
        workgroups(sums, config),
    )  # fmt: skip


def workgroups(sums: Sums, config: BorderConfig) -> int:
    """Return how many workgroups look at the border."""
    if config.channels:
        return -(-sums.leading[sums.channel] // config.channels)
    most = max(prod(run.count for run in box) for box in boxes(sums.edges))
    return -(-prod(sums.leading) * most // _SIZE)


#: Nanoseconds in which a CPU looks at an output, and at a vector.
_OUTPUT, _VECTOR = 4.0, 0.5
#: Nanoseconds of work for which another thread is woken.
_WORTHWHILE: Final = 10_000


def select(machine: Machine, sums: Sums, right: CubeTensor, out: CubeTensor) -> BorderConfig:
    """Return how the border is looked at: by the fewest loads."""
    if machine.kind == "gpu":
        return BorderConfig("outputs")
    channels = sums.leading[sums.channel]
    border = sum(prod(run.count for run in box) for box in boxes(sums.edges))
    found = [(_OUTPUT * prod(sums.leading) * border, BorderConfig("outputs", channels))]
    for look in sums.looks:
        x = out if look == "rows of out" else right
        row = x.type.size if look == "factor" else x.type.size // channels
        width = max(
            w for w in WIDTHS if w <= min(row, machine.vector_bytes // x.dtype.compute.itemsize)
        )
        if x.is_contiguous:
            found.append((_VECTOR * x.type.size / width, BorderConfig(look, channels, width)))
    cost, config = min(found, key=lambda pair: pair[0])
    threads = min(max(int(cost / _WORTHWHILE), 1), machine.threads)
    return replace(config, channels=-(-channels // threads))
