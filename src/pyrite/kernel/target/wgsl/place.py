"""Places of elements in a memory that WGSL sees as an array of vectors.

In an index that is a sum, the terms that are multiples of a vector's width are told from the rest,
so that neighbouring places differ by constants.
"""

from __future__ import annotations

from collections import defaultdict

from pyrite.kernel.ir import Kernel, Node


def vector_widths(kernel: Kernel) -> dict[Node, int]:
    """Return how many elements of each memory make one element of its array in WGSL.

    More than 1 where every access is an aligned vector, a load of single elements, or, in shared
    memory, a store of one: a component of a vector in a buffer is not to be written while another
    invocation writes its neighbour.
    """
    vectors: defaultdict[Node, set[int]] = defaultdict(set)
    forced: set[Node] = set()
    for node in kernel.walk():
        if node.kind not in ("load", "store"):
            continue
        memory, index = node.inputs[:2]
        value = node if node.kind == "load" else node.inputs[2]
        width = value.value_type.width
        if index.value_type.width > 1 or width == 1:
            if node.kind == "store" and not _is_shared(memory):
                forced.add(memory)
        elif node.attr:
            vectors[memory].add(2 if width == 2 else 4)
        else:
            forced.add(memory)
    memories = [*kernel.buffers, *(n for n in kernel.walk() if n.kind == "alloc")]
    return {m: 1 if m in forced else min(vectors[m], default=1) for m in memories}


def is_multiple(index: Node, of: int) -> bool:
    """Whether an index is known to be a multiple of a number."""
    if index.kind == "const":
        return bool(index.attr % of == 0)
    if index.kind != "alu":
        return False
    if index.attr == "mul":
        return any(is_multiple(i, of) for i in index.inputs)
    return index.attr in ("add", "min", "max") and all(is_multiple(i, of) for i in index.inputs)


def factor_of(index: Node, of: int) -> tuple[Node, int] | None:
    """Return the factors of a product whose second is a constant, and a multiple of a number."""
    if index.attr != "mul":
        return None
    x, y = index.inputs
    if x.kind == "const":
        x, y = y, x
    return (x, y.attr) if y.kind == "const" and y.attr % of == 0 else None


def is_sum(index: Node) -> bool:
    return index.kind == "alu" and index.attr == "add"


def less_multiples(index: Node, of: int) -> Node:
    """Return an index without the terms that are multiples of a number."""
    while is_sum(index):
        x, y = index.inputs
        if is_multiple(y, of):
            index = x
        elif is_multiple(x, of):
            index = y
        else:
            break
    return index


def _is_shared(memory: Node) -> bool:
    return bool(memory.kind == "alloc" and memory.attr[0] == "shared")
