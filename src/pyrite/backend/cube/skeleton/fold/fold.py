"""A rule of the class `Fold` in kernels: what the skeletons of reductions and scans ask of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import Node, vector
from pyrite.kernel.rule_value import of_rule
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Fold
from pyrite.op.rule.fold import BoundFold, Start
from pyrite.op.rule.folds import ARGMAX, ARGMIN, MAX, MIN, PRODUCT, SUM, held
from pyrite.types import DType, bool_, int32

State = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class KernelFold:
    """A bound fold, and the name of its kernels.  A bool of its state is held as an integer.

    ``reads`` is a key of what an application's functions read (`pyrite.op.rules_key`).
    """

    name: str
    bound: BoundFold
    reads: Hashable = None

    @property
    def start(self) -> Start:
        """The state of no elements: a number and a dtype for each value."""
        return tuple((number, held(dtype)) for number, dtype in self.bound.start)

    @property
    def key(self) -> Hashable:
        """What its kernels depend on, besides the operands."""
        return self.name, self.bound.key, self.reads

    @property
    def key_of_any_count(self) -> Hashable:
        """What its kernels depend on, besides the operands and how many elements meet."""
        return self.name, self.bound.key_of_any_count, self.reads

    def ending(self, **known: Any) -> KernelFold:
        """Return it with other values, maybe of a kernel, of what its end names."""
        return replace(self, bound=self.bound.ending(**known))

    def empty(self, b: KernelBuilder, width: int) -> State:
        """Return the state of no elements."""
        return tuple(b.const(number, vector(dtype, width)) for number, dtype in self.start)

    def take(self, k: RecordingAlgebra, x: Value, position: Value) -> State:
        """Return the states of elements side by side."""
        return self._held(k, self.bound.take(k, of_rule(x), of_rule(position)), x.width)

    def join(self, k: RecordingAlgebra, s: State, t: State) -> State:
        """Return the states of the elements of two."""
        width = max(x.width for x in (*s, *t))
        return self._held(k, self.bound.join(k, self._given(k, s), self._given(k, t)), width)

    def end(self, k: RecordingAlgebra, state: State) -> State:
        """Return the results of a state."""
        width = max(x.width for x in state)
        return _spread(k.builder, self.bound.end(k, self._given(k, state)), width)

    def _held(self, k: RecordingAlgebra, values: Sequence[Value], width: int) -> State:
        """Return a rule's state as one is held."""
        pairs = zip(values, self.start, strict=True)
        return _spread(k.builder, [k.cast(x, dtype) for x, (_, dtype) in pairs], width)

    def _given(self, k: RecordingAlgebra, state: State) -> State:
        """Return a state as the rule wants it."""
        pairs = zip(state, self.bound.start, strict=True)
        return tuple(of_rule(k.cast(x, bool_) if d.is_bool else x) for x, (_, d) in pairs)


def _spread(b: KernelBuilder, values: Sequence[Value], width: int) -> State:
    """Return values as wide as others: numbers that a rule wrote are as wide as one."""
    return tuple(x if x.width == width else b.splat(x, width) for x in values)


def join_cost(fold: KernelFold) -> int:
    """Return how many instructions a join of two states takes."""
    return len(_joining(fold))


#: What gives one of its operands, whichever comes first.
_CHOICES = ("min", "max")


def joins_by_choice(fold: KernelFold) -> bool:
    """Whether a join rounds nothing: of floats it takes the one or the other."""
    return not any(
        node.kind == "alu" and node.value_type.dtype.is_float and node.attr not in _CHOICES
        for node in _joining(fold)
    )


def _joining(fold: KernelFold) -> list[Node]:
    """Return the instructions of a join of two states."""
    b = KernelBuilder("join", workgroup_size=1)
    states = [
        tuple(b.scalar(f"{side}{i}", dtype) for i, (_, dtype) in enumerate(fold.start))
        for side in "st"
    ]
    before = b.position()
    fold.join(RecordingAlgebra(b), *states)
    return list(b.body)[before:]


# ---- folds that skeletons and lowerings use themselves ----


def kernel_fold(
    name: str, rule: Fold, given: DType, /, *results: DType, **attrs: Any
) -> KernelFold:
    """Return a rule that needs no count, for inputs that are computed in a dtype."""
    return KernelFold(name, rule.of(given, results, attrs, 0))


def sum_of(dtype: DType) -> KernelFold:
    """Return the sum in a dtype."""
    return kernel_fold("sum", SUM, dtype, dtype, dtype=dtype)


def product_of(dtype: DType) -> KernelFold:
    """Return the product in a dtype."""
    return kernel_fold("prod", PRODUCT, dtype, dtype, dtype=dtype)


def extremum_of(name: str, dtype: DType) -> KernelFold:
    """Return the "max" or "min"."""
    return kernel_fold(name, MAX if name == "max" else MIN, dtype, dtype)


def position_of(name: str, dtype: DType) -> KernelFold:
    """Return the "argmax" or "argmin"."""
    return kernel_fold(name, ARGMAX if name == "argmax" else ARGMIN, dtype, int32)
