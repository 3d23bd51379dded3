"""Kernels as plain values, and back: parameters and facts at once, the body when it is asked for.

Most of what wants a kernel from disk wants its parameters, its digest, or what somebody found out
of it (`pyrite.kernel.fact`).  To make a node takes a microsecond, and large kernels have thousands;
so a body stays bytes until a pass, a printer or an explanation walks it.  JSON has all numbers that
Python has, NaN and -0.0 too; its arrays are tuples here, as an ``attr`` has no lists.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from pyrite.kernel.fact import facts_of
from pyrite.kernel.ir import Kernel, Kind, Node, Region, Type, vector
from pyrite.types import dtype

#: A region: types and attrs of its parameters; kind, type, inputs, attr and regions of its nodes;
#: what it yields.  Nodes are numbers, in the order in which they are made, types too.
_Written = tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, ...]]


class EncodedKernel(Kernel):
    """A kernel whose body, and the lines of whose nodes, are decoded when they are asked for."""

    #: The body and the lines of its nodes.
    _encoded: bytes

    @cached_property
    def body(self) -> Region:
        """The nodes."""
        return self._decoded[0]

    @cached_property
    def lines(self) -> dict[Node, str]:
        """The user's lines of nodes."""
        return self._decoded[1]

    @cached_property
    def _decoded(self) -> tuple[Region, dict[Node, str]]:
        written, types, lines = json.loads(zlib.decompress(self._encoded))
        reader = _Reader([*self.parameters], [_type_of(t) for t in types])
        body = reader.region(written)
        return body, {reader.nodes[n]: line for n, line in lines}


def encoded(kernel: Kernel) -> tuple[dict[str, Any], bytes]:
    """Return a kernel and its facts as values that JSON has, and its body as bytes.

    >>> from pyrite.kernel import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x = b.buffer("x", float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> kernel = b.build()
    >>> again = decoded(*encoded(kernel))
    >>> again.digest == kernel.digest, "body" in vars(again)
    (True, False)
    >>> len(again.body.body) == len(kernel.body.body)
    True
    """
    head = {
        "name": kernel.name,
        "parameters": [(p.kind, _text_of(p.value_type), p.attr) for p in kernel.parameters],
        "workgroup_size": kernel.workgroup_size, "grid": kernel.grid, "index": kernel.index.name,
        "digest": kernel.digest, "facts": facts_of(kernel),
    }  # fmt: skip
    return head, _encoded_body(kernel)


def _encoded_body(kernel: Kernel) -> bytes:
    if isinstance(kernel, EncodedKernel):
        return kernel._encoded
    writer = _Writer({node: n for n, node in enumerate(kernel.parameters)}, {})
    body, numbers = writer.region(kernel.body), writer.numbers
    lines = [(numbers[node], line) for node, line in kernel.lines.items() if node in numbers]
    written = json.dumps((body, [_text_of(t) for t in writer.types], lines))
    return zlib.compress(written.encode(), 1)


def pack(kernel: Kernel) -> None:
    """Have the body of a kernel be bytes until somebody asks for it, whoever holds the kernel.

    One that has what JSON has not, as an application's may, stays as it is.

    >>> from pyrite.kernel import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x = b.buffer("x", float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> kernel = b.build()
    >>> count = len(kernel.body.body)
    >>> pack(kernel)
    >>> "body" in vars(kernel), len(kernel.body.body) == count
    (False, True)
    """
    with suppress(TypeError):
        state = vars(kernel)
        state["_encoded"] = _encoded_body(kernel)
        # From here on who asks finds the nodes, or what decodes them.
        object.__setattr__(kernel, "__class__", EncodedKernel)
        for name in ("body", "lines", "_decoded"):
            state.pop(name, None)


def decoded(head: Mapping[str, Any], body: bytes) -> Kernel:
    """Return the kernel of which `encoded` made values, which may have been JSON meanwhile."""
    made: EncodedKernel = EncodedKernel.__new__(EncodedKernel)
    made.__dict__.update(
        name=head["name"], workgroup_size=tuples_of(head["workgroup_size"]), grid=head["grid"],
        parameters=tuple([_parameter(*p) for p in head["parameters"]]),
        index=dtype(head["index"]), digest=head["digest"], _encoded=body,
        facts={name: tuples_of(found) for name, found in head["facts"].items()},
    )  # fmt: skip
    return made


def _parameter(kind: Kind, type: Sequence[Any], attr: Any) -> Node:
    return Node(kind, _type_of(type), (), tuples_of(attr))


def tuples_of(value: Any) -> Any:
    """Return a value of JSON with tuples for its arrays."""
    return tuple(map(tuples_of, value)) if isinstance(value, list | tuple) else value


def _text_of(type: Type | None) -> tuple[str, int] | None:
    return None if type is None else (type.dtype.name, type.width)


def _type_of(text: Sequence[Any] | None) -> Type | None:
    return None if text is None else vector(dtype(text[0]), text[1])


class _Writer:
    """Gives nodes numbers, in the order in which `_Reader` makes them, and types too."""

    def __init__(self, numbers: dict[Node, int], types: dict[Type | None, int]) -> None:
        self.numbers = numbers
        self.types = types

    def region(self, region: Region) -> _Written:
        """Return a region by numbers."""
        numbers = self.numbers
        parameters = []
        for node in region.parameters:
            numbers[node] = len(numbers)
            parameters.append((self._type(node), node.attr))
        body = []
        for node in region.body:
            inputs = tuple([numbers[i] for i in node.inputs])
            regions = tuple([self.region(r) for r in node.regions])
            body.append((node.kind, self._type(node), inputs, node.attr, regions))
            numbers[node] = len(numbers)
        return tuple(parameters), tuple(body), tuple([numbers[y] for y in region.yields])

    def _type(self, node: Node) -> int:
        return self.types.setdefault(node.type, len(self.types))


class _Reader:
    """Makes the nodes of regions again."""

    def __init__(self, nodes: list[Node], types: list[Type | None]) -> None:
        self.nodes = nodes
        self.types = types

    def region(self, written: _Written) -> Region:
        """Return the region of which `_Writer` made numbers."""
        parameters, body, yields = written
        nodes, types = self.nodes, self.types
        own = [Node("parameter", types[type], (), tuples_of(attr)) for type, attr in parameters]
        nodes += own
        made: list[Node] = []
        for kind, type, inputs, attr, regions in body:
            of = tuple([nodes[i] for i in inputs])
            inside = tuple([self.region(r) for r in regions])
            node = Node(kind, types[type], of, tuples_of(attr), inside)
            nodes.append(node)
            made.append(node)
        return Region(tuple(own), tuple(made), tuple([nodes[y] for y in yields]))
