"""Joins neighbours into several vectors side by side, where one alone would wait for itself.

A loop that adds to one vector, as that of a product, starts a round when the sum of the last one is
there: a processor could do several rounds meanwhile.  So more neighbours run it together, each
vector of them a strip; what they share, as a scalar that all multiply by, is read once.
"""

from __future__ import annotations

from typing import Final

from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.kernel.passes.eliminate_dead import eliminate_dead
from pyrite.kernel.passes.vector_subgroups import SUBGROUP, has_subgroups
from pyrite.kernel.passes.vectorize import vectorize

#: Operations on vectors that a processor begins while it waits for one addition, two or three of
#: them in a cycle: with a round of so many there is nothing left to gain.
_IN_FLIGHT: Final = 16
#: What asks for indices and borders, once for all strips, takes as long as the rest of a stencil.
_OF_STENCIL: Final = 2
#: Vectors that live in a loop, of all strips: half of the registers of AVX-512, all but a few of
#: AVX2.
_MOST_LIVE: Final = 12


def vectorize_in_strips(kernel: Kernel, lanes: int) -> Kernel:
    """Return the kernel with neighbours joined, ``lanes`` of them or two or four times as many.

    Where they ask each other for something, a vector is a subgroup.
    """
    if has_subgroups(kernel):
        return vectorize(kernel, SUBGROUP)
    one = vectorize(kernel, lanes)
    plain = eliminate_dead(one)
    most = 1 if one is kernel else _strips(plain)
    is_fit = _is_stencil if _is_stencil(plain) else _is_consecutive
    for strips in (4, 2):
        if strips <= most:
            several = vectorize(kernel, lanes * strips)
            if several is not kernel and is_fit(eliminate_dead(several)):
                return several
    return one


def _strips(kernel: Kernel) -> int:
    """Return how many strips all loops have use for; 1 where there is no such loop."""
    if _is_stencil(kernel):
        return _OF_STENCIL
    if not _is_consecutive(kernel):
        return 1
    found = [_strips_of(n.regions[0]) for n in kernel.walk() if n.kind == "for"]
    wanted = [n for n in found if n is not None]
    return min(wanted, default=1)


def _strips_of(body: Region) -> int | None:
    """Return the strips of a loop; None for one that adds to no vector, or has others inside."""
    carried = [p for p in body.parameters if _is_wide(p)]
    if not carried:
        return None
    if any(n.regions for n in body.body):
        return None
    inside = {*body.body, *body.parameters}
    given = {i for n in body.body for i in n.inputs if _is_wide(i)} - inside
    work = sum(_is_wide(n) and n.kind not in ("const", "splat") for n in body.body)
    live = len(carried) + sum(n.kind != "const" for n in given)
    return min(_IN_FLIGHT // max(work, 1), _MOST_LIVE // live)


def _is_wide(node: Node) -> bool:
    return node.type is not None and node.value_type.width > 1


def _is_consecutive(kernel: Kernel) -> bool:
    """Whether all that vectors read and write is consecutive, and without masks."""
    at_borders = {n for branch in kernel.walk() if _is_near(branch) for n in branch.regions[1].body}
    touched = [n for n in kernel.walk() if n.kind in _PLAIN and n not in at_borders]
    return all(len(n.inputs) == _PLAIN[n.kind] and not _is_wide(n.inputs[1]) for n in touched)


def _is_stencil(kernel: Kernel) -> bool:
    """Whether it has no loops, and reads what follows each other but for some vectors."""
    nodes = list(kernel.walk())
    if any(n.kind in ("for", "while") or _parts_rows(n) for n in nodes):
        return False
    return any(map(_is_near, nodes)) and _is_consecutive(kernel)


def _parts_rows(node: Node) -> bool:
    """Whether it tells neighbours apart by their rows, so that many would be gathered."""
    return node.kind == "alu" and node.attr in ("div", "rem") and _is_wide(node)


def _is_near(node: Node) -> bool:
    """Whether it is an access that is consecutive, or gathered: see `NearLanes`."""
    if node.kind != "if":
        return False
    sides = [[n.kind for n in region.body] for region in node.regions]
    return sides in ([["load"], ["load"]], [["store"], ["store"]])


#: Operands of an access without a mask.
_PLAIN: Final = {"load": 2, "store": 3}
