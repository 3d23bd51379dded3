"""From a file to a `Graph`: the one place that knows ONNX's protobuf classes.

The large weights stay behind when the native code looks at a model (`inspection`), so what it reads
is small, and it never sees external data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto

from pyrite.errors import ModelImportError
from pyrite.onnx.converter import CONVERTERS
from pyrite.onnx.element import element
from pyrite.onnx.graph import Graph, Node, Size, ValueType, Weight
from pyrite.onnx.inspection import Inspection, InspectionError
from pyrite.onnx.message import one_line
from pyrite.onnx.weight import sparse_weight, weight
from pyrite.opening import PathLike, open_file

#: Weights of fewer bytes are shown to shape inference: shapes and axes are among them.
SHOWN = 1024


def read_model(source: PathLike | bytes) -> tuple[ModelProto, Path | None]:
    """Return a model as protobuf has it, and its folder.  Raises ModelImportError."""
    if isinstance(source, bytes):
        return _parsed(source, "bytes"), None
    path = Path(source)
    try:
        with open_file(path) as file:
            content = file.read()
    except OSError as error:
        raise ModelImportError(f"load requires a file that can be read, got: {error}") from None
    return _parsed(content, os.fspath(path)), path.parent.resolve()


def _parsed(content: bytes, called: str) -> ModelProto:
    try:
        model = ModelProto.FromString(content)
    except (DecodeError, RecursionError) as error:
        raise ModelImportError(f"load requires a model of ONNX, got {called}: {error}") from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelImportError(
            f"load requires a model of ONNX, got {called}, which has no graph or names no opset"
        )
    return model


def read_graph(model: ModelProto, folder: Path | None, inspection: Inspection) -> Graph:
    """Return a model's graph, checked, with functions expanded and types inferred.

    Raises ModelImportError for a model that ONNX's checker refuses.
    """
    _require_known_opsets(model)
    large = {t.name: t for t in model.graph.initializer if _is_large(t)}
    try:
        content = inspection(_skeleton(model, large).SerializeToString(), sorted(CONVERTERS))
        inferred = ModelProto.FromString(content)
    except (InspectionError, DecodeError, ValueError) as error:
        said = one_line(str(error))[:2000]
        raise ModelImportError(f"load requires a valid model, got: {said}") from None
    versions = {_domain(o.domain): o.version for o in inferred.opset_import}
    graph = _Reader(folder, versions, large).graph(inferred.graph, "", {})
    if graph.captured:
        shown = ", ".join(map(repr, graph.captured[:10]))
        raise ModelImportError(f"load requires nodes that make all values, got none for {shown}")
    return graph


def _require_known_opsets(model: ModelProto) -> None:
    newest = onnx.defs.onnx_opset_version()
    for imported in model.opset_import:
        if imported.domain in ("", "ai.onnx") and imported.version > newest:
            raise ModelImportError(
                f"load requires an opset up to {newest}, which the installed onnx "
                f"{onnx.__version__} knows, got {imported.version}; pip install -U onnx"
            )


def _domain(name: str) -> str:
    """Return a domain by its shorter name, of which ONNX's own has two."""
    return "" if name == "ai.onnx" else name


def _is_large(tensor: TensorProto) -> bool:
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.ByteSize() > SHOWN)


def _skeleton(model: ModelProto, large: Mapping[str, TensorProto]) -> ModelProto:
    """Return the model with its large weights as inputs of their types."""
    bare = ModelProto()
    bare.CopyFrom(_without_initializers(model))
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in large:
            bare.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            bare.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return bare


def _without_initializers(model: ModelProto) -> ModelProto:
    # Field by field, so that no large weight is copied.
    bare = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _assign(bare, field, value)
    bare.graph.SetInParent()
    for field, value in model.graph.ListFields():
        if field.name not in ("initializer", "quantization_annotation"):
            _assign(bare.graph, field, value)
    return bare


def _assign(message: Any, field: Any, value: Any) -> None:
    if isinstance(value, str | bytes | int | float):
        setattr(message, field.name, value)
    elif hasattr(value, "MergeFrom") and not hasattr(value, "extend"):
        getattr(message, field.name).MergeFrom(value)
    else:
        getattr(message, field.name).extend(value)


@dataclass(frozen=True)
class _Reader:
    """Reads graphs of one model."""

    folder: Path | None
    versions: Mapping[str, int]
    large: Mapping[str, TensorProto]

    def graph(self, proto: GraphProto, path: str, outer: Mapping[str, ValueType]) -> Graph:
        """Return a graph, or the body of a node at a path, with the types of names around it."""
        weights = dict(self._weights(proto, path))
        types = dict(outer)
        types.update({name: ValueType(w.element, w.shape) for name, w in weights.items()})
        for value in (*proto.input, *proto.output, *proto.value_info):
            types[value.name] = value_type(value.type)
        nodes = []
        for position, node in enumerate(proto.node):
            if node.op_type == "Constant" and not _domain(node.domain):
                weights.update(self._constant(node, path))
            else:
                nodes.append(self._node(node, f"{path}{node.name or position}", types))
        inputs = tuple(v.name for v in proto.input if v.name not in weights)
        outputs = tuple(v.name for v in proto.output)
        return Graph(
            proto.name, inputs, outputs, tuple(nodes), MappingProxyType(weights),
            MappingProxyType(types),
        )  # fmt: skip

    def _weights(self, proto: GraphProto, path: str) -> Iterator[tuple[str, Weight]]:
        if not path:
            for name, tensor in self.large.items():
                yield name, weight(tensor, name, self.folder)
        for tensor in proto.initializer:
            yield tensor.name, weight(tensor, f"{path}{tensor.name}", self.folder)
        for sparse in proto.sparse_initializer:
            yield sparse.values.name, sparse_weight(sparse, f"{path}{sparse.values.name}")

    def _node(self, proto: Any, path: str, types: Mapping[str, ValueType]) -> Node:
        domain = _domain(proto.domain)
        attributes = {a.name: self._attribute(a, f"{path}/", types) for a in proto.attribute}
        return Node(
            proto.op_type,
            domain,
            self.versions.get(domain, 1),
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            MappingProxyType(attributes),
            tuple(types.get(name, ValueType()) for name in proto.input),
            tuple(types.get(name, ValueType()) for name in proto.output),
            scope_of(proto),
        )

    def _attribute(self, a: AttributeProto, path: str, types: Mapping[str, ValueType]) -> Any:
        """Return an attribute as a Python value: numbers, text, tuples, weights, graphs, types."""
        if a.type == AttributeProto.GRAPH:
            return self.graph(a.g, f"{path}{a.name}/", types)
        if a.type == AttributeProto.TENSOR:
            return weight(a.t, f"{path}{a.name}", self.folder, is_initializer=False)
        if a.type == AttributeProto.SPARSE_TENSOR:
            return sparse_weight(a.sparse_tensor, f"{path}{a.name}")
        if a.type == AttributeProto.TYPE_PROTO:
            return value_type(a.tp)
        found = onnx.helper.get_attribute_value(a)
        if isinstance(found, bytes):
            return found.decode(errors="replace")
        if a.type == AttributeProto.STRINGS:
            return tuple(text.decode(errors="replace") for text in found)
        if a.type == AttributeProto.TENSORS:
            return tuple(
                weight(t, f"{path}{a.name}", self.folder, is_initializer=False) for t in found
            )
        return found if isinstance(found, int | float) else tuple(found)

    def _constant(self, proto: Any, path: str) -> dict[str, Weight]:
        """Return a node Constant as the weight that it is."""
        (name,) = proto.output
        key = f"{path}{name}"
        if len(proto.attribute) != 1:
            raise ModelImportError(f"Constant requires one attribute, got several: {key!r}")
        attribute = proto.attribute[0]
        if attribute.name == "sparse_value":
            return {name: sparse_weight(attribute.sparse_tensor, key)}
        if attribute.name == "value":
            return {name: weight(attribute.t, key, self.folder, is_initializer=False)}
        value = onnx.helper.get_attribute_value(attribute)
        listed = attribute.name.endswith("s")
        numbers = list(value) if listed else [value]
        dims = [len(numbers)] if listed else []
        kind = attribute.name.removeprefix("value_").removesuffix("s")
        number = {"float": TensorProto.FLOAT, "int": TensorProto.INT64}.get(kind)
        tensor = onnx.helper.make_tensor(name, number or TensorProto.STRING, dims, numbers)
        return {name: weight(tensor, key, self.folder, is_initializer=False)}


def value_type(proto: TypeProto) -> ValueType:
    """Return a type of a file: of a sequence or an optional, its element's, with the kind."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        inner = value_type(proto.sequence_type.elem_type)
        return ValueType(inner.element, inner.shape, "sequence")
    if kind == "optional_type":
        inner = value_type(proto.optional_type.elem_type)
        return ValueType(inner.element, inner.shape, "optional")
    if kind != "tensor_type":
        return ValueType(None, None, kind or "tensor")
    tensor = proto.tensor_type
    shape = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return ValueType(element(tensor.elem_type), shape)


def _size(dimension: Any) -> Size:
    if dimension.HasField("dim_value"):
        return int(dimension.dim_value)
    return str(dimension.dim_param) or None


def scope_of(node: Any) -> tuple[str, ...] | None:
    """Return the path of the module that a node was traced in; None where nothing says it.

    PyTorch's exporters say it: one writes the paths of all modules around a node as metadata, the
    one before it names the node ``/layer1/layer1.0/conv1/Conv``.
    """
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            # Written by Python's repr: quoted paths, of which the last is the op's own name.
            found = re.findall(r"'([^']*)'", entry.value)[:-1]
            return tuple(filter(None, found[-1].split("."))) if found else None
    if not node.name.startswith("/"):
        return None
    return tuple(filter(None, node.name.split("/")[1:-1]))
