"""A graph of ONNX as it is written: nodes, initializers, and names that are taken once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from pyrite.types import Array


class Graph:
    """The nodes and constants of a model, or of a function, which has its constants as nodes."""

    def __init__(self, opset: int, *, is_function: bool = False) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        #: Arrays by name: parameters first, in order of use.
        self.initializers: dict[str, Array] = {}
        self.domains: set[str] = set()
        self._is_function = is_function
        self._taken: set[str] = set()
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def subgraph(self) -> Graph:
        """Return a graph inside this one, which sees its values: a branch."""
        inner = Graph(self.opset, is_function=self._is_function)
        inner.initializers, inner.domains = self.initializers, self.domains
        inner._taken = self._taken
        # In a function constants are nodes, which the graph around a branch does not see.
        inner._constants = dict(self._constants) if self._is_function else self._constants
        return inner

    def name(self, wanted: str) -> str:
        """Return a name that is not taken yet, and take it."""
        found, count = wanted, 0
        while found in self._taken:
            count += 1
            found = f"{wanted}_{count}"
        self._taken.add(found)
        return found

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: int,
        *,
        layer: str = "",
        domain: str = "",
        attrs: dict[str, Any],
    ) -> list[str]:
        """Add a node, named by its layer and op; return the names of its outputs."""
        node = self.name(f"{place(layer)}{op_type}")
        names = [self.name(f"{node}_output_{i}") for i in range(outputs)]
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.domains.add(domain)
        self.nodes.append(
            onnx.helper.make_node(op_type, inputs, names, name=node, domain=domain, **attrs)
        )
        return names

    def prune(self, results: Sequence[str]) -> None:
        """Leave out nodes and initializers that no result is made of."""
        wanted = set(results)
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.output):
                wanted.update(_reads(node))
                kept.append(node)
        self.nodes[:] = reversed(kept)
        self.initializers = {n: a for n, a in self.initializers.items() if n in wanted}

    def parameter(self, name: str, array: Array) -> str:
        """Add an initializer; return its name."""
        found = self.name(name)
        self.initializers[found] = array
        return found

    def constant(self, array: Array) -> str:
        """Return the name of a constant; equal ones are there once."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = array.dtype.name, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._new_constant(array)
        return found

    def _new_constant(self, array: Array) -> str:
        if not self._is_function:
            return self.parameter(_constant_name(array), array)
        value = numpy_helper.from_array(array)
        return self.add("Constant", (), 1, attrs={"value": value})[0]


def _reads(node: NodeProto) -> Iterator[str]:
    """Give the values that a node reads, and that the graphs inside it read."""
    yield from node.input
    for inner in subgraph_nodes(node):
        yield from _reads(inner)


def subgraph_nodes(node: NodeProto) -> Iterator[NodeProto]:
    """Give the nodes of the graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from attribute.g.node


def place(layer: str) -> str:
    """Return the beginning of names in a layer: ``/encoder/layers.0/`` of ``encoder.layers.0``."""
    found = ""
    for part in filter(None, layer.split(".")):
        found += f".{part}" if part.isdecimal() and found else f"/{part}"
    return f"{found}/"


def _constant_name(array: Array) -> str:
    """Return a name that shows a small constant."""
    if array.size > 4:
        return f"constant_{'x'.join(map(str, array.shape))}"
    return f"constant_{','.join(map(str, array.reshape(-1).tolist()))}"
