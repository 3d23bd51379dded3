"""The evaluator of each class of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.op import Attributes, Op, Rule
from pyrite.types import TensorType

#: From the arrays' functions, the rule, the inputs (arrays in the dtypes in which they are
#: computed, or None), attributes and types of results to the results.
Evaluator = Callable[
    [Arrays, Any, Sequence[Any], Attributes, tuple[TensorType, ...]], Sequence[Any]
]
E = TypeVar("E", bound=Evaluator)

#: Evaluators by class.
EVALUATORS: dict[type[Rule], Evaluator] = {}


def evaluates(rule: type[Rule]) -> Callable[[E], E]:
    """Mark a function as the evaluator of a class of rules."""

    def mark(evaluator: E) -> E:
        assert rule not in EVALUATORS, f"{rule.name} has two evaluators"
        EVALUATORS[rule] = evaluator
        return evaluator

    return mark


def evaluate(
    arrays: Arrays,
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:
    """Return the results of an op by its rule, computed in the dtypes of what it is given."""
    assert op.rule is not None
    return EVALUATORS[type(op.rule)](arrays, op.rule, inputs, attrs, out)
