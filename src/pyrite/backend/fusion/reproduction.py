"""A file with all that it takes to run a graph again: its ops, its inputs, and what came of it.

It is a NumPy archive without pickled objects: ``graph`` is JSON, ``input<n>`` are tensors and
numbers by their position, ``found<n>`` and ``plain<n>`` what the program and its ops gave.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pyrite._version import __version__
from pyrite.backend.graph import Graph, Input, Literal, Node, Operand, content_of_node
from pyrite.backend.protocol import Backend
from pyrite.config import config
from pyrite.errors import DataError
from pyrite.op import OPS, Constant
from pyrite.types import Array, DType, TensorType, dtype


def write_reproduction(
    backend: Backend, graph: Graph, inputs: Sequence[Any],
    found: Sequence[Array] | None, plain: Sequence[Array] | None,
) -> Path:  # fmt: skip
    """Write the file, as a whole, to the folder ``config.reproductions``; return its path."""
    arrays: dict[str, Array] = {"graph": np.array(json.dumps(graph_as_json(backend, graph)))}
    for n, x in enumerate(inputs):
        arrays[f"input{n}"] = x.numpy() if isinstance(x, Constant) else backend.download(x)
    for name, results in (("found", found), ("plain", plain)):
        arrays |= {f"{name}{n}": array for n, array in enumerate(results or ())}
    folder = Path(config.reproductions or _default_folder()).expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, part = tempfile.mkstemp(suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{n: _plain(a) for n, a in arrays.items()})
        path = Path(part).with_suffix(".npz")
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return path


@dataclass(frozen=True)
class Reproduction:
    """What a file says: a graph, what it was run on, and what a program and its ops gave."""

    graph: Graph
    inputs: list[Any]
    found: list[Array]
    plain: list[Array]

    def run(self, backend: Backend) -> list[Array]:
        """Return what a program of the graph gives on a backend now."""
        given = [x if isinstance(x, Constant) else backend.upload(x) for x in self.inputs]
        return backend.download_all(backend.compile(self.graph, given).run(given, {}))


def read_reproduction(path: str | Path) -> Reproduction:
    """Return what a file of `write_reproduction` says.

    Raises DataError where an attribute was of a kind that such a file does not hold.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    facts = json.loads(str(arrays["graph"]))
    inputs = tuple([
        Input(i["position"], _type(i["type"]), i["is_number"], i["value"]) for i in facts["inputs"]
    ])  # fmt: skip
    nodes: list[Node] = []
    first = len(inputs)
    for of in facts["nodes"]:
        op, types = OPS[of["op"]], tuple([_type(t) for t in of["types"]])
        operands = tuple([_operand(x) for x in of["operands"]])
        attrs = {name: _value(x) for name, x in of["attrs"].items()}
        nodes.append(Node(op, operands, attrs, types, first, content_of_node(op, operands, attrs)))
        first += len(types)
    graph = Graph(inputs, tuple(nodes), tuple(facts["results"]))
    count = 1 + max((i.position for i in inputs), default=-1)
    given: list[Any] = [None] * count
    for i in inputs:
        array = _typed(arrays[f"input{i.position}"], i.type.dtype)
        given[i.position] = Constant(array.item(), i.type) if i.is_number else array

    def results(name: str) -> list[Array]:
        return [
            _typed(arrays[f"{name}{n}"], type.dtype)
            for n, type in enumerate(graph.out) if f"{name}{n}" in arrays
        ]  # fmt: skip

    return Reproduction(graph, given, results("found"), results("plain"))


def graph_as_json(backend: Backend, graph: Graph) -> dict[str, Any]:
    """Return a graph and where it ran as what JSON can hold."""
    return {
        "pyrite": __version__, "device": backend.name, "details": backend.details,
        "platform": platform.platform(),
        "inputs": [
            {"position": i.position, "type": str(i.type), "is_number": i.is_number,
             "value": i.value} for i in graph.inputs
        ],
        "nodes": [
            {"op": node.op.name, "operands": [_operand_as_json(x) for x in node.operands],
             "attrs": {name: _as_json(value) for name, value in node.attrs.items()},
             "types": [str(type) for type in node.types]} for node in graph.nodes
        ],
        "results": list(graph.results),
    }  # fmt: skip


def _operand_as_json(x: Operand) -> Any:
    return {"literal": x.value, "dtype": x.dtype.name} if isinstance(x, Literal) else x


def _operand(x: Any) -> Operand:
    if isinstance(x, dict):
        return Literal(x["literal"], dtype(x["dtype"]))
    found: int | None = x
    return found


def _as_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_as_json(x) for x in value]}
    if isinstance(value, DType):
        return {"dtype": value.name}
    return {"unknown": repr(value)}


def _value(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    ((kind, inner),) = found.items()
    if kind == "dtype":
        return dtype(inner)
    if kind == "unknown":
        raise DataError(f"a reproduction requires attributes that JSON holds, got {inner}")
    items = [_value(x) for x in inner]
    return tuple(items) if kind == "tuple" else items


def _type(text: str) -> TensorType:
    """Return the type of a text: ``float32[3, 4]``."""
    name, _, sizes = text.removesuffix("]").partition("[")
    return TensorType(tuple([int(n) for n in sizes.split(",") if n.strip()]), dtype(name))


def _plain(array: Array) -> Array:
    """Return an array as one of a dtype that NumPy's files know."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _typed(array: Array, of: DType) -> Array:
    return array.view(of.numpy) if of.name == "bfloat16" else array


def _default_folder() -> Path:
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"pyrite-reproductions{user}"
