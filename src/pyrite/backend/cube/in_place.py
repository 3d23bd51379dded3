"""Which launches of a program may write a value over an operand that nobody reads later.

A kernel of elements may where an invocation reads of the operand what it writes of the result, no
more, and before: that is seen in the kernel.  That no element is written twice is said by who
launches it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyrite.backend.cube.block import Use
from pyrite.kernel import Kernel
from pyrite.kernel.fact import fact
from pyrite.kernel.ir import Node, Region, dtype_of


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A launch by the slots that it binds, by position, None for numbers.

    ``pairs`` are positions: what is read at the first one may lie where the second is written.
    """

    slots: tuple[int | None, ...]
    pairs: frozenset[tuple[int, int]]


def overwritable(kernel: Kernel) -> frozenset[tuple[int, int]]:
    """Return the parameters of a kernel that may be one buffer: one that it reads, one it writes.

    Each invocation loads of the first, once or often, the very elements that it stores to the
    second later, and nothing else.  Elements are of one size.  The kernel must not write an element
    twice, which is not seen here.

    >>> from pyrite.kernel import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    >>> y[b.global_id()] = x[b.global_id()] * 2.0
    >>> overwritable(b.build())
    frozenset({(0, 1)})
    """
    return frozenset(_overwritable(kernel))


@fact
def _overwritable(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    found = _accesses(kernel)
    positions = {p: n for n, p in enumerate(kernel.parameters)}
    read = [p for p in kernel.buffers if p.attr[2] == "read"]
    written = [p for p in kernel.buffers if p.attr[2] == "write" and len(found[p]) == 1]
    return tuple(
        (positions[x], positions[y])
        for y in written
        for x in read
        if dtype_of(x).itemsize == dtype_of(y).itemsize
        and all(_is_before(load, found[y][0]) for load in found[x])
    )


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store: in which region, its number there, and of which elements."""

    region: Region
    number: int
    node: Node

    @property
    def elements(self) -> tuple[Node, int, Node | None]:
        """The index, the width, and the mask: nodes are values, each made once."""
        node = self.node
        is_load = node.kind == "load"
        value = node if is_load else node.inputs[2]
        mask = node.inputs[2 if is_load else 3 :]
        return node.inputs[1], value.value_type.width, mask[0] if mask else None


def _is_before(load: _Access, store: _Access) -> bool:
    return (
        load.node.kind == "load"
        and store.node.kind == "store"
        and load.region is store.region
        and load.number < store.number
        and load.elements == store.elements
    )


def _accesses(kernel: Kernel) -> dict[Node, list[_Access]]:
    """Return what is done with each buffer of a kernel."""
    found: dict[Node, list[_Access]] = {p: [] for p in kernel.buffers}

    def look(region: Region) -> None:
        for number, node in enumerate(region.body):
            for x in node.inputs:
                if x in found and node.kind != "prefetch":
                    found[x].append(_Access(region, number, node))
            for inner in node.regions:
                look(inner)

    look(kernel.body)
    return found


def overwritten(
    launches: Sequence[Overwriting], uses: Mapping[int, Use], given: Collection[int],
    results: Collection[int], donated: Mapping[int, int], settled: int,
) -> tuple[dict[int, int], dict[int, int]]:  # fmt: skip
    """Return which results take the memory of inputs, and which slots that of others: old to new.

    Only the inputs ``donated``, by their bytes, are written over, by launches from ``settled`` on.
    """
    if not donated:
        return {}, in_place(launches, uses, {*given, *results})
    uses = {**uses, **{n: replace(uses[n], nbytes=donated[n]) for n in donated if n in uses}}
    late = [of if n >= settled else replace(of, pairs=frozenset()) for n, of in enumerate(launches)]
    over = in_place(late, uses, [n for n in uses if n not in donated])
    renewed = {new: old for old, new in over.items() if new in results}
    return renewed, in_place(launches, uses, {*given, *results}, taken=renewed)


def settled_at(launches: Sequence[int], checked: Collection[int]) -> int:
    """Return from which place on all launches that are ``checked`` were made once.

    >>> settled_at([0, 1, 2, 1, 3], {1, 2})
    3
    """
    first = {launch: place for place, launch in reversed([*enumerate(launches)])}
    return max((first[n] + 1 for n in checked), default=0)


def in_place(
    launches: Sequence[Overwriting], uses: Mapping[int, Use], kept: Collection[int],
    taken: Collection[int] = (),
) -> dict[int, int]:  # fmt: skip
    """Return the slots whose memory another one takes when they are read last, and which one.

    ``kept`` are slots whose memory nothing may take, inputs and results; ``taken`` those that have
    one's by now.
    """
    found: dict[int, int] = {}
    taken = {*taken}
    for n, launch in enumerate(launches):
        for x, y in sorted(launch.pairs):
            old, new = launch.slots[x], launch.slots[y]
            if old is None or new is None or old in kept or old in found or new in taken:
                continue
            is_last = uses[old].end == n == uses[new].begin
            if is_last and uses[old].nbytes == uses[new].nbytes and _is_free(launch, old, new, y):
                found[old] = new
                taken.add(new)
    return found


def _is_free(launch: Overwriting, old: int, new: int, written: int) -> bool:
    """Whether a launch binds a result once, and the operand only where it may be overwritten."""
    places = [n for n, slot in enumerate(launch.slots) if slot == old]
    is_once = launch.slots.count(new) == 1
    return is_once and all((n, written) in launch.pairs for n in places)


def last_of(found: Mapping[int, int], slot: int) -> int:
    """Return which slot a slot is in the end, of those that `in_place` found.

    >>> last_of({1: 2, 2: 5}, 1)
    5
    """
    while slot in found:
        slot = found[slot]
    return slot
