"""Writing: what a model does becomes a graph of ONNX.

An application's composite becomes a function of the model, by its body.  What its body reads
beside its inputs, as a parameter of the model, is one more input of the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto, helper

from pyrite.errors import ModelExportError
from pyrite.onnx.exporter import ops
from pyrite.onnx.exporter.algebra import computed
from pyrite.onnx.exporter.call import Call, Sizes, Value, onnx_dtype
from pyrite.onnx.exporter.graph import Graph, subgraph_nodes
from pyrite.onnx.exporter.overlay import Application, Literal, Operand, SymbolicTrace
from pyrite.onnx.exporter.registry import exporter_of, is_own
from pyrite.onnx.exporter.size import ValueType, Varying
from pyrite.onnx.exporter.tracer import IF, LOOP, Handle

# Imported for the exporters that it declares.
assert ops

#: The domain of an application's ops, unless it names one.
DOMAIN = "pyrite"


@dataclass(eq=False)
class _Scope:
    """The model or a function: its trace, its graph, and the values written so far."""

    trace: SymbolicTrace
    graph: Graph
    values: dict[Handle, Value]
    sizes: Sizes
    #: The layer in whose name all is written; None for that of each op.
    layer: str | None = None
    #: Constants that are initializers already.
    constants: dict[Handle, Value] = field(default_factory=dict)

    def layer_of(self, step: Application) -> str:
        return step.layer if self.layer is None else self.layer


@dataclass(eq=False)
class Writer:
    """Writes symbolic traces into a graph."""

    opset: int
    #: How many of the traces formulas are found from.
    fitted: int
    #: Domains of an application's ops that are written as one node without a function.
    domains: Mapping[str, str]
    graph: Graph = field(init=False)
    #: Functions by name, in order of use.
    functions: dict[str, FunctionProto] = field(default_factory=dict, init=False)
    #: The types of the model's values, which what ONNX infers must agree with.
    types: dict[str, ValueType] = field(default_factory=dict, init=False)
    _names: dict[tuple[str, bytes], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.graph = Graph(self.opset)

    def write(self, trace: SymbolicTrace, names: Sequence[str]) -> tuple[list[Value], list[Value]]:
        """Write a model with inputs of these names; return its inputs and results."""
        inputs = [
            Value(self.graph.name(name), type.dtype, type.shape)
            for name, type in zip(names, (trace.types[h] for h in trace.inputs), strict=True)
        ]
        scope = _Scope(
            trace,
            self.graph,
            dict(zip(trace.inputs, inputs, strict=True)),
            Sizes(self.fitted, ()).with_values(inputs),
        )
        return inputs, self._written(scope)

    def _written(self, scope: _Scope) -> list[Value]:
        for step in scope.trace.steps:
            inputs = tuple(self._operand(scope, step, x) for x in step.operands)
            call = self._call(scope, step, inputs)
            results = self._results(scope, call, step)
            for handle, result, type in zip(step.results, results, call.out, strict=True):
                if result is not None:
                    scope.values[handle] = Value(result.name, type.dtype, type.shape)
                    if scope.layer is None:
                        self.types[result.name] = type
        return [self._value(scope, handle) for handle in scope.trace.results]

    def _call(self, scope: _Scope, step: Application, inputs: tuple[Value | None, ...]) -> Call:
        return Call(
            scope.graph,
            scope.layer_of(step),
            inputs,
            tuple(scope.trace.types[h] for h in step.results),
            scope.sizes.with_values(inputs),
            step.error,
        )

    # ---- operands ----

    def _operand(self, scope: _Scope, step: Application, x: Operand) -> Value | None:
        if x is None:
            return None
        if isinstance(x, Handle):
            return self._value(scope, x)
        return self._number(scope, step, x)

    def _number(self, scope: _Scope, step: Application, x: Literal) -> Value:
        measured = tuple(
            scope.values[h] for h in step.operands if isinstance(h, Handle) and h in scope.values
        )
        call = self._call(scope, step, measured)
        if isinstance(x.value, Varying):
            return call.scalar(x.value, x.dtype)
        made = call.number(x.value, x.dtype)
        return Value(made.name, made.dtype, (), x.value)

    def _value(self, scope: _Scope, handle: Handle) -> Value:
        """Return a value; a constant becomes an initializer when it is first used."""
        found = scope.values.get(handle) or scope.constants.get(handle)
        if found is None:
            if handle not in scope.trace.constants:
                raise _left_out(scope.trace, handle)
            if handle in scope.trace.varying:
                return self._varying(scope, handle)
            constant, type = scope.trace.constants[handle], scope.trace.types[handle]
            array = constant.array()
            if constant.name is None:
                name = scope.graph.constant(array)
            else:
                name = scope.graph.parameter(constant.name, array)
            found = scope.constants[handle] = Value(name, type.dtype, type.shape)
        return found

    def _varying(self, scope: _Scope, handle: Handle) -> Value:
        """Return an array of the host whose integers vary, computed in the graph."""
        constant, type = scope.trace.constants[handle], scope.trace.types[handle]
        call = Call(scope.graph, scope.layer or "", (), (), scope.sizes, constant.error)
        flat = call.integers(scope.trace.varying[handle])
        shaped = call.reshape(replace(flat, shape=(len(scope.trace.varying[handle]),)), type.shape)
        found = replace(call.cast(shaped, type.dtype), shape=type.shape)
        scope.values[handle] = found
        return found

    # ---- ops ----

    def _results(self, scope: _Scope, call: Call, step: Application) -> Sequence[Value | None]:
        if step.op is IF:
            return self._branched(scope, call, step)
        if step.op is LOOP:
            return self._looped(scope, call, step)
        if step.bodies:
            return self._called(scope, call, step, step.bodies[0])
        op = step.op
        if not is_own(op) and op.name in self.domains:
            return call.emit_many(
                op.name, call.inputs, [t.dtype for t in call.out],
                domain=self.domains[op.name], **step.attrs,
            )  # fmt: skip
        attrs, types = step.example
        exporter = exporter_of(op, types, attrs, call.opset)
        if exporter is not None:
            found = exporter.write(call, *call.inputs, **step.attrs)
        elif op.is_elementwise and op.scalar is not None:
            found = computed(call, op.scalar, dict(step.attrs))
        else:
            raise step.error(
                f"an op of ONNX's opset {call.opset} that means the same, got none; write it by "
                f"other ops, or name a domain that has it: domains={{{op.name!r}: 'my.domain'}}"
            )
        return found if isinstance(found, tuple | list) else (found,)

    # ---- branches and loops ----

    def _branched(self, scope: _Scope, call: Call, step: Application) -> Sequence[Value]:
        """Return the results of an If, whose bodies are graphs inside it."""
        names = ("then_branch", "else_branch")
        bodies = {
            name: self._body(scope, body) for name, body in zip(names, step.bodies, strict=True)
        }
        return call.emit_many("If", call.inputs, [t.dtype for t in call.out], **bodies)

    def _looped(self, scope: _Scope, call: Call, step: Application) -> Sequence[Value]:
        """Return the results of a Loop, whose body is a graph inside it."""
        body = self._body(scope, step.bodies[0])
        return call.emit_many("Loop", call.inputs, [t.dtype for t in call.out], body=body)

    def _body(self, scope: _Scope, body: SymbolicTrace) -> GraphProto:
        graph = scope.graph.subgraph()
        inner = replace(scope, trace=body, graph=graph, values=dict(scope.values))
        inputs = []
        for handle in body.inputs:
            type = body.types[handle]
            value = Value(graph.name("round"), type.dtype, type.shape)
            inner.values[handle] = value
            inputs.append(_declared(value))
        results = []
        for value in self._written(inner):
            # A graph's outputs are its own nodes'.
            (name,) = graph.add("Identity", [value.name], 1, attrs={})
            results.append(_declared(replace(value, name=name)))
        return helper.make_graph(graph.nodes, graph.name("body"), inputs, results)

    # ---- functions ----

    def _called(
        self, scope: _Scope, call: Call, step: Application, body: SymbolicTrace
    ) -> Sequence[Value]:
        """Return the results of a function that is an application's composite."""
        given = [h for h in step.operands if isinstance(h, Handle)]
        captured = list(dict.fromkeys(_reads(body)))
        name = self._function(step, body, captured)
        inputs = [self._value(scope, h) for h in (*given, *captured)]
        return call.emit_many(name, inputs, [t.dtype for t in call.out], domain=DOMAIN)

    def _function(self, step: Application, body: SymbolicTrace, captured: Sequence[Handle]) -> str:
        """Return the name of the function of a body; bodies that do the same share one."""
        graph = Graph(self.opset, is_function=True)
        names = [*_input_names(step), *(f"captured_{i}" for i in range(len(captured)))]
        values = {}
        for handle, name in zip((*body.inputs, *captured), names, strict=True):
            type = body.types[handle]
            values[handle] = Value(graph.name(name), type.dtype, type.shape)
        inputs = list(values.values())
        inner = _Scope(body, graph, values, Sizes(self.fitted, ()).with_values(inputs), layer="")
        results = _distinct(graph, self._written(inner), inputs)
        graph.prune([r.name for r in results])
        domains = sorted({"", *graph.domains})
        made = helper.make_function(
            DOMAIN, "", [x.name for x in inputs], [r.name for r in results],
            graph.nodes, [helper.make_opsetid(d, self.opset if not d else 1) for d in domains],
        )  # fmt: skip
        return self._named(step.op.name, made)

    def _named(self, wanted: str, function: FunctionProto) -> str:
        key = wanted, function.SerializeToString(deterministic=True)
        name = self._names.get(key)
        if name is None:
            same = sum(of == wanted for of, _ in self._names)
            name = self._names[key] = f"{wanted}_{same}" if same else wanted
            function.name = name
            self.functions[name] = function
        return name


def _declared(value: Value) -> ValueInfoProto:
    """Return an input or a result of a body with its type."""
    shape = [n if isinstance(n, int) else None for n in value.shape]
    return helper.make_tensor_value_info(value.name, onnx_dtype(value.dtype), shape)


def _left_out(trace: SymbolicTrace, handle: Handle) -> ModelExportError:
    """Return the error of a result that is wanted, and that ONNX's op does not give."""
    maker = next(step for step in trace.steps if handle in step.results)
    number = maker.results.index(handle)
    return maker.error(f"that its result {number} is not used: ONNX's op does not give it")


def _input_names(step: Application) -> list[str]:
    """Return a name for each tensor among the operands: its parameter's, if there is one."""
    names: Sequence[str] = step.op.inputs
    if len(names) != len(step.operands):
        names = [f"{names[0]}_{i}" for i in range(len(step.operands))]
    return [n for n, x in zip(names, step.operands, strict=True) if isinstance(x, Handle)]


def _reads(body: SymbolicTrace) -> Iterator[Handle]:
    """Give the values that a body reads, and is not given and does not make."""
    made: set[Handle] = set(body.inputs)
    for step in body.steps:
        of_bodies = (h for body in step.bodies for h in _reads(body))
        for x in (*step.operands, *of_bodies):
            if isinstance(x, Handle) and x not in made:
                yield x
        made.update(step.results)
    for handle in body.results:
        if handle not in made:
            yield handle


def _distinct(graph: Graph, results: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
    """Return results under names of their own: none an input's, none twice."""
    taken = {x.name for x in inputs}
    found = []
    for value in results:
        if value.name in taken:
            (name,) = graph.add("Identity", [value.name], 1, attrs={})
            value = Value(name, value.dtype, value.shape)
        taken.add(value.name)
        found.append(value)
    return found


def renamed(nodes: Sequence[NodeProto], old: str, new: str) -> None:
    """Rename a value in all nodes."""
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
        renamed(list(subgraph_nodes(node)), old, new)
