"""A step of a model that was stepped before, by columns: all ids, all gradients, all first moments.

What a step asks of each parameter it asks of a column, most of it of all at once, and makes what it
makes by columns too: a parameter takes a quarter of the time.  Here are the steps that come again
and again; for all others, and what is wrong with them, there is `Optimizer._stepped`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast
from weakref import ref

from pyrite.autodiff.gradients import Gradients
from pyrite.backend.protocol import Backend
from pyrite.columns import Column, Maker, chooser
from pyrite.errors import PyriteError
from pyrite.op import restrictions
from pyrite.op.columns import ColumnCalls, column_calls
from pyrite.op.plan import form_of
from pyrite.optim.clip import Clipping
from pyrite.optim.state import LatestModel, OptimizerState, StateColumns
from pyrite.optim.values import renewed
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode

_slots = ("_handle", "_type", "_backend")
_own_slots = ("_initial", "id", "version", "trainable")
_parameters = Maker(Parameter, *_slots, *_own_slots)
_tensors = Maker(Tensor, *_slots)
_OF_TENSORS, _OF_PARAMETERS = [
    [Column(cls, name) for name in _slots] for cls in (Tensor, Parameter)
]
_NUMBERS = frozenset({bool, int, float, type(None)})
_id, _version = Column(Parameter, "id"), Column(Parameter, "version")


class SteppedColumns(NamedTuple):
    """What a step made: of parameters the next ones, what is kept for them, and the norm.

    ``renewed`` are the states that the forward pass renewed, by id; ``ids`` and ``versions`` are
    those of the parameters.
    """

    ids: list[int]
    versions: list[int]
    due: list[Parameter]
    new: list[Parameter]
    states: tuple[StateColumns, ...]
    norm: Tensor | None
    renewed: dict[int, Identified]

    def keep_in(self, state: OptimizerState, model: Any, leaves: Sequence[Tensor]) -> None:
        """Take up the step, which made a model of these leaves' others, in a state."""
        state.keep_columns(self.states)
        state.newest = self.ids[0], self.versions[0]
        state.norm = self.norm
        state.steps += 1
        is_whole = len(self.due) == len(leaves) and isinstance(model, TreeNode)
        is_lasting = is_whole and model._is_frozen and model._tree_leaves is not None
        # Its tensors stay these parameters.
        state.latest = LatestModel(ref(model), self.ids, self.versions) if is_lasting else None

    def of(self, leaves: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what becomes of the tensors of a model."""
        if len(self.due) == len(leaves):
            return self.new
        changed = {**dict(zip(_id.read(self.due), self.new, strict=True)), **self.renewed}
        return [changed.get(t.id, t) if isinstance(t, Identified) else t for t in leaves]


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

    @property
    def _clipping(self) -> Clipping | None: ...

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return the op that updates each parameter that is at this step."""
        ...


def step_columns(
    rules: Sequence[JointRule], rates: Sequence[float], held: Sequence[Identified],
    gradients: Gradients, state: OptimizerState,
) -> SteppedColumns | None:  # fmt: skip
    """Return what a step makes of a model that holds these; None where that is not as always.

    ``rules`` are the optimiser, and those of its groups, which clip nothing by themselves.  Nothing
    here changes what is kept: a step commits all or nothing.
    """
    latest, due = state.latest, cast("list[Parameter]", held)
    if latest is None:
        due = [t for t in held if t.__class__ is Parameter and t.trainable]
    if restrictions or not due or due[0]._backend.level:
        return None
    ids, versions = (_id.read(due), _version.read(due)) if latest is None else latest[1:]
    found = gradients.in_order(ids, versions)
    groups = _groups(state, ids, len(rules))
    if found is None or groups is None:
        return None
    before = state.columns([at(ids) for at in groups.values()])
    updates = gradients.updates
    if before is None or (updates and updates.keys() - {t.id for t in held}):
        return None
    clipping, norm = rules[0]._clipping, None
    made: list[_Group] = []
    try:
        if clipping is not None:
            found, norm = clipping(found)
        for (group, at), of in zip(groups.items(), before, strict=True):
            call = rules[group].joint_call(rates[group], of.steps + 1)
            columns = {"parameter": at(due), "gradient": at(found), **of.tensors}
            stepped = _stepped(state, group, call, columns)
            if stepped is None:
                return None
            made.append(stepped)
    except PyriteError:
        # One by one tells of which parameter it is an error.
        return None
    states = tuple([
        StateColumns(of.ids, of.steps + 1, tensors)
        for of, (_, tensors) in zip(before, made, strict=True)
    ])  # fmt: skip
    new = _in_order([*groups.values()], [parameters for parameters, _ in made])
    versions = [version + 1 for version in versions]
    return SteppedColumns(ids, versions, due, new, states, norm, renewed(held, updates))


#: The parameters of a group after a step, and its tensors by name.
_Group = tuple[list[Parameter], dict[str, list[Tensor]]]


def _in_order(groups: Sequence[Choice], made: Sequence[list[Parameter]]) -> list[Parameter]:
    """Return the parameters of groups in the order of all."""
    if len(groups) == 1:
        return made[0]
    count = sum(map(len, made))
    places = [n for at in groups for n in at(range(count))]
    parameters = [parameter for group in made for parameter in group]
    return [parameters[n] for n in sorted(range(count), key=places.__getitem__)]


Choice = Callable[[Sequence[Any]], list[Any]]


def _groups(state: OptimizerState, ids: Sequence[int], count: int) -> dict[int, Choice] | None:
    """Return what takes the parameters of each group out of all; None where one is new."""
    if count == 1:
        return {0: list}
    known = state.rules
    numbers = [known.get(id, -1) for id in ids]
    if -1 in numbers:
        return None
    places = {group: [n for n, its in enumerate(numbers) if its == group] for group in range(count)}
    return {group: _taking(chooser(at)) for group, at in places.items() if at}


def _taking(choose: Callable[[Any], Sequence[Any]]) -> Choice:
    return lambda items: [*choose(items)]


def _stepped(
    state: OptimizerState, group: int, call: JointCall, columns: dict[str, Any]
) -> _Group | None:
    """Return the parameters of a group after a step, and its tensors; None of what is not known."""
    before: list[Parameter] = columns["parameter"]
    lead, count = before[0]._backend, len(before)
    if not all([_slots_of(name)[2].read(x).count(lead) == count for name, x in columns.items()]):
        return None
    made = _made(state, group, lead, call, columns)
    if made is None or len(made) != len(columns) - 1:
        return None
    (handles, types), *tensors = made
    kept = {
        name: _tensors.many(count, its_handles, its_types, lead)
        for name, (its_handles, its_types) in zip([*columns][2:], tensors, strict=True)
    }
    versions = [version + 1 for version in _version.read(before)]
    new = _parameters.many(count, handles, types, lead, None, _id.read(before), versions, True)
    return new, kept


def _slots_of(name: str) -> Sequence[Column]:
    """Return the slots of handles, types and backends of a column."""
    return _OF_PARAMETERS if name == "parameter" else _OF_TENSORS


_Column = tuple[Sequence[Any], Sequence[Any]]


def _made(
    state: OptimizerState, group: int, backend: Backend, call: JointCall, columns: dict[str, Any]
) -> list[_Column] | None:
    """Return columns of handles, and of their types: parameters, and tensors of the state."""
    names = [x if type(x) is str else "" for x in call.inputs]
    inputs = [columns.get(x) if type(x) is str else x for x in call.inputs]
    named = [(_slots_of(name), x) for name, x in zip(names, inputs, strict=True)]
    types = [s[1].read(x) if x.__class__ is list else x.__class__ for s, x in named]
    calls = _known(state, group, call, inputs, types)
    if calls is None or calls.is_expanded:
        return None
    handles = [s[0].read(x) if x.__class__ is list else x for s, x in named]
    made = backend.execute_columns(calls, calls.constants(handles))
    calls.is_expanded = made is None
    return None if made is None else [*zip(made, calls.out, strict=True)]


def _known(
    state: OptimizerState, group: int, call: JointCall, inputs: Sequence[Any], types: list[Any]
) -> ColumnCalls | None:
    """Return the calls that these are: those of the last step, as a rule."""
    op = call.method.op  # type: ignore[attr-defined]
    attrs, known = state.calls.get(group, (call.attrs, None))
    if known is not None and known.op is op and _are_same(attrs, call.attrs):
        form = known.form
    else:
        form = form_of(op, {**op.attributes, **call.attrs})
    if known is not None and known.op is op and known.form == form and known.types == types:
        return known
    made = column_calls(op, inputs, form)
    if made is None or not _fit(made, types):
        return None
    state.calls[group] = call.attrs, made
    return made


def _are_same(attrs: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether attributes are the same objects under the same names, of which none can change."""
    return (
        attrs.keys() == others.keys()
        and all([others[name] is x for name, x in attrs.items()])
        and _NUMBERS.issuperset(map(type, attrs.values()))
    )


def _fit(calls: ColumnCalls, types: Sequence[Any]) -> bool:
    """Whether gradients and results are of the types of the parameters, in which these compute."""
    parameters, gradients = types[0], types[1]
    return all([
        g.key == p.key == new.key != 0 and p.dtype.compute is p.dtype
        for p, g, new in zip(parameters, gradients, calls.out[0], strict=True)
    ])  # fmt: skip
