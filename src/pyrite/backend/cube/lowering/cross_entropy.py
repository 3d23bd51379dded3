"""Cross-entropy with class indices, and its gradient: one kernel each, in which a sample is a row.

The target of a row is one class, so its distribution is never written: the loss is read at the
class, and the gradient is the softmax less 1 there.  Targets that are distributions run by bodies.
By hand since the mask of classes, a scatter that raises, would be written by a body: it takes 1.15
to 1.45 of the time on `cpu` for rows of 10 to 50,257, its gradient 1.02 to 1.18.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton import numbered_rows
from pyrite.backend.cube.skeleton.copy import contiguous
from pyrite.backend.cube.skeleton.each import as_index
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.numbered_rows import (
    NumberedRow,
    Operands,
    for_numbered_rows,
)
from pyrite.backend.cube.skeleton.row import (
    At,
    Make,
    RowsConfig,
    Values,
    as_rows,
    from_rows,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import vector
from pyrite.op import Attributes, Op
from pyrite.types import DType, TensorType, bool_, float32

#: Why these are not bodies.
WHY = "the mask of classes is a scatter, which a body writes to memory"


def select(classes: int, dtype: DType, machine: Machine) -> RowsConfig:
    """Return a config for rows of so many classes; many lanes share a long one.

    So few rows are under way that most are found in a cache when they are read again: gradients
    of 8192 x 50,257 take 1.3 ms on an H200 with 1024 lanes, 1.6 with 512 and 2.0 with 256.
    """
    found = numbered_rows.select(classes, dtype, machine)
    lanes = min(machine.invocations, _MOST_LANES)
    if machine.kind == "cpu" or classes < _TIMES * lanes * found.width or lanes <= found.lanes:
        return found
    return replace(found, workgroup_size=lanes, lanes=lanes)


_MOST_LANES: Final = 1024
#: Vectors of each lane, of a row that is long.
_TIMES: Final = 16


# ---- the kernel ----


@dataclass(frozen=True, slots=True)
class Problem:
    """What the distribution of a row depends on, besides the index."""

    smoothing: float
    ignored: tuple[int, ...]
    has_weight: bool
    rows: int = extent()
    classes: int = extent()

    @property
    def share(self) -> float:
        """What smoothing gives to each class."""
        return self.smoothing / self.classes if self.smoothing else 0.0

    @property
    def peak(self) -> float:
        """What the target has besides."""
        return 1.0 - self.smoothing


class SampleRow:
    """One sample, inside the kernel: its logits and its target; number 0 is the index."""

    def __init__(self, row: NumberedRow, problem: Problem) -> None:
        self.row, self.problem = row, problem
        self.b, self.k = row.b, row.k
        target = row.number(0)
        inside, self.index = as_index(self.b, target, problem.classes, from_end=False)
        is_ignored = self.b.const(False, bool_)
        lowest, highest = int(target.dtype.lowest), int(target.dtype.highest)
        for index in problem.ignored:
            if lowest <= index <= highest:
                is_ignored = is_ignored | (target == index)
        row.fail(~inside & ~is_ignored)
        #: Whether it counts.
        self.counts = inside & ~is_ignored
        self._there = At(self.index, 1)
        self.logits = row.sources[0]
        #: Whether a row takes long to read again, and powers are a device's own.
        self.is_long = row.config.lanes > 1 and not row.config.keeps
        self.has_exp2 = row.config.lanes > 1 and row.dtype is float32
        self._total: Value | None = None
        if self.is_long:
            self.shift, self._total = self._at_once()
        else:
            self.shift = row.largest(self.logits)

    def weight(self, at: At) -> Value:
        """Return the weights of classes."""
        if self.problem.has_weight:
            return self.row.sources[1](at)
        return self.b.const(1, vector(self.row.dtype, at.width))

    def _at_once(self) -> tuple[Value, Value]:
        """Return the greatest logit, and the sum of powers, of one pass over the row.

        Source: Milakov & Gimelshein 2018, arXiv:1805.02867.
        """
        row, b, dtype = self.row, self.b, self.row.dtype

        def join(xs: Values, ys: Values) -> Values:
            (x, of_x), (y, of_y) = xs, ys
            most = b.max(x, y)
            return [most, of_x * self.exp(x - most) + of_y * self.exp(y - most)]

        def make(at: At) -> Values:
            return [self.logits(at), b.const(1, vector(dtype, at.width))]

        # A number that is less than all: nothing less nothing is 0, and not NaN.
        least = float(np.finfo(dtype.numpy).min)
        shift, total = row.fold([(least, dtype), (0, dtype)], join, make)
        return shift, total

    def exp(self, x: Value) -> Value:
        """Return e ** x."""
        if self.has_exp2:
            return self.b.exp2(x * (1.0 / math.log(2.0)))
        return self.k.exp(x)

    def total(self, power: Make) -> Value:
        """Return the sum of the powers."""
        return self.row.sum(power) if self._total is None else self._total

    def power(self, at: At) -> Value:
        """Return e to the logits less their greatest."""
        return self.exp(self.logits(at) - self.row.spread(self.shift, at))

    def surprise(self, logarithm: Value) -> Make:
        """Return what makes -log of the probabilities, of the logarithm of the sum of powers.

        Logits may be large beside that, so their greatest is taken off them first.
        """
        row = self.row
        return lambda at: row.spread(logarithm, at) + (row.spread(self.shift, at) - self.logits(at))

    def target(self, at: At) -> Value:
        """Return the probabilities that the target gives to classes; 0 where it is ignored."""
        b, dtype, problem = self.b, self.row.dtype, self.problem
        places = at.first if at.width == 1 else at.first + iota(b, at.width)
        kind = vector(dtype, at.width)
        rest = b.const(problem.share, kind)
        is_class = places == self.row.spread(self.index, at)
        found = b.select(is_class, b.const(problem.peak + problem.share, kind), rest)
        return b.select(self.row.spread(self.counts, at), found, b.const(0, kind))

    def at_target(self) -> tuple[Value, Value]:
        """Return the logit and the weight of the class that is the target."""
        return self.logits(self._there), self.weight(self._there)


def _loss(sample: SampleRow) -> Value:
    """Return the loss; a class of weight 0 adds nothing, also where its probability is 0."""
    row, b, problem = sample.row, sample.b, sample.problem
    logarithm = sample.k.log(sample.total(sample.power))
    zero = b.const(0, vector(row.dtype, 1))

    def term(share: float, weight: Value, surprise: Value) -> Value:
        nothing = b.const(0, vector(row.dtype, weight.width))
        return b.select(weight == nothing, nothing, weight * surprise * share)

    found = zero
    if problem.peak:
        logit, weight = sample.at_target()
        found = term(problem.peak, weight, logarithm + (sample.shift - logit))
    if problem.share:
        surprise = sample.surprise(logarithm)
        found = found + row.sum(lambda at: term(problem.share, sample.weight(at), surprise(at)))
    return b.select(sample.counts, found, zero)


def _totals(sample: SampleRow, power: Make) -> tuple[Value, Value]:
    """Return the sums over a row of the powers, and of the target's probabilities by weight."""
    row, b = sample.row, sample.b
    if sample.problem.smoothing and not sample.is_long:
        both = row.totals(2, lambda at: (power(at), sample.target(at) * sample.weight(at)))
        return both[0], both[1]
    if sample.problem.smoothing:
        return sample.total(power), row.sum(lambda at: sample.target(at) * sample.weight(at))
    # The target is one class: its probability is not looked for along the row.
    _, weight = sample.at_target()
    return sample.total(power), b.select(sample.counts, weight, b.const(0, weight.type))


def _write_gradients(sample: SampleRow, argnums: Sequence[int]) -> None:
    """Write those of the logits and, of each sample, of the weights; number 1 is g."""
    row = sample.row
    g = row.number(1)
    first, again = row.kept(sample.power)
    power, total = _totals(sample, first)
    scale, surprise = total / power, sample.surprise(sample.k.log(power))

    def of_logits(at: At) -> Value:
        coefficients = sample.target(at) * sample.weight(at)
        return row.spread(g, at) * (again(at) * row.spread(scale, at) - coefficients)

    def of_weight(at: At) -> Value:
        return row.spread(g, at) * sample.target(at) * surprise(at)

    row.write_values(lambda at: [of_logits(at) if n == 0 else of_weight(at) for n in argnums])


# ---- launching ----


def no_class(classes: int) -> str:
    """Return the error of an index that is no class."""
    return (
        f"cross_entropy requires targets 0 <= index < {classes}, the number of classes, got one "
        "outside; mark samples without a target by ignore_index"
    )


def _has_indices(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether the targets, which come after the logits, are classes, and there are elements."""
    tensors = [i for i in inputs if isinstance(i, CubeTensor)]
    return any(t.dtype.is_integer for t in tensors) and all(t.type.size > 0 for t in tensors)


def _launch(
    launcher: Launcher,
    op: Op,
    attrs: Attributes,
    logits: CubeTensor,
    weight: CubeTensor | None,
    numbers: Sequence[CubeTensor],
    targets: Sequence[CubeTensor],
    results: Sequence[CubeTensor],
) -> None:
    """Run the kernel of an op over rows of logits."""
    rows, classes = logits.shape
    problem = Problem(
        attrs["label_smoothing"], attrs["ignore_index"], weight is not None, rows, classes
    )
    config = select(classes, logits.dtype.compute, launcher.machine)
    sources = [logits, *([] if weight is None else [contiguous(launcher, weight)])]
    argnums = attrs.get("argnums", ())

    def make(of: Problem, *given: Any) -> NumberedRow:
        return NumberedRow(op.name, of.rows, of.classes, *given, can_fail=True)

    def body(row: NumberedRow, of: Problem) -> None:
        sample = SampleRow(row, of)
        if results:
            row.result(0, _loss(sample))
        else:
            _write_gradients(sample, argnums)

    for_numbered_rows(
        launcher, op.name, argnums, problem, rows,
        Operands(sources, targets, numbers, results), make, body, config, no_class(classes),
    )  # fmt: skip


def _numbers(launcher: Launcher, x: CubeTensor) -> CubeTensor:
    """Return a tensor of one number for each row as a vector."""
    flat = x.reshaped((x.type.size,))
    if flat is None:
        flat = contiguous(launcher, x).reshaped((x.type.size,))
    assert flat is not None, "what has no gaps has any shape"
    return flat


@lowers("cross_entropy", why=WHY, when=_has_indices)
def cross_entropy(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Minus the logarithm of the softmax at the target, for each sample."""
    x, indices, weight = inputs
    logits = as_rows(launcher, x, (attrs["axis"],))
    losses = launcher.empty(out[0])
    _launch(
        launcher, op, attrs, logits, weight,
        [_numbers(launcher, indices)], [], [_numbers(launcher, losses)],
    )  # fmt: skip
    return [losses]


@lowers("cross_entropy_backward", why=WHY, when=_has_indices)
def cross_entropy_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """g times the softmax less the target; that of the weights is summed over samples."""
    g, x, indices, weight = inputs
    axes, compute = (attrs["axis"],), x.dtype.compute
    logits = as_rows(launcher, x, axes)
    dtypes = [x.dtype if n == 0 else compute for n in attrs["argnums"]]
    targets = [launcher.empty(TensorType(logits.shape, dtype)) for dtype in dtypes]
    numbers = [_numbers(launcher, t) for t in (indices, g)]
    _launch(launcher, op, attrs, logits, weight, numbers, targets, [])
    return [
        from_rows(target, x.shape, axes) if n == 0
        else reduce_axes(launcher, sum_of(compute), target, (0,), type)
        for n, target, type in zip(attrs["argnums"], targets, out, strict=True)
    ]  # fmt: skip
