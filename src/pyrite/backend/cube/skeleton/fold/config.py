"""How a reduction is shared out: the configs that are right for it, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import NEAR
from pyrite.backend.cube.skeleton.fold.order import Along, levels_of
from pyrite.kernel.choice import chosen
from pyrite.kernel.extent import VARYING, extent, varying
from pyrite.types import Shape, element_count


@dataclass(frozen=True, slots=True)
class ReductionConfig:
    """How the work is shared; see the head of this package."""

    along: Along
    workgroup_size: int = field(metadata=VARYING)
    lanes: int = field(metadata=VARYING)
    width: int
    parts: int = field(metadata=VARYING)
    vectors: int = 1
    #: Loops one inside another, of which each joins `BLOCK` states of the next.
    levels: int = varying(default=1)
    #: With an order (`order.py`): how many elements of a column are joined in a block, of which
    #: parts write a state each.
    first: int = 0
    #: What begins so early at the end of a line of outputs that it ends with it, vectors one by one
    #: or all of an invocation together: masked loads take Zen 3 several times as long.
    overlaps: Literal["", "vectors", "units"] = ""
    #: How many rows an invocation folds at once.
    abreast: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """What is reduced: sizes and strides of both sides of the input."""

    outputs: Shape = extent()
    output_strides: tuple[int, ...] = extent()
    reduced: Shape = extent()
    reduced_strides: tuple[int, ...] = extent()

    @property
    def count(self) -> int:
        """The number of outputs."""
        return element_count(self.outputs)

    @property
    def size(self) -> int:
        """How many elements meet in one output."""
        return element_count(self.reduced)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the outputs, then those of what is reduced."""
        return self.output_strides + self.reduced_strides

    def axis_along(self, config: ReductionConfig) -> int:
        """Return the axis along which the elements of a vector lie: the last of a side."""
        return len(self.outputs) - 1 if config.along == "columns" else -1

    @property
    def is_columns(self) -> bool:
        """Whether neighbours in memory belong to different outputs."""
        return bool(self.outputs) and self.output_strides[-1] == 1

    @property
    def is_near_columns(self) -> bool:
        """Whether elements near in memory belong to different outputs."""
        if not self.outputs or self.output_strides[-1] not in NEAR:
            return False
        return bool(self.reduced) and self.reduced_strides[-1] > self.output_strides[-1]


def candidates(problem: Problem, machine: Machine) -> tuple[ReductionConfig, ...]:
    """Return the configs that are right for a problem."""
    found = [
        config
        for along in ("columns", "rows")
        for width in _widths_along(along, problem, machine)
        for config in _of_width(along, width, problem, machine)
    ]
    return tuple([_overlapping(problem, _levelled(problem, c), machine) for c in found])


def _widths_along(along: Along, problem: Problem, machine: Machine) -> list[int]:
    """Return the widths of vectors along a side, the greatest first."""
    # GPUs test masks lane by lane, so there a vector ends no later than a row of outputs.
    is_gpu = machine.kind == "gpu"
    near = 1 if is_gpu else NEAR[-1]
    if along == "rows":
        is_exact = len(problem.reduced) > 1
        return _widths(problem.reduced, problem.reduced_strides, is_exact=is_exact, near=near)
    return _widths(problem.outputs, problem.output_strides, is_exact=is_gpu, near=near)


def _of_width(
    along: Along, width: int, problem: Problem, machine: Machine
) -> list[ReductionConfig]:
    """Return the configs for vectors of a width, each with one loop."""
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    shared = [(small, 1), *((sizes[0], lanes) for lanes in LANES if lanes <= sizes[0])]
    parts = [p for p in PARTS if p == 1 or p * 4 <= problem.size]

    def fits(lanes: int, p: int, v: int) -> bool:
        if v == 1:
            return True
        if along == "rows":
            return _may_go_together(problem, lanes, p, v * lanes * width)
        return _fits(problem.outputs, v * width, is_exact=machine.kind == "gpu")

    found = [
        ReductionConfig(along, size, lanes, width, p, v)
        for size, lanes in shared
        for p in parts
        for v in VECTORS
        if fits(lanes, p, v)
    ]
    if machine.kind == "gpu" or along == "columns":
        return found
    alone = [c for c in found if c.lanes == c.parts == c.vectors == 1]
    return found + [replace(c, abreast=ABREAST) for c in alone]


#: How many rows a processor folds at once, from beyond its nearer caches.
ABREAST: Final = 4


#: The most lines of which tiles are turned.
MOST_TURNED: Final = 8


@chosen(4096)
def ordered_columns(problem: Problem, machine: Machine, values: int, first: int) -> ReductionConfig:
    """Return a config along columns in the order of a processor, ``first`` in each block."""
    most = machine.vector
    outputs, strides = problem.outputs, problem.output_strides
    # Vectors of lines that are turned: each is the next of its own line the next time.
    is_turned = bool(outputs) and strides[-1] not in (0, 1) and problem.reduced_strides == (1,)
    if is_turned:
        # Of a wider tile the addresses of lines alone are more than there are registers for.
        most = min(most, MOST_TURNED)
    elif problem.count * problem.size >= machine.cached:
        most = max(most // 2, 1)
    widths = _widths(outputs, (0,) * len(strides), is_exact=False)
    width = next(w for w in widths if w <= most)
    fitting = _of_width("columns", width, problem, machine)
    chosen = _for_cpu(
        problem, fitting, 1 if is_turned else machine.vector // values, machine.threads
    )
    blocks = -(-problem.size // first)
    parts = max([p for p in PARTS if p <= min(chosen.parts, blocks)], default=1)
    levels = levels_of(problem.size, first)
    return _overlapping(problem, replace(chosen, parts=parts, levels=levels, first=first), machine)


def _overlapping(problem: Problem, config: ReductionConfig, machine: Machine) -> ReductionConfig:
    """Return a config whose last vectors of a line overlap, where processors would mask them."""
    if machine.kind == "gpu" or config.along == "rows" or config.width == 1:
        return config
    last, width = problem.outputs[-1], config.width
    if last < width:
        return config
    return replace(config, overlaps="units" if last >= width * config.vectors else "vectors")


def units(problem: Problem, config: ReductionConfig) -> int:
    """Return the number of outputs, or groups of neighbouring ones that are folded at once."""
    if config.along == "rows" or not problem.outputs:
        return -(-problem.count // config.abreast) if config.abreast > 1 else problem.count
    together = config.width * config.vectors
    return element_count(problem.outputs[:-1]) * -(-problem.outputs[-1] // together)


#: How many invocations may share an output, in how many parts the reduced side may be cut, and how
#: many vectors may go side by side.
LANES = (8, 32, 256)
PARTS = (1, 4, 16, 64, 256, 1024)
VECTORS = (1, 4, 16)


#: How many steps are taken into one state before it is joined with those of the blocks before, of
#: folds of more than four blocks.  Each of n equal float32 that are added one after the other costs
#: half a rounding, all in one direction: 6e-4 for 15,000, 4e-6 in blocks.
BLOCK: Final = 128


def _levelled(problem: Problem, config: ReductionConfig) -> ReductionConfig:
    """Return a config with as many loops one inside another as no state takes in many more."""
    step = config.lanes * config.parts
    if config.along == "rows":
        step *= config.width * config.vectors
    levels, blocks = 1, problem.size // step
    while blocks > 4 * BLOCK:
        levels, blocks = levels + 1, blocks // BLOCK
    return config if levels == 1 else replace(config, levels=levels)


def _fits(outputs: Shape, together: int, *, is_exact: bool) -> bool:
    """Whether so many neighbouring outputs are folded at once, not too many of them in vain."""
    if not outputs:
        return False
    return outputs[-1] % together == 0 if is_exact else 4 * together < 5 * outputs[-1]


def _may_go_together(problem: Problem, lanes: int, parts: int, step: int) -> bool:
    """Whether several vectors may go side by side: one lane takes what is left one by one."""
    if len(problem.reduced) > 1:
        return False
    return problem.size >= parts * step if lanes == 1 else problem.size % (parts * step) == 0


def _widths(shape: Shape, strides: tuple[int, ...], *, is_exact: bool, near: int = 1) -> list[int]:
    """Return the widths of vectors along a side, whose rows may end in a masked vector.

    Elements are at most ``near`` apart.  One element that stands for all is a vector too: else a
    sum of them would be taken one by one, and be off by a rounding, always in one direction, for
    each.
    """
    if not shape or not 0 <= strides[-1] <= near:
        return [1]
    return [
        w for w in (16, 8, 4, 2, 1)
        if (w < 2 * shape[-1] and not is_exact) or shape[-1] % w == 0
    ]  # fmt: skip


@chosen(4096)
def select(problem: Problem, machine: Machine, values: int = 1) -> ReductionConfig:
    """Return a config: along the side whose elements are neighbours; in parts for few outputs.

    ``values`` is how many numbers a state has.
    """
    is_column = problem.is_columns or (machine.kind == "cpu" and problem.is_near_columns)
    along: Along = "columns" if is_column else "rows"
    # From beyond the nearer caches processors fetch the next lines by themselves, and sooner if two
    # vectors share a line: medians of sums are some 6 % less.
    # Of several rows at once they fetch several lines: maxima of rows of 4,096 are a third less.
    is_far = machine.kind == "cpu" and problem.count * problem.size >= machine.cached
    is_abreast = (
        is_far and not is_column and problem.count >= _INVOCATIONS * machine.threads * ABREAST
    )
    is_far = is_far and not is_abreast
    most = max(machine.vector // 2, 1) if is_far else machine.vector
    widest = next(w for w in _widths_along(along, problem, machine) if w <= most)
    fitting = _of_width(along, widest, problem, machine)
    if machine.kind == "gpu":
        chosen = _for_gpu(problem, fitting, machine.busy)
    else:
        vectors = machine.vector // values if is_column or (is_far and values == 1) else 4
        chosen = _for_cpu(problem, fitting, vectors, machine.threads)
        if is_abreast and chosen.parts == 1:
            chosen = next(c for c in fitting if c.abreast > 1)
    return _overlapping(problem, _levelled(problem, chosen), machine)


def _for_cpu(
    problem: Problem, fitting: Sequence[ReductionConfig], most: int, threads: int
) -> ReductionConfig:
    """Whole lines of columns, as the states fit in registers; four sums hide their latency."""
    fitting = [c for c in fitting if c.lanes == 1]
    vectors = max(c.vectors for c in fitting if c.vectors <= max(most, 1))
    fitting = [c for c in fitting if c.vectors == vectors]
    # Enough invocations to occupy all threads, as long as each has a thousand elements to fold.
    at_work = max(1, units(problem, fitting[0]))
    wanted = min(_INVOCATIONS * threads // at_work, problem.size // 1024)
    return max((c for c in fitting if c.parts <= max(wanted, 1)), key=lambda c: c.parts)


#: How many invocations a thread of a processor has at least, so that it ends with the others.
_INVOCATIONS: Final = 8

#: Vectors of 16 bytes that each invocation of a GPU has at least to read: on an H200 fewer leave
#: its memory idle (benchmarks/gpu_bandwidth.py).
_LEAST = 4


def _for_gpu(problem: Problem, fitting: Sequence[ReductionConfig], busy: int) -> ReductionConfig:
    """Lanes that read neighbours: along a row, or 32 vectors of columns by 8 lanes."""
    is_column, width = fitting[0].along == "columns", fitting[0].width
    units = problem.count // (width if is_column else 1)
    steps = problem.size // (1 if is_column else width)
    lanes = max(256 // units if is_column else steps // _LEAST, 8)
    fitting = [c for c in fitting if c.vectors == 1 and c.lanes <= max(min(lanes, steps), 1)]
    lanes = max(c.lanes for c in fitting)
    wanted = min(busy // (units * lanes), steps // (_LEAST * lanes))
    fitting = [c for c in fitting if c.lanes == lanes and c.parts <= max(wanted, 1)]
    return max(fitting, key=lambda c: c.parts)
