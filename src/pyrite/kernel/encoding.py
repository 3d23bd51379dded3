"""Kernels as bytes, and back: the parameters and the facts at once, the body when it is asked for.

Most of what wants a kernel from disk wants its parameters, its digest, or what somebody found out
of it (`pyrite.kernel.fact`).  To make a node takes a microsecond, and large kernels have thousands;
so a body stays bytes until a pass, a printer or an explanation walks it.

What is decoded is what was encoded, in a folder of this user's (`pyrite.runtime.folder`) and by the
same sources: `pickle` reads it, as it may run code from there anyway.
"""

from __future__ import annotations

import pickle
import zlib
from functools import cached_property
from typing import Any, NamedTuple

from pyrite.kernel.fact import facts_of
from pyrite.kernel.ir import Kernel, Node, Region

#: Node as it is written: kind, type, the numbers of its inputs, attr, regions.
_Written = tuple[Any, ...]


class EncodedKernel(Kernel):
    """A kernel whose body, and the lines of whose nodes, are decoded when they are asked for."""

    _encoded: bytes

    @cached_property
    def body(self) -> Region:  # type: ignore[override]
        """The nodes."""
        return self._decoded[0]

    @cached_property
    def lines(self) -> dict[Node, str]:  # type: ignore[override]
        """The user's lines of nodes."""
        return self._decoded[1]

    @cached_property
    def _decoded(self) -> tuple[Region, dict[Node, str]]:
        written, lines = pickle.loads(zlib.decompress(self._encoded))
        nodes = [*self.parameters]
        return _region_of(written, nodes), {nodes[n]: line for n, line in lines.items()}


class EncodedParts(NamedTuple):
    """A kernel as numbers, strings, bytes and types; ``body`` is decoded when it is asked for."""

    name: str
    parameters: tuple[_Written, ...]
    workgroup_size: tuple[int, int, int]
    grid: int
    index: Any
    digest: str
    facts: dict[str, Any]
    body: bytes


def encoded(kernel: Kernel) -> EncodedParts:
    """Return a kernel and its facts as a value that `pickle` takes.

    >>> from pyrite.kernel import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x = b.buffer("x", float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> kernel = b.build()
    >>> again = decoded(encoded(kernel))
    >>> again.digest == kernel.digest, "body" in vars(again), len(again.body.body)
    (True, False, 7)
    """
    numbers = {node: n for n, node in enumerate(kernel.parameters)}
    parameters = tuple([(p.kind, p.type, (), p.attr, ()) for p in kernel.parameters])
    body = _written_region(kernel.body, numbers)
    lines = {numbers[node]: line for node, line in kernel.lines.items() if node in numbers}
    return EncodedParts(
        kernel.name, parameters, kernel.workgroup_size, kernel.grid, kernel.index, kernel.digest,
        facts_of(kernel), zlib.compress(pickle.dumps((body, lines), protocol=5), 1),
    )  # fmt: skip


def decoded(head: EncodedParts) -> Kernel:
    """Return the kernel of which `encoded` made a value."""
    made: EncodedKernel = EncodedKernel.__new__(EncodedKernel)
    made.__dict__.update(
        name=head.name, parameters=tuple([Node(*p) for p in head.parameters]),
        workgroup_size=head.workgroup_size, grid=head.grid, index=head.index, digest=head.digest,
        facts=head.facts, _encoded=head.body,
    )  # fmt: skip
    return made


def _written_region(region: Region, numbers: dict[Node, int]) -> _Written:
    """Return a region by the numbers of its nodes, in the order in which they are made."""
    parameters = []
    for node in region.parameters:
        numbers[node] = len(numbers)
        parameters.append((node.type, node.attr))
    body = []
    for node in region.body:
        inputs = tuple([numbers[i] for i in node.inputs])
        regions = tuple([_written_region(r, numbers) for r in node.regions])
        body.append((node.kind, node.type, inputs, node.attr, regions))
        numbers[node] = len(numbers)
    return tuple(parameters), tuple(body), tuple([numbers[y] for y in region.yields])


def _region_of(written: _Written, nodes: list[Node]) -> Region:
    parameters, body, yields = written
    own = [Node("parameter", type, (), attr) for type, attr in parameters]
    nodes += own
    made: list[Node] = []
    for kind, type, inputs, attr, regions in body:
        of = tuple([nodes[i] for i in inputs])
        node = Node(kind, type, of, attr, tuple([_region_of(r, nodes) for r in regions]))
        nodes.append(node)
        made.append(node)
    return Region(tuple(own), tuple(made), tuple([nodes[y] for y in yields]))
