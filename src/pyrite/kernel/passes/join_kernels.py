"""Makes one kernel of several that share nothing they write: each workgroup runs one of them.

Requires legal kernels of one workgroup size and one dtype of indices, on grids of one axis.
Guarantees a kernel in which the workgroups of the first come first, then those of the second, and
so on, each with its own parameters.  The last parameters are numbers: with which workgroup the
second begins, the third, and so on.

A workgroup takes one way through the branches, all its invocations together, so barriers stay
legal.  Only one kernel runs in it, so their allocations lie in the same memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from pyrite.errors import KernelError
from pyrite.kernel.ir import BOOL, Kernel, Node, Region, Type, scalar
from pyrite.kernel.passes.rewrite import Rewriter

#: What allocations must have in common to lie in one place: space, access, and type of an element.
_AllocKind = tuple[str, str, Type]


def join_kernels(
    kernels: Sequence[Kernel], places: Sequence[Sequence[int]], name: str | None = None
) -> Kernel:
    """Return one kernel that runs several side by side.

    ``places`` says of each kernel which of the new parameters its parameters are.  Buffers that are
    only read, and numbers, may be one parameter of several kernels.

    >>> from pyrite.kernel.builder import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x = b.buffer("x", float32, "read_write")
    >>> x[b.workgroup_id()] = x[b.workgroup_id()] * 2.0
    >>> [p.attr[1] for p in join_kernels([b.build(), b.build()], [[0], [1]]).parameters]
    ['part0_x', 'part1_x', 'begin1']
    """
    first = kernels[0]
    for kernel in kernels:
        _require_alike(first, kernel)
    parameters = _parameters(kernels, places)
    count, index = len(parameters), scalar(first.index)
    begins = [
        Node("argument", index, (), (count + n, f"begin{n + 1}", 1))
        for n in range(len(kernels) - 1)
    ]
    allocations = list(_allocations(kernels))
    workgroup = Node("builtin", index, (), ("workgroup_id", 0))
    body: tuple[Node, ...] = ()
    for n in reversed(range(len(kernels))):
        own = [parameters[p] for p in places[n]]
        begin = begins[n - 1] if n else None
        end = begins[n] if n < len(begins) else None
        part = _Part(kernels[n], own, allocations, workgroup, begin, end).nodes()
        body = part if end is None else _branch(workgroup, end, part, body)
    return Kernel(
        name or first.name, (*parameters, *begins), Region((), (*allocations, workgroup, *body)),
        first.workgroup_size, 1, first.index,
    )  # fmt: skip


def _require_alike(first: Kernel, kernel: Kernel) -> None:
    if kernel.grid != 1:
        raise KernelError(f"join_kernels requires grids of one axis, got {kernel.grid}: {kernel}")
    if (kernel.workgroup_size, kernel.index) != (first.workgroup_size, first.index):
        raise KernelError(
            f"join_kernels requires workgroups of {first.workgroup_size} and indices of "
            f"{first.index.name}, got {kernel.workgroup_size} and {kernel.index.name}: {kernel}"
        )


def _parameters(kernels: Sequence[Kernel], places: Sequence[Sequence[int]]) -> list[Node]:
    """Return the parameters at all places, each as the first kernel that has it declares it."""
    found: dict[int, Node] = {}
    for n, (kernel, own) in enumerate(zip(kernels, places, strict=True)):
        for p, place in zip(kernel.parameters, own, strict=True):
            _, name, *rest = p.attr
            new = Node(p.kind, p.type, (), (place, f"part{n}_{name}", *rest))
            old = found.setdefault(place, new)
            if (old.kind, old.type) != (p.kind, p.type) or (_writes(old, p) and old is not new):
                raise KernelError(
                    "join_kernels requires parameters that kernels share to be numbers, or "
                    f"buffers that both read, got {old} and {p}"
                )
    return [found[place] for place in range(len(found))]


def _writes(x: Node, y: Node) -> bool:
    return x.kind == "buffer" and not x.attr[2] == y.attr[2] == "read"


def _allocations(kernels: Sequence[Kernel]) -> Iterator[Node]:
    """Return allocations in which those of each kernel have room, one after the other."""
    sizes: dict[_AllocKind, list[int]] = {}
    for kernel in kernels:
        for kind, own in _allocated(kernel).items():
            pairs = zip_longest(sizes.get(kind, ()), [n.attr[1] for n in own], fillvalue=0)
            sizes[kind] = [max(pair) for pair in pairs]
    for (space, access, type), room in sizes.items():
        for size in room:
            yield Node("alloc", type, (), (space, size, access))


def _allocated(kernel: Kernel) -> dict[_AllocKind, list[Node]]:
    found: dict[_AllocKind, list[Node]] = defaultdict(list)
    for node in kernel.body.body:
        if node.kind == "alloc":
            space, _, access = node.attr
            found[space, access, node.value_type].append(node)
    return found


def _branch(
    workgroup: Node, end: Node, part: tuple[Node, ...], rest: tuple[Node, ...]
) -> tuple[Node, ...]:
    """Return nodes that run a part in the workgroups before an end, and the rest in the others."""
    is_before = Node("alu", BOOL, (workgroup, end), "lt")
    regions = Region((), part), Region((), rest)
    return is_before, Node("if", None, (is_before,), None, regions)


class _Part(Rewriter):
    """Copies one kernel, all nodes of it, for the workgroups from one number to another."""

    def __init__(
        self, kernel: Kernel, parameters: Sequence[Node], allocations: Sequence[Node],
        workgroup: Node, begin: Node | None, end: Node | None,
    ) -> None:  # fmt: skip
        super().__init__(kernel)
        self.new = dict(zip(kernel.parameters, parameters, strict=True))
        self._workgroup, self._begin, self._end = workgroup, begin, end
        self._place_allocations(allocations)

    def _place_allocations(self, allocations: Sequence[Node]) -> None:
        free: dict[_AllocKind, list[Node]] = defaultdict(list)
        for node in allocations:
            space, _, access = node.attr
            free[space, access, node.value_type].append(node)
        for kind, own in _allocated(self.kernel).items():
            self.new.update(zip(own, free[kind], strict=False))

    def nodes(self) -> tuple[Node, ...]:
        """Return the copy."""
        self.copy([n for n in self.kernel.body.body if n.kind != "alloc"])
        return tuple(self.body)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Copy a node; workgroups are counted from the part's first."""
        if node.kind == "builtin" and node.attr[1] == 0:
            if node.attr[0] == "workgroup_id":
                return self._from_begin(self._workgroup)
            if node.attr[0] == "num_workgroups":
                return self._from_begin(self._end or self.keep(node, inputs))
        return self.keep(node, inputs)

    def _from_begin(self, x: Node) -> Node:
        return x if self._begin is None else self.alu("sub", x, self._begin)

    def keep(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Emit a copy: a node stands in one place, and a kernel may be joined with itself."""
        regions = tuple([self._region(r) for r in node.regions])
        return self.make(node.kind, node.type, inputs, node.attr, regions)

    def _region(self, region: Region) -> Region:
        own = [Node(p.kind, p.type, p.inputs, p.attr) for p in region.parameters]
        return self.region(region, own)
