"""A step of a model that was stepped before, by columns: all ids, all gradients, all first moments.

What a step asks of each parameter it asks of a column, most of it of all at once, and makes what it
makes by columns too: a parameter takes a quarter of the time.  Here are the steps that come again
and again; for all others, and what is wrong with them, there is `Optimizer._stepped`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pyrite.autodiff.gradients import Gradients
from pyrite.backend.protocol import Backend
from pyrite.errors import PyriteError
from pyrite.op import restrictions
from pyrite.op.columns import ColumnCalls, column_calls
from pyrite.op.plan import form_of
from pyrite.optim.state import OptimizerState, StateColumns
from pyrite.runtime.columns import Column
from pyrite.runtime.making import Maker
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.tensor import Tensor

_slots = ("_handle", "_type", "_backend")
_own_slots = ("_initial", "id", "version", "trainable")
_parameters = Maker(Parameter, *_slots, *_own_slots)
_tensors = Maker(Tensor, *_slots)
_handle, _type, _backend = [Column(Tensor, name) for name in _slots]
_handle_of, _type_of, _backend_of = [Column(Parameter, name) for name in _slots]
_id, _version, _trainable = [Column(Parameter, name) for name in _own_slots[1:]]


class SteppedColumns(NamedTuple):
    """What a step made: parameters in the order of ``ids``, and what is kept for them."""

    parameters: list[Parameter]
    versions: list[int]
    state: StateColumns


class JointCall(NamedTuple):
    """The op that updates a parameter: its method, inputs and attributes.

    An input is a number, or by its name the ``"parameter"``, its ``"gradient"``, or a tensor of the
    state, in whose place None goes where there is none of that name.  The op returns the parameter
    and the tensors of the state in their order.
    """

    method: Callable[..., Any]
    inputs: tuple[str | float, ...]
    attrs: Mapping[str, Any]


class JointRule(Protocol):
    """A rule whose update is one op: `pyrite.optim.joint.Joint`."""

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return the op that updates each parameter that is at this step."""
        ...


def step_columns(
    rule: JointRule,
    rate: float,
    held: Sequence[Identified],
    gradients: Gradients,
    state: OptimizerState,
) -> SteppedColumns | None:
    """Return what a step makes of a model that holds these; None where that is not as always.

    Nothing here changes what is kept: a step commits all or nothing.
    """
    if not held or restrictions or {*map(type, held)} != {Parameter}:
        return None
    ids = _id.read(held)
    versions = _version.read(held)
    found = gradients.in_order(ids, versions)
    before = None if found is None else state.columns(ids)
    if found is None or before is None or not all(_trainable.read(held)):
        return None
    lead = held[0]._backend
    call = rule.joint_call(rate, before.steps + 1)
    columns = {"parameter": held, "gradient": found, **before.tensors}
    if lead.level or not _are_on(lead, columns):
        return None
    try:
        made = _made(state, lead, call, columns)
    except PyriteError:
        # One by one tells of which parameter it is an error.
        return None
    if made is None or len(made) != 1 + len(before.tensors):
        return None
    (parameters, types), *tensors = made
    versions = [version + 1 for version in versions]
    kept = {
        name: _tensors.many(len(ids), handles, its, lead)
        for name, (handles, its) in zip(before.tensors, tensors, strict=True)
    }
    new = _parameters.many(len(ids), parameters, types, lead, None, ids, versions, True)
    return SteppedColumns(new, versions, StateColumns(ids, before.steps + 1, kept))


def _are_on(backend: Backend, columns: dict[str, Any]) -> bool:
    count = len(columns["parameter"])
    return all([
        (_backend_of if name == "parameter" else _backend).read(column).count(backend) == count
        for name, column in columns.items()
    ])  # fmt: skip


_Column = tuple[Sequence[Any], Sequence[Any]]


def _made(
    state: OptimizerState, backend: Backend, call: JointCall, columns: dict[str, Any]
) -> list[_Column] | None:
    """Return columns of handles, and of their types: parameters, and tensors of the state."""
    inputs = [columns.get(x) if type(x) is str else x for x in call.inputs]
    types = [
        (_type_of if x is columns["parameter"] else _type).read(x)
        if x.__class__ is list
        else x.__class__
        for x in inputs
    ]
    calls = _known(state, call, inputs, types)
    if calls is None or calls.is_expanded:
        return None
    handles = [
        (_handle_of if x is columns["parameter"] else _handle).read(x) if x.__class__ is list else x
        for x in inputs
    ]
    made = backend.execute_columns(calls, calls.constants(handles))
    calls.is_expanded = made is None
    return None if made is None else [*zip(made, calls.out, strict=True)]


def _known(
    state: OptimizerState, call: JointCall, inputs: Sequence[Any], types: list[Any]
) -> ColumnCalls | None:
    """Return the calls that these are: those of the last step, as a rule."""
    op = call.method.op  # type: ignore[attr-defined]
    form = form_of(op, {**op.attributes, **call.attrs})
    known = state.calls
    if known is not None and known.op is op and known.form == form and known.types == types:
        return known
    made = column_calls(op, inputs, form)
    if made is None or not _fit(made, types):
        return None
    state.calls = made
    return made


def _fit(calls: ColumnCalls, types: Sequence[Any]) -> bool:
    """Whether gradients and results are of the types of the parameters, in which these compute."""
    parameters, gradients = types[0], types[1]
    return all([
        g.key == p.key == new.key != 0 and p.dtype.compute is p.dtype
        for p, g, new in zip(parameters, gradients, calls.out[0], strict=True)
    ])  # fmt: skip
