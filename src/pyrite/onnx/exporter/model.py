"""`export`: a model of Pyrite as a file of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, helper

from pyrite._version import __version__
from pyrite.autodiff.mode import training_mode
from pyrite.backend.device import default_device_here
from pyrite.errors import ArgumentError, ModelExportError
from pyrite.nn import Module
from pyrite.onnx.exporter.call import Value, onnx_dtype
from pyrite.onnx.exporter.file import require_valid, save
from pyrite.onnx.exporter.overlay import overlay
from pyrite.onnx.exporter.registry import DEFAULT_OPSET, OLDEST_OPSET, Types, exporter_of, is_own
from pyrite.onnx.exporter.sampling import Point, Samples, sampled
from pyrite.onnx.exporter.signature import (
    Arguments,
    Axes,
    arguments_of,
    dynamic_axes,
    named_results,
    named_tensors,
    sizes_of,
)
from pyrite.onnx.exporter.size import Size, Varying
from pyrite.onnx.exporter.tracer import ModelTracer, Trace
from pyrite.onnx.exporter.writer import Writer, renamed
from pyrite.op import Attributes, Op, public
from pyrite.opening import PathLike
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_items, tree_map
from pyrite.types import TensorType

#: The newest opset that is written: what a newer one changes nobody has looked at.
NEWEST_OPSET = 24


@public
def export(
    model: Module,
    example: Any,
    path: PathLike,
    *,
    dynamic: Mapping[str, Axes] | None = None,
    opset: int = DEFAULT_OPSET,
    external_data: bool | None = None,
    domains: Mapping[str, str] | None = None,
) -> None:
    """Write a model as a file of ONNX, as it computes in evaluation.

    example: the arguments of ``forward``: a tensor, a tuple in order, or a dict by name.  Values do
    not matter, only shapes and dtypes.
    dynamic: names of axes whose sizes may differ, by input: ``{"x": {0: "batch"}}``; the names of
    inputs may be patterns, ``"cache.*"``.  All other sizes are the example's.
    opset: the version of ONNX's ops, 18 to 24.
    external_data: whether weights are in a file beside it, ``<path>.data``; None for only where
    they take 2 GiB.
    domains: of an application's ops those that the runtime has itself, and in which domain.

    Ops that ONNX has are written as such, others as what they are made of; an application's
    composites become functions.  Raises ModelExportError, at the line of the model, for what a
    graph cannot hold: a branch on a value, a read, a random draw, a loop over a dynamic axis.

    >>> import pyrite, tempfile
    >>> from pyrite import nn
    >>> file = tempfile.mkdtemp() + "/model.onnx"
    >>> export(nn.Linear(4, 2), pyrite.ones((1, 4)), file, dynamic={"x": {0: "batch"}})
    """
    _require_evaluation(model)
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise ArgumentError(
            f"export requires {OLDEST_OPSET} <= opset <= {NEWEST_OPSET}, got {opset}"
        )
    arguments = arguments_of(model, example)
    tensors = dict(named_tensors(arguments.values, ""))
    axes = dynamic_axes(tensors, dynamic or {})
    tracer = _Tracing(model, arguments, tensors, axes, opset, domains or {})
    samples = sampled(tracer, sizes_of(tensors, axes))
    trace = overlay(samples.traces)
    writer = Writer(opset, samples.fitted, domains or {})
    inputs, results = writer.write(trace, list(tensors))
    _name_results(writer, inputs, results, tracer.results)
    writer.graph.prune([r.name for r in results])
    made = _model(writer, inputs, results, _symbols(samples))
    arrays = writer.graph.initializers
    require_valid(made, arrays, writer.types)
    save(path, made, arrays, external_data)


def _require_evaluation(model: Module) -> None:
    if not isinstance(model, Module):
        raise ArgumentError(f"export requires an nn.Module, got {type(model).__name__}")
    training = [path for path, m in model.named_modules() if m._training]
    if training:
        where = repr(training[0]) if training[0] else "all of it"
        raise ModelExportError(
            f"export requires a model in evaluation, got with_training(True) in {where}; use "
            "model.with_training(None)"
        )


class _Tracing:
    """Traces a model at given sizes of its dynamic axes."""

    def __init__(
        self,
        model: Module,
        arguments: Arguments,
        tensors: Mapping[str, Tensor],
        axes: Mapping[str, Mapping[int, str]],
        opset: int,
        domains: Mapping[str, str],
    ) -> None:
        self._domains = domains
        self._model = model
        self._arguments = arguments
        self._tensors = tensors
        self._axes = axes
        self._opset = opset
        #: The names of the results, of the latest trace.
        self.results: list[str] = []

    def __call__(self, point: Point) -> Trace:
        tracer = ModelTracer(self._is_whole)
        inputs = {
            id(tensor): tracer.input(self._type(name, tensor, point))
            for name, tensor in self._tensors.items()
        }
        arguments = Arguments(
            tree_map(lambda t: inputs[id(t)], self._arguments.values), self._arguments.in_order
        )
        model = _on(self._model, tracer)
        tracer.name_layers(model)
        with training_mode(False), default_device_here(tracer):
            found = named_results(arguments.call(model))
        self.results = [name for name, _ in found]
        if not found:
            raise ModelExportError("export requires a model that returns tensors, got none")
        return tracer.finish([tensor for _, tensor in found])

    def _type(self, name: str, tensor: Tensor, point: Point) -> TensorType:
        symbols = self._axes[name]
        shape = (point[symbols[a]] if a in symbols else n for a, n in enumerate(tensor.shape))
        return TensorType(tuple(shape), tensor.dtype)

    def _is_whole(self, op: Op, types: Types, attrs: Attributes) -> bool:
        if not is_own(op):
            return op.name in self._domains
        return exporter_of(op, types, attrs, self._opset) is not None


def _on(model: Module, tracer: ModelTracer) -> Module:
    """Return a model whose parameters, states and constants are values of a trace."""
    names = {id(t): path for path, t in tree_items(model)}
    return tree_map(lambda t: tracer.constant(t, names[id(t)]), model)


def _name_results(
    writer: Writer, inputs: Sequence[Value], results: list[Value], names: Sequence[str]
) -> None:
    """Give results their names, ``output.x`` where x is an input's.

    One that is an input, a constant or given twice is a copy.
    """
    graph = writer.graph
    given = {x.name for x in inputs}
    taken = given | set(graph.initializers)
    for i, (value, wanted) in enumerate(zip(results, names, strict=True)):
        name = graph.name(f"output.{wanted}" if wanted in given else wanted)
        source = value.name
        if source in taken:
            (source,) = graph.add("Identity", [source], 1, attrs={})
        renamed(graph.nodes, source, name)
        results[:] = [Value(name, r.dtype, r.shape) if r.name == source else r for r in results]
        results[i] = Value(name, value.dtype, value.shape)
        taken.add(name)


def _model(
    writer: Writer, inputs: Sequence[Value], results: Sequence[Value], symbols: Mapping[Size, str]
) -> ModelProto:
    """Return the model, without its initializers."""
    graph = helper.make_graph(
        writer.graph.nodes,
        "model",
        [_info(x, symbols) for x in inputs],
        [_info(x, symbols) for x in results],
    )
    domains = {"": writer.opset, **dict.fromkeys(sorted(writer.graph.domains - {""}), 1)}
    return helper.make_model(
        graph,
        functions=list(writer.functions.values()),
        opset_imports=[helper.make_opsetid(d, v) for d, v in domains.items()],
        ir_version=helper.find_min_ir_version_for([helper.make_opsetid("", writer.opset)]),
        producer_name="pyrite",
        producer_version=__version__,
    )


def _symbols(samples: Samples) -> dict[Size, str]:
    """Return the symbol of each size that is a dynamic axis."""
    return {
        Varying(tuple(point[symbol] for point in samples.points)): symbol
        for symbol in samples.points[0]
    }


def _info(value: Value, symbols: Mapping[Size, str]) -> onnx.ValueInfoProto:
    shape = [n if isinstance(n, int) else symbols.get(n) for n in value.shape]
    return helper.make_tensor_value_info(value.name, onnx_dtype(value.dtype), shape)
