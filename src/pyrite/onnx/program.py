"""A graph made ready to run: each node with its converter, and with what may be let go after it.

Values are of two kinds.  A tensor lies on the model's device.  A NumPy array lies on the host:
shapes and what is computed from them, so that shape arithmetic neither waits for a device nor needs
a dtype that it lacks.  A node whose tensors are all on the host runs there, by the same converter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pyrite.backend import Device, device
from pyrite.errors import DTypeError, ModelRunError, PyriteError
from pyrite.onnx.converter import Converter, Kind, converter
from pyrite.onnx.element import Element
from pyrite.onnx.exporter.tracer import ModelTracer
from pyrite.onnx.graph import Graph, Node
from pyrite.onnx.memory import HostMemory
from pyrite.onnx.message import said
from pyrite.onnx.pattern import LOADED
from pyrite.onnx.pattern.rewriting import rewritten
from pyrite.onnx.pattern.view import GraphView
from pyrite.onnx.static import GROWING, steering_values
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DType, dtype, int32, int64, uint32, uint64

#: Elements of the largest array that stays on the host.  Shapes are far smaller; a mask made of
#: them may not be, and is the device's to compute with.
HOST_LIMIT = 1 << 14


NARROWED: Mapping[DType, DType] = {int64: int32, uint64: uint32}


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One node of a program."""

    node: Node
    converter: Converter
    attributes: Mapping[str, Any]
    #: What each operand has to be.
    kinds: tuple[Kind | None, ...]
    #: Names of values that nothing reads after it.
    releases: tuple[str, ...] = ()
    #: Whether a first tensor and what else it is given are all that it needs to know.
    takes_tensors: bool = False
    #: Whether what it gives grows with sizes, and nothing on the host depends on it.
    fills: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The steps of a graph, in order."""

    #: As the file has it; steps are fewer, where several nodes are one op here.
    graph: Graph
    steps: tuple[Step, ...]
    captured: tuple[str, ...]
    #: The keys of weights that steps read, by name.
    weights: Mapping[str, str]
    #: What is known of values before it runs.
    known: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """What all steps of one run share."""

    device: Device
    #: By key: tensors, and arrays of the host.
    weights: Mapping[str, Any]
    #: Whether 64-bit integers are carried in 32 bits.
    narrow: bool = False
    memory: HostMemory | None = None
    #: How many tensors were read because they steer the graph.
    reads: int = 0
    _tensors: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory is not None:
            self._tensors = self.memory.tensors(self.device.backend.root)

    @property
    def is_exported(self) -> bool:
        """Whether the model is traced for a file, in which sizes may vary."""
        return isinstance(self.device.backend, ModelTracer)

    def tensor(self, value: Any) -> Any:
        """Return an array of the host as a tensor of the device; a tensor as it is."""
        if isinstance(value, Tensor) or not isinstance(value, np.ndarray | np.generic):
            return value
        found = self._tensors.get(id(value))
        if found is not None:
            return found
        # Without its autodiff level: what comes of the host has no gradient.
        made = tensor(self._narrowed(value), device=self.device.backend.root)
        if self.memory is not None and self.memory.holds(value):
            self._tensors[id(value)] = made
        return made

    def dtype(self, wanted: DType) -> DType:
        """Return the dtype that carries another here."""
        return NARROWED.get(wanted, wanted) if self.narrow else wanted

    def _narrowed(self, value: Array | np.generic) -> Array:
        array = np.asarray(value)
        return narrowed(array) if self.narrow else array


def narrowed(array: Array) -> Array:
    """Return 64-bit integers as 32-bit ones.  Raises DTypeError for a value that does not fit."""
    kind = NARROWED.get(dtype(array.dtype))
    if kind is None:
        return array
    if array.size and not kind.lowest <= array.min() <= array.max() <= kind.highest:
        raise DTypeError(
            f"narrow_int64 requires values that {kind.name} holds, got {array.min()} to "
            f"{array.max()}; load the model without it, on a device that has {array.dtype}"
        )
    return array.astype(kind.numpy)


@dataclass(slots=True)
class Call:
    """One call of a converter: the node, and where it runs."""

    node: Node
    device: Device
    context: Context
    scope: Mapping[str, Any]
    #: Whether a small result may be an array of the host.
    may_stay: bool = True

    def run(self, body: Program, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a body of this node, which sees the values around it."""
        return run(body, inputs, self.scope, self.context)

    def tensor(self, value: Any) -> Tensor:
        """Return a value as a tensor of the device that this call runs on."""
        if isinstance(value, Tensor):
            return value
        if self.device is self.context.device:
            lifted: Tensor = self.context.tensor(value)
            return lifted
        return tensor(np.asarray(value), device=self.device)

    def dtype(self, wanted: DType) -> DType:
        """Return the dtype that carries another where this call runs."""
        return self.context.dtype(wanted) if self.device is self.context.device else wanted

    def element(self, position: int) -> Element | None:
        """Return the element type that the file says an operand has, if it does."""
        types = self.node.input_types
        return types[position].element if position < len(types) else None

    def has_output(self, position: int) -> bool:
        """Whether the node's output at a position is asked for."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])


def compiled(graph: Graph, steering: frozenset[str] | None = None) -> Program:
    """Return a graph ready to run.  Every node must have a converter (`support.problems`).

    steering: the values that steer the graph that this is a body of.
    """
    steering = steering_values(graph) if steering is None else steering
    smaller = rewritten(graph, LOADED, GraphView(graph, {}, graph.weights))
    weights = {name: weight.key for name, weight in smaller.weights.items()}
    steps = tuple(_step(node, steering) for node in smaller.nodes)
    return Program(graph, _released(steps, graph), graph.captured, MappingProxyType(weights))


def _step(node: Node, steering: frozenset[str]) -> Step:
    found = converter(node.domain, node.op, node.version)
    assert found is not None, node.label
    attributes = {
        name: compiled(value, steering) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    kinds = tuple(found.kind(i) for i in range(len(node.inputs)))
    is_plain = not found.takes_call and "value" not in kinds and kinds[:1] not in ((), ("host",))
    fills = node.op in GROWING and steering.isdisjoint(node.outputs)
    return Step(node, found, attributes, kinds, takes_tensors=is_plain, fills=fills)


def _released(steps: Sequence[Step], graph: Graph) -> tuple[Step, ...]:
    """Return steps that let go of what no later one reads."""
    last: dict[str, int] = {}
    for position, step in enumerate(steps):
        node = step.node
        last.update(dict.fromkeys((*filter(None, node.outputs), *node.uses), position))
    own = {*graph.inputs, *(name for step in steps for name in step.node.outputs)}
    kept = {*graph.outputs, *graph.weights}
    released = defaultdict(list)
    for name, position in last.items():
        if name in own and name not in kept:
            released[position].append(name)
    return tuple(replace(step, releases=tuple(released[i])) for i, step in enumerate(steps))


def specialized(program: Program, met: Mapping[int, Sequence[Any]]) -> Program:
    """Return what is left of a program where the outputs of some steps are known."""
    steps = [step for i, step in enumerate(program.steps) if i not in met]
    read = {*program.graph.outputs, *(name for step in steps for name in step.node.uses)}
    known = {
        name: value
        for i, values in met.items()
        for name, value in zip(program.steps[i].node.outputs, values, strict=False)
        if name in read
    }
    return replace(program, steps=_released(steps, program.graph), known=MappingProxyType(known))


def run_whole(program: Program, inputs: Sequence[Any], context: Context) -> list[Any]:
    """Return the outputs of a model for inputs; what the host computes is remembered."""
    memory = None if context.is_exported else context.memory
    signature = None if memory is None else memory.signature(inputs)
    if memory is None or signature is None:
        return run(program, inputs, {}, context)
    found = memory.program(signature)
    if found is not None:
        return run(found, inputs, {}, context)
    met: dict[int, Sequence[Any]] = {}
    outputs = run(program, inputs, {}, context, met=met)
    if not context.reads:
        found = specialized(program, met)
        memory.keep(signature, found, found.known.values())
    return outputs


def run(
    program: Program,
    inputs: Sequence[Any],
    outer: Mapping[str, Any],
    context: Context,
    *,
    met: dict[int, Sequence[Any]] | None = None,
) -> list[Any]:
    """Return the outputs of a program for inputs, with the values around it.

    ``met`` is given the outputs of steps that are arrays of the host.
    """
    graph = program.graph
    scope = {name: outer[name] for name in program.captured}
    scope.update({name: context.weights[key] for name, key in program.weights.items()})
    scope.update(program.known)
    scope.update(zip(graph.inputs, inputs, strict=True))
    for position, step in enumerate(program.steps):
        try:
            outputs = outputs_of(step, scope, context)
        except PyriteError as error:
            if not hasattr(error, "__notes__"):
                error.add_note(f"at node {step.node.label}")
            raise
        except Exception as error:
            # What a file says may be anything, and one clear error is to come of it.
            raise ModelRunError(f"{step.node.label} cannot be run: {said(error)}") from error
        if met is not None and all(isinstance(value, np.ndarray) for value in outputs):
            met[position] = outputs
        scope.update(zip(step.node.outputs, outputs, strict=False))
        for name in step.releases:
            scope.pop(name, None)
    return [scope[name] for name in graph.outputs]


def outputs_of(step: Step, scope: Mapping[str, Any], context: Context) -> Sequence[Any]:
    """Return what one step gives for the values of a scope."""
    found = step.converter
    values = [scope[name] if name else None for name in step.node.inputs]
    if step.takes_tensors and _are_ready(values, step.kinds):
        made = found.function(*values, **step.attributes)
        return made if isinstance(made, tuple) else (made,)
    # In a file sizes may vary: what grows with them is nodes there, not an array.
    may_stay = not (step.fills and context.is_exported)
    on_host = may_stay and _is_on_host(values, step.kinds)
    call = Call(step.node, HOST if on_host else context.device, context, scope, may_stay)
    given = [_operand(call, v, kind) for v, kind in zip(values, step.kinds, strict=True)]
    arguments = (call, *given) if found.takes_call else given
    made = found.function(*arguments, **step.attributes)
    outputs = made if isinstance(made, tuple) else (made,)
    return [_from_host(v, context) for v in outputs] if on_host else outputs


#: Where nodes run that compute shapes.
HOST = device("numpy")


def _are_ready(values: Sequence[Any], kinds: Sequence[str | None]) -> bool:
    """Whether values are what a converter takes: tensors, and arrays where it asks for such."""
    for value, kind in zip(values, kinds, strict=True):
        if (type(value) is not np.ndarray) if kind == "host" else (type(value) is not Tensor):
            return False
    return True


#: Kinds of operands that do not say where an op runs.
_NOT_COMPUTED_WITH = frozenset({"host", "control", "value"})


def _is_on_host(values: Sequence[Any], kinds: Sequence[str | None]) -> bool:
    found = False
    for value, kind in zip(values, kinds, strict=True):
        if value is None or kind in _NOT_COMPUTED_WITH:
            continue
        if isinstance(value, Tensor):
            return False
        found = True
    return found


def _operand(call: Call, value: Any, kind: str | None) -> Any:
    if value is None or kind in ("value", "control"):
        return value
    if kind == "host":
        # A tensor here is data that steers the graph: it is waited for, which `no_sync` refuses.
        if not isinstance(value, Tensor):
            return value
        call.context.reads += 1
        return value.numpy()
    is_number = kind == "scalar" and not isinstance(value, Tensor) and not value.ndim
    return value.item() if is_number and call.device is not HOST else call.tensor(value)


def _from_host(value: Any, context: Context) -> Any:
    if not isinstance(value, Tensor):
        return value
    array = np.asarray(value.unwrap())
    return context.tensor(array) if array.size > HOST_LIMIT else array
