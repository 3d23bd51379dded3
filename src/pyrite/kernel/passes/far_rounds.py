"""Which loops lanes should run round by round together, so that they touch memory side by side.

A lane that goes through memory with the stride of a grid touches a line, or half of one, in each
round, and a page soon: all lanes together touch whole ones.  Such loops carry nothing of the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from pyrite.kernel.ir import Kernel, Node, Region, walk


def far_rounds(kernel: Kernel, around: Collection[Node], varies: Collection[Node]) -> set[Node]:
    """Return the loops whose rounds are far apart in memory, of all in which lanes go together.

    ``around`` are the control nodes with barriers, ``varies`` what differs between lanes.
    """
    found: set[Node] = set()

    def look(region: Region) -> None:
        for node in region.body:
            if node in around:
                for inner in node.regions:
                    look(inner)
            elif node.kind == "for" and _goes_together(node, varies):
                if _is_far(node, kernel.invocations):
                    found.add(node)

    if kernel.invocations > 1:
        look(kernel.body)
    return found


def _goes_together(loop: Node, varies: Collection[Node]) -> bool:
    """Whether all lanes run a loop as often, and it carries nothing of them."""
    (region,) = loop.regions
    used = (loop, *loop.inputs, *region.parameters, *region.yields)
    return not any(n in varies for n in used)


def _is_far(loop: Node, lanes: int) -> bool:
    """Whether rounds touch buffers, write, and are further apart than what all lanes touch."""
    (region,) = loop.regions
    counter, step = region.parameters[0], loop.attr[0]
    touched = [n for n in walk(region) if n.kind in _WIDTH_OF and n.inputs[0].kind == "buffer"]
    known: dict[Node, float] = {counter: 1.0}
    strides = [
        (
            abs(_per_round(n.inputs[1], known)) * step,
            n.inputs[_WIDTH_OF[n.kind]] if n.kind != "load" else n,
        )
        for n in touched
    ]
    far = [stride >= lanes * value.value_type.width for stride, value in strides if stride]
    writes = any(n.effect == "write" for n in walk(region))
    return writes and bool(far) and all(far)


#: Where the value of an access stands among its inputs.
_WIDTH_OF = {"load": 0, "store": 2, "atomic": 2}


def _per_round(index: Node, known: dict[Node, float]) -> float:
    """Return by how much an index grows with a counter: infinity by a size that is not known.

    One whose growth is no number, as that of a remainder or of what was read, is 0.5.
    """
    found = known.get(index)
    if found is None:
        found = known[index] = _grown(index, [_per_round(i, known) for i in index.inputs])
    return found


def _grown(node: Node, of: list[float]) -> float:
    if not any(of):
        return 0.0
    if node.kind in ("splat", "cast"):
        return of[0]
    if node.kind == "alu" and node.attr in ("add", "sub"):
        x, y = of
        return x + y if node.attr == "add" else x - y
    if node.kind == "alu" and node.attr == "mul" and not all(of):
        rate, other = (of[0], node.inputs[1]) if of[0] else (of[1], node.inputs[0])
        return rate * other.attr if _is_number(other) else math.inf
    return _UNKNOWN


_UNKNOWN = 0.5


def _is_number(node: Node) -> bool:
    return node.kind == "const" and isinstance(node.attr, int)
