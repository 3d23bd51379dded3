"""Which extents of a problem, sizes and strides, say where a kernel stores."""

from __future__ import annotations

from collections.abc import Collection

from pyrite.kernel.ir import Kernel, Node


def extents_of_stores(kernel: Kernel, buffers: Collection[int]) -> tuple[int, ...]:
    """Return the positions of the extents that places in buffers, by position, are multiples of.

    If a number divides these, it may divide the places too.  What is behind a quotient or a
    remainder by an extent is left out: nothing is known of those anyway.
    """
    places: list[Node] = []
    begins: dict[Node, Node] = {}
    for node in kernel.walk():
        if node.kind == "for":
            begins[node.regions[0].parameters[0]] = node.inputs[0]
        elif node.kind == "store" and _is_buffer(node.inputs[0], buffers):
            places.append(node.inputs[1])
    found: set[Node] = set()
    while places:
        node = places.pop()
        if node not in found:
            found.add(node)
            places += [begins[node]] if node in begins else _parts(node)
    return tuple(sorted(node.attr[0] for node in found if _is_extent(node)))


def _is_buffer(memory: Node, buffers: Collection[int]) -> bool:
    return memory.kind == "buffer" and memory.attr[0] in buffers


def _is_extent(node: Node) -> bool:
    """Whether it is an argument of which something is known: those are symbols of a problem."""
    is_known = node.kind == "argument" and len(node.attr) == 3
    return is_known and node.value_type.dtype.is_integer


def _parts(node: Node) -> tuple[Node, ...]:
    """Return what a place is computed of."""
    if node.kind not in ("alu", "cast", "select", "splat"):
        return ()
    if node.attr in ("div", "rem") and node.inputs[1].kind != "const":
        return ()
    return node.inputs
