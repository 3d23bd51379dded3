"""The border of convolutions, where a number that is not finite would be multiplied by padding.

Kernels read zeros where a window stands out of its tensor, and 0 times an infinite weight is NaN.
Padding is no element, so after the product those outputs are added up again that meet padding and
are NaN: by the definition, over the elements that there are (docs/design/0025).

That nothing is to be done is found by few loads.  GPUs read the outputs at the border, each by an
invocation.  CPUs read by vectors the factor that padding meets, or the result, whichever is less:
what is finite in either has not been multiplied wrongly.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pyrite.backend.cube.launcher import Foresee, Launcher
from pyrite.backend.cube.lowering.convolution_terms import Look, Sums, border_size, boxes
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    layout_of,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.skeleton.finish import ALONE, Around, Finish, bindings_around
from pyrite.backend.cube.skeleton.protocol import Stage
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import all_extents, extent
from pyrite.kernel.ir import WIDTHS, Access, scalar, vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.polyfill.floats import FORMATS, any_of, isnan, magnitude
from pyrite.kernel.template.index import Index, plus

# ---- the kernel ----


@dataclass(frozen=True, slots=True)
class BorderConfig:
    """How outputs that must be mended are found: ``channels`` by a workgroup, by vectors.

    With 0 channels each output at the border has its own invocation.
    """

    look: Look
    channels: int = extent(default=0)
    width: int = 1


#: Invocations of a workgroup where each output has its own.
_SIZE: Final = 64

#: Rounds after which Mesa's llvmpipe silently ends all loops of an invocation.
_MOST_ROUNDS: Final = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class _Problem:
    """All that a kernel depends on; ``size`` is how many elements there are of what is looked at.

    ``layouts`` are of the factors, and of what is written: out, or what the stage makes of it.
    """

    sums: Sums
    layouts: tuple[Layout, ...]
    config: BorderConfig
    stage: Stage | None
    has_out: bool
    size: int = extent()


class _Border:
    """The kernel while it is being written: outputs that are NaN are added up again."""

    def __init__(self, problem: _Problem, grid: int) -> None:
        p = problem
        workgroup = 1 if p.config.channels else _SIZE
        self.b = KernelBuilder("convolution_border", workgroup_size=workgroup, grid=grid)
        left, right, *outs = p.layouts
        self.sums, self.config, self.size = p.sums, p.config, p.size
        self.left = Operand(self.b, "left", left, "read")
        self.right = Operand(self.b, "right", right, "read")
        self.finish = Finish(self.b, p.stage)
        self.has_out = p.has_out
        names = ["out", *(f"out{n}" for n in range(1, len(outs)))]
        access: Access = "read_write" if p.has_out else "write"
        self.outs = [Operand(self.b, n, of, access) for n, of in zip(names, outs, strict=True)]
        self.boxes = boxes(p.sums.edges)
        self.count = border_size(p.sums)

    def build(self) -> Kernel:
        """Return it."""
        if self.config.channels:
            self.write_channels()
        else:
            self.write_output(invocation_of(self.b))
        return self.b.build()

    def write_output(self, number: Value) -> None:
        shape = (*self.sums.leading, self.count)
        with self.b.if_(number < prod(shape)):
            first, second, place = unravel(self.b, number, shape)
            self.mend([first, second], place)

    def write_channels(self) -> None:
        b, channels = self.b, self.sums.leading[self.sums.channel]
        first = workgroup_of(b) * self.config.channels
        end = b.min(first + self.config.channels, channels)
        with b.if_(self.is_suspect(first, end), is_rare=True):
            self.write_outputs(first, end)

    def write_outputs(self, first: Value, end: Value) -> None:
        b, others = self.b, self.sums.leading[1 - self.sums.channel]
        with b.for_(first, end) as channel, b.for_(0, others) as other:
            leading: list[Index] = [other.index, channel.index]
            if self.sums.channel == 0:
                leading.reverse()
            with b.for_(0, self.count) as loop:
                self.mend(leading, loop.index)

    def is_suspect(self, first: Value, end: Value) -> Value:
        """Whether anything of what is looked at is not finite."""
        b, look = self.b, self.config.look
        source = self.outs[0] if look == "rows of out" else self.right
        format = FORMATS[source.layout.dtype.compute]
        nothing = b.const(0, vector(format.bits, self.config.width))
        if look == "factor":
            worst = self.worst_of(source, b.index(0), b.index(self.size), nothing)
            return any_of(b, worst >= format.infinity)
        channels, images = self.sums.leading[self.sums.channel], 1
        if look == "rows of out" and self.sums.channel == 1:
            images = self.sums.leading[0]
        row = self.size // (images * channels)
        with b.for_(0, images, carried=[nothing]) as image:
            start = image.index * channels
            low, high = (start + first) * row, (start + end) * row
            image.yield_(self.worst_of(source, low, high, image.carried[0]))
        return any_of(b, image.results[0] >= format.infinity)

    def worst_of(self, source: Operand, low: Value, high: Value, worst: Value) -> Value:
        """Return the greatest magnitude of elements from low to high, and of those before."""
        b, width = self.b, self.config.width

        def found(first: Value) -> Value:
            # The last vectors read some elements twice.
            place = b.min(first, high - width)
            if source.offset is not None:
                place = place + source.offset
            x = b.cast(source.memory.load(place, width=width), source.layout.dtype.compute)
            return magnitude(b, x)

        with b.for_(low, high, step=4 * width, carried=[worst]) as loop:
            first, *more = (found(loop.index + n * width) for n in range(4))
            for x in more:
                first = b.max(first, x)
            loop.yield_(b.max(loop.carried[0], first))
        return loop.results[0]

    def position(self, number: Index) -> list[Index]:
        """Return where an element of the border is."""
        b, n = self.b, self.b.index(number)
        found: list[Index] = []
        start = self.count
        for box in reversed(self.boxes):
            counts = [run.count for run in box]
            start, end = start - prod(counts), start
            inside = unravel(b, n - start if start else n, counts)
            at = [run.at(b, i) for run, i in zip(box, inside, strict=True)]
            if not found:
                found = at
                continue
            pairs = zip(at, found, strict=True)
            found = [b.select(n < end, b.index(x), b.index(y)) for x, y in pairs]
        return found

    def mend(self, leading: list[Index], number: Index) -> None:
        at = [*leading, *self.position(number)]
        with self.b.if_(self.is_wrong(at), is_rare=True):
            for out, value in zip(self.outs, self.finish(self.total(at), at), strict=True):
                out.store(out.at(at), value)

    def is_wrong(self, at: Sequence[Index]) -> Value:
        """Whether an output is NaN; where its sum is not written, whether that must be.

        It is where padding was multiplied by what is not finite.
        """
        b = self.b
        if self.has_out:
            (out,) = self.outs
            return isnan(b, out.load(out.at(at)))
        format = FORMATS[self.right.layout.dtype.compute]
        worst = b.const(0, scalar(format.bits))
        with b.for_(0, prod(self.sums.terms), carried=[worst]) as loop:
            term = self.sums.term(b, at, unravel(b, loop.index, self.sums.terms))
            found = magnitude(b, self.right.load(self.right.at(term.right)))
            (before,) = loop.carried
            loop.yield_(b.select(term.exists, before, b.max(before, found)))
        return loop.results[0] >= format.infinity

    def total(self, at: Sequence[Index]) -> Value:
        """Add up an output, until it is NaN."""
        b, count = self.b, prod(self.sums.terms)
        each = 1 if self.config.channels else -(-count // _MOST_ROUNDS)
        with b.while_([b.index(0), self.left.const(0)]) as loop:
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
    launcher: Launcher, sums: Sums, left: CubeTensor, right: CubeTensor, out: CubeTensor,
    around: Around = ALONE,
) -> None:  # fmt: skip
    """Add up again what is NaN in out because its factors were multiplied by padding.

    What is ``around`` the sums is applied to them; if that writes outputs, nobody has out.
    """
    if not out.dtype.is_float or not boxes(sums.edges):
        return
    has_out = not around.outputs
    outs = around.outputs or (out,)
    layouts = tuple(layout_of(t) for t in (left, right, *outs))

    def problem_of(config: BorderConfig) -> _Problem:
        size = out.type.size if config.look == "rows of out" else right.type.size
        return _Problem(sums, layouts, config, around.fused.epilogue, has_out, size)

    config, *others = candidates(launcher.machine, sums, right, out, has_out=has_out)
    bindings = [*bindings_of(left), *bindings_of(right), *bindings_around(around.sources, outs)]
    launcher.launch_for(problem_of(config), _KEY, _built, bindings, workgroups(sums, config))
    for other in others:
        _foresee(launcher, problem_of(other), len(launcher.machine.grid(workgroups(sums, other))))


_KEY: Final = "convolution border"


def _built(problem: _Problem, grid: int) -> Kernel:
    return _Border(problem, grid).build()


def _foresee(launcher: Launcher, problem: _Problem, axes: int) -> None:
    """Have a kernel compiled ahead that looks at what is less to read at other sizes."""

    def other() -> tuple[Hashable, Foresee]:
        def compile(launcher: Launcher) -> None:
            launcher.member(problem, _KEY, _built, axes)

        return (_KEY, all_extents(problem)[0]), compile

    launcher.compile_other_class(other)


def takes_epilogue(machine: Machine, sums: Sums, right: CubeTensor) -> bool:
    """Whether what must be mended is known by the right factor alone, or nothing must be."""
    if not right.dtype.is_float or not boxes(sums.edges):
        return True
    return machine.kind == "cpu" and right.is_contiguous


def workgroups(sums: Sums, config: BorderConfig) -> int:
    """Return how many workgroups look at the border."""
    if config.channels:
        return -(-sums.leading[sums.channel] // config.channels)
    return -(-prod(sums.leading) * border_size(sums) // _SIZE)


#: Nanoseconds in which a CPU looks at a vector, and those for which another thread is woken.
_VECTOR, _WORTHWHILE = 0.5, 10_000


def candidates(
    machine: Machine, sums: Sums, right: CubeTensor, out: CubeTensor, *, has_out: bool = True
) -> list[BorderConfig]:
    """Return how the border may be looked at: first by the fewest loads.

    Unless it ``has_out``, that is not in memory.
    """
    if machine.kind == "gpu":
        return [BorderConfig("outputs")]
    channels = sums.leading[sums.channel]
    found = []
    for look in sums.looks:
        if look == "rows of out" and not has_out:
            continue
        x = out if look == "rows of out" else right
        rows = {"factor": 1, "factor's rows": channels, "rows of out": prod(sums.leading)}[look]
        if sums.channel == 0 and look == "rows of out":
            rows = channels
        most = min(x.type.size // rows, machine.vector_bytes // x.dtype.compute.itemsize)
        width = max(w for w in WIDTHS if w <= most)
        if x.is_contiguous:
            found.append((_VECTOR * x.type.size / width, BorderConfig(look, channels, width)))
    found.sort(key=lambda pair: pair[0])
    worthwhile = range(2, machine.threads + 1)
    shares = [1 + sum(cost >= n * _WORTHWHILE for n in worthwhile) for cost, _ in found]
    return [
        replace(config, channels=-(-channels // threads))
        for (_, config), threads in zip(found, shares, strict=True)
    ]
