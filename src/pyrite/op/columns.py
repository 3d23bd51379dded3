"""Several calls of an op that were planned before, looked up column by column.

A step of an optimiser is as many calls as a model has parameters, whose first inputs are tensors,
and so on: what is asked of each input is asked of a column of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final

from pyrite.op.plan import NUMBERS, Form
from pyrite.op.record import Constant, Executor, Handle, Op, Plan, TensorBase
from pyrite.types import TensorType

Row = tuple[Sequence[Handle], Plan]

#: What returns the rows of `known_rows` in less time, for an op, a list of inputs, the form of its
#: attributes, and a backend; None where it cannot.  Who has some puts it here.
faster: Final[list[Callable[..., list[Row] | None]]] = []


def known_rows(
    op: Op, calls: Sequence[Sequence[Any]], form: Form | None
) -> tuple[type[TensorBase], Executor, list[Row]] | None:
    """Return class and backend of calls, and handles and plan of each; see `plan.known`.

    None where one is to be planned, cast or lifted, where devices differ, where a launch gives
    numbers of attributes, and where inputs of one position are not all tensors, numbers of one
    class, or None.
    """
    if form is None or not calls:
        return None
    lead = next((x for x in calls[0] if isinstance(x, TensorBase)), None)
    if lead is None:
        return None
    backend = lead._backend
    rows = faster[0](op, calls, form, backend) if faster and calls.__class__ is list else None
    if rows is None:
        rows = _by_columns(op, calls, form, backend)
    return None if rows is None else (lead.__class__, backend, rows)


def _by_columns(
    op: Op, calls: Sequence[Sequence[Any]], form: Form, backend: Executor
) -> list[Row] | None:
    columns = [*zip(*calls, strict=True)]
    kinds: list[Any] = [repeat(form)]
    for column in columns:
        kind = _kinds_of(column, backend)
        if kind is None:
            return None
        kinds.append(kind)
    find = op.plans.get
    plans = [find(key) for key in zip(*kinds, strict=False)]
    first = plans[0]
    if first is None:
        return None
    handles: list[Sequence[Any]] = []
    takes = first.takes
    for plan in plans:
        if plan is None or plan.numbers is not None or plan.takes != takes:
            return None
    for position, column in enumerate(columns):
        type = None if takes is None else takes[position]
        found = _handles_of(column, type)
        if found is None:
            return None
        handles.append(found)
    rows = zip(*handles, strict=True)
    return [*zip(rows, plans, strict=True)]  # type: ignore[list-item]


def _kinds_of(column: Sequence[Any], backend: Executor) -> Any:
    """Return what plans depend on of the inputs of one position, by calls; None to give up."""
    first = column[0]
    if isinstance(first, TensorBase):
        try:
            if any([x._backend is not backend for x in column]):
                return None
            return [x._type.key for x in column]
        except AttributeError:  # not all of them are tensors
            return None
    kind = first.__class__
    if (first is not None and kind not in NUMBERS) or any(
        [x.__class__ is not kind for x in column]
    ):
        return None
    return repeat(kind)


def _handles_of(column: Sequence[Any], type: TensorType | None) -> Sequence[Any] | None:
    """Return the handles of a position, numbers as Constants of a type; None for what is cast."""
    if isinstance(column[0], TensorBase):
        return None if type is not None else [x._handle for x in column]
    if type is None:
        return column
    # One Constant for each number: mostly all calls have the same.
    made: dict[int, Constant] = {}
    for x in column:
        if id(x) not in made:
            made[id(x)] = Constant(x, type)
    return [made[id(x)] for x in column]


class ColumnCalls:
    """Calls of an op that were planned before, whose inputs come in columns.

    A column has an input of each call; a number, or None, is the same in all of them.
    """

    __slots__ = ("form", "is_expanded", "op", "out", "plans", "types")

    def __init__(
        self, op: Op, inputs: Sequence[Any], form: Form | None, plans: Sequence[Plan]
    ) -> None:
        self.op, self.form, self.plans = op, form, tuple(plans)
        #: What plans depend on: types of tensors by columns, and of others their class.
        self.types = [_kinds(x) for x in inputs]
        #: Whether the backend said that it expands them.
        self.is_expanded = False
        #: The types of the results, by columns.
        self.out = tuple([[*column] for column in zip(*[p.out or () for p in plans], strict=True)])

    def constants(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what a backend gets: numbers as Constants of the type that calls take."""
        takes = self.plans[0].takes
        if takes is None:
            return [*inputs]
        return [
            x if type is None else Constant(x, type) for x, type in zip(inputs, takes, strict=True)
        ]

    def rows(self, inputs: Sequence[Any]) -> list[Row]:
        """Return the handles and the plan of each call."""
        columns = [x if x.__class__ is list else repeat(x) for x in inputs]
        return [
            ([*row], plan)
            for plan, row in zip(self.plans, zip(*columns, strict=False), strict=False)
        ]


def column_calls(op: Op, inputs: Sequence[Any], form: Form | None) -> ColumnCalls | None:
    """Return calls of an op on columns of tensors, and numbers that are the same in all of them.

    None where one is to be planned, cast or lifted, and where their results are not as many each.
    """
    count = next(len(x) for x in inputs if x.__class__ is list)
    calls = [*zip(*[x if x.__class__ is list else repeat(x, count) for x in inputs], strict=True)]
    found = known_rows(op, calls, form)
    if found is None:
        return None
    plans = [plan for _, plan in found[2]]
    outs = {None if plan.out is None else len(plan.out) for plan in plans}
    if len(outs) != 1 or None in outs or not all([plan.is_kept for plan in plans]):
        return None
    return ColumnCalls(op, inputs, form, plans)


def _kinds(x: Any) -> Any:
    return [one._type for one in x] if x.__class__ is list else x.__class__
