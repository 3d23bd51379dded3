"""Tracing: a model is called once on tensors without values, and each op that it calls is noted.

The tensors are real ones, on a backend whose handles are numbers of values, so a model may call all
that a tensor has.  An op that ONNX has is noted whole, a composite of Pyrite that it has not is run
by its body, and a composite of an application is noted with a trace of its body inside.

Unlike `pyrite.backend.tracing`, which makes kernels, nothing is merged or left out: traces at
several sizes are laid over each other, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyrite.backend.protocol import Backend
from pyrite.errors import ModelExportError
from pyrite.nn.module import Module
from pyrite.nn.trail import running_layer
from pyrite.onnx.exporter.registry import is_own
from pyrite.op import Attributes, Constant, Op, Plan, TensorBase, user_location
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, TensorType, bool_, int64
from pyrite.types import dtype as as_dtype


class Handle(int):
    """The number of a value, as a handle: a plain int would be taken for a number of Python's."""

    __slots__ = ()


#: What an op is applied to: a value, a number in a dtype, or nothing.
Operand = Handle | Constant | None

#: A branch on a value, which imported models have: its two bodies read what is around them.
IF = Op("if", ("condition",), {})

#: A loop, which imported models have: its body is given the number of the round, whether it goes
#: on, and the values of its variables.
LOOP = Op("loop", ("count", "condition", "variables"), {})

#: Whether a composite on inputs of these types, with these attributes, is to be noted whole.
IsWhole = Callable[[Op, tuple[TensorType | None, ...], Attributes], bool]


@dataclass(frozen=True, eq=False)
class Step:
    """An op applied to operands; its results are the values from ``first`` on."""

    op: Op
    operands: tuple[Operand, ...]
    attrs: Attributes
    types: tuple[TensorType, ...]
    first: int
    #: The layer in whose forward pass it was, as ``encoder.linear1``.
    layer: str
    #: The user's ``file:line``.
    location: str
    #: What its bodies do: that of an application's composite, whose inputs are the operands, or the
    #: two of a branch.
    bodies: tuple[Trace, ...] = ()


@dataclass(eq=False)
class Trace:
    """The steps of a model or of a body, in order."""

    #: The values that it is given.
    inputs: list[Handle] = field(default_factory=list)
    #: The tensors that it found elsewhere: parameters, states, arrays of the host.
    constants: dict[Handle, Found] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    results: list[Handle] = field(default_factory=list)
    #: The type of each value.
    types: dict[int, TensorType] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Found:
    """A tensor with values that a model found elsewhere: a parameter, a state, an array.

    ``source`` is kept so that its identity stays its own.
    """

    #: Its path in the model; None for what is not of the model's tree.
    name: str | None
    source: Tensor | Array
    location: str

    def array(self) -> Array:
        """Return the values."""
        return self.source.detach().numpy() if isinstance(self.source, Tensor) else self.source

    def error(self, message: str) -> ModelExportError:
        """Return an error at the line where it was found."""
        error = ModelExportError(f"an array requires {message}")
        error.location = self.location
        error.add_note(f"at {self.location}")
        return error


#: What a branch runs.
Body = Callable[[], Sequence[Tensor]]


def branch(condition: Tensor, then: Body, otherwise: Body) -> list[Tensor] | None:
    """Return the results of a branch in the graph of a model that is exported; None elsewhere."""
    tracer = condition._backend
    if not isinstance(tracer, ModelTracer):
        return None
    return tracer.branch(condition, (then, otherwise))


#: What a loop runs in each round: from its number, whether it goes on and the variables, to whether
#: it goes on, the variables, and what is stacked.
Round = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def loop(
    place: Backend,
    count: Tensor | int | None,
    condition: Tensor | None,
    variables: Sequence[Tensor],
    body: Round,
) -> list[Tensor] | None:
    """Return the results of a loop in the graph of a model that is exported.

    None elsewhere, and for a loop that is a graph of other ops in each round: whose variables
    change their shape, or which reads the number of its round.
    """
    if not isinstance(place, ModelTracer):
        return None
    try:
        return place.loop(count, condition, variables, body)
    except ModelExportError:
        if isinstance(count, int) and condition is None:
            return None
        raise


class ModelTracer(Backend):
    """A backend on which nothing is computed: it notes the ops that it is to run."""

    # Above all that a model could hold, so that a call with one of its tensors comes here.
    level = 1 << 16
    name = "onnx"

    def __init__(self, is_whole: IsWhole) -> None:
        self._is_whole = is_whole
        self._scopes = [Trace()]
        self._types: list[TensorType] = []
        self._seen: dict[int, Handle] = {}
        self._constants: dict[Handle, Found] = {}
        self._layers: dict[int, str] = {}

    @property
    def trace(self) -> Trace:
        """What was noted, of the model or of the body that runs."""
        return self._scopes[-1]

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether a composite is noted whole."""
        return False

    def name_layers(self, model: Module) -> None:
        """Note the paths of the layers of the model that is to run; it has to stay alive."""
        for path, layer in model.named_modules():
            self._layers.setdefault(id(layer), path)

    # ---- values ----

    def input(self, type: TensorType) -> Tensor:
        """Return a new input of the model."""
        handle = self._value(type)
        self._scopes[0].inputs.append(handle)
        return Tensor(handle, type, self)

    def constant(self, tensor: Tensor, name: str | None) -> Tensor:
        """Return a tensor with values as one of this backend, the same each time."""
        handle = self._seen.get(id(tensor))
        if handle is None:
            handle = self._seen[id(tensor)] = self._constant(tensor._type, name, tensor)
        return Tensor(handle, tensor._type, self)

    def _constant(self, type: TensorType, name: str | None, source: Tensor | Array) -> Handle:
        handle = self._value(type)
        self._constants[handle] = Found(name, source, user_location())
        return handle

    def _value(self, type: TensorType) -> Handle:
        self._types.append(type)
        return Handle(len(self._types) - 1)

    def finish(self, results: Sequence[Tensor]) -> Trace:
        """Return what was noted of a model that returned these tensors."""
        trace = self._scopes[0]
        trace.results = [self.lift(t) for t in results]
        trace.constants = self._constants
        trace.types = dict(enumerate(self._types))
        return trace

    # ---- ops ----

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Any] | None:
        """Note an op; None for a composite whose body is to be run here."""
        if op.body is not None and not self._is_noted_whole(op, inputs, plan):
            return None if is_own(op) else self._note_with_body(op, inputs, plan)
        if plan.out is None or op.sync:
            self.refuse(f"{op.name}, whose result has a shape that depends on values")
        if op.name == "random_bits":
            self.refuse("a random draw")
        return self._note(op, inputs, plan.attrs, plan.out)

    def _is_noted_whole(self, op: Op, inputs: Sequence[Any], plan: Plan) -> bool:
        types = tuple(
            self._types[x] if isinstance(x, Handle) else None if x is None else x.type
            for x in inputs
        )
        return plan.out is not None and self._is_whole(op, types, plan.attrs)

    def _note(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        types: tuple[TensorType, ...],
        bodies: tuple[Trace, ...] = (),
    ) -> list[Handle]:
        results = [self._value(type) for type in types]
        first = results[0] if results else len(self._types)
        where = self._layers.get(id(running_layer()), ""), user_location()
        step = Step(op, tuple(inputs), attrs, types, first, *where, bodies)
        self.trace.steps.append(step)
        return results

    def _note_with_body(self, op: Op, inputs: Sequence[Any], plan: Plan) -> list[Handle]:
        """Note an application's composite, with what its body does."""
        # New values: one that is given twice is two inputs of the body.
        given = [self._value(self._types[x]) if isinstance(x, Handle) else x for x in inputs]
        arguments = [
            Tensor(x, self._types[x], self)
            if isinstance(x, Handle)
            else x.value
            if isinstance(x, Constant)
            else x
            for x in given
        ]
        assert op.body is not None
        with self._scope([x for x in given if isinstance(x, Handle)]) as body:
            found = op.body(*arguments, **plan.attrs)
            results = found if isinstance(found, tuple | list) else (found,)
            body.results = [self.lift(t) for t in results]
        types = tuple(self._types[h] for h in body.results)
        return self._note(op, inputs, plan.attrs, types, (body,))

    def branch(self, condition: Tensor, bodies: Sequence[Body]) -> list[Tensor]:
        """Note a branch, both of whose bodies are run; return its results."""
        traces = []
        for body in bodies:
            with self._scope([]) as trace:
                trace.results = [self.lift(t) for t in body()]
            traces.append(trace)
        types, others = (tuple(self._types[h] for h in t.results) for t in traces)
        if types != others:
            self.refuse("a branch whose bodies return different types")
        results = self._note(IF, [condition._handle], {}, types, tuple(traces))
        return [Tensor(h, type, self) for h, type in zip(results, types, strict=True)]

    def loop(
        self,
        count: Tensor | int | None,
        condition: Tensor | None,
        variables: Sequence[Tensor],
        body: Round,
    ) -> list[Tensor] | None:
        """Note a loop, whose body is run once; return its results."""
        kinds = [TensorType((), int64), TensorType((), bool_), *(t._type for t in variables)]
        given = [self._value(kind) for kind in kinds]
        with self._scope(given) as trace:
            made = body([Tensor(h, t, self) for h, t in zip(given, kinds, strict=True)])
            trace.results = [self.lift(t) for t in made]
        types = [self._types[h] for h in trace.results]
        held = 1 + len(variables)
        if types[:held] != kinds[1:]:
            self.refuse("a loop whose variables change their shape or dtype")
        if len(types) > held and not isinstance(count, int):
            self.refuse("a loop that stacks as many values as it turns out to have rounds")
        rounds = max(count, 0) if isinstance(count, int) else 0
        stacked = [TensorType((rounds, *t.shape), t.dtype) for t in types[held:]]
        operands = [
            Constant(count, TensorType((), int64)) if isinstance(count, int) else count,
            condition,
            *variables,
        ]
        results = self._note(
            LOOP,
            [self.lift(x) if isinstance(x, Tensor) else x for x in operands],
            {},
            (*types[1:held], *stacked),
            (trace,),
        )
        return [Tensor(h, self._types[h], self) for h in results]

    @contextmanager
    def _scope(self, inputs: list[Handle]) -> Iterator[Trace]:
        body = Trace(inputs=inputs)
        self._scopes.append(body)
        try:
            yield body
        finally:
            self._scopes.pop()

    # ---- what a graph cannot hold ----

    def refuse(self, what: str) -> NoReturn:
        """Raise ModelExportError for what the graph of a model cannot hold."""
        raise ModelExportError(
            f"export requires a model whose ops and sizes depend on no value, got {what}; "
            "move it out of the model"
        )

    def upload(self, array: Array) -> Any:
        """Return an array of the host as a constant."""
        return self._constant(TensorType(array.shape, as_dtype(array.dtype)), None, array.copy())

    def download(self, handle: Any) -> Array:
        """Return the values of a constant; refuse to tell others."""
        if handle in self._constants:
            return self._constants[handle].array()
        self.refuse("a read of a tensor's values (item, numpy, bool or a branch on it)")

    def lift(self, tensor: TensorBase) -> Any:
        """Return the handle of a tensor of another device as a constant."""
        if tensor._backend is self:
            return tensor._handle
        if not isinstance(tensor, Tensor):
            self.refuse("a tensor of an unknown class")
        if isinstance(tensor._backend.root, ModelTracer):
            self.refuse("a tensor of a call before")
        return self.constant(tensor, None)._handle

    def type_of(self, handle: Any) -> TensorType:
        """Return the type of a value."""
        found: TensorType = self._types[handle]
        return found

    def primitive(self, handle: Any) -> Any:
        """Refuse to show memory."""
        self.refuse("the memory of a tensor")

    def synchronize(self) -> None:
        """Return at once: nothing runs."""

    def __repr__(self) -> str:
        return "ModelTracer()"
