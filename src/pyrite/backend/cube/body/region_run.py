"""One step in a region: the kernel that goes furthest, or what stops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pyrite.backend.cube.body.group import (
    Abreast,
    Group,
    made_after,
    made_before,
    order_in,
    passes,
    reads_position,
)
from pyrite.backend.cube.body.grouping import best_group
from pyrite.backend.cube.body.points import Space, leaves_of, map_points, points_call
from pyrite.backend.cube.body.region import (
    CutError,
    Region,
    is_fold,
)
from pyrite.backend.cube.body.row_layouts import Steps, line_of
from pyrite.backend.cube.body.rows import (
    FEW_ROWS,
    Join,
    outer_of,
    run_group,
    run_parts,
    run_segments,
)
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import row_major
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.elementwise_group import ElementwiseCall
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Node, Part
from pyrite.kernel.ir import WIDTHS
from pyrite.sized import asked

#: Fewer rows than that leave most of a GPU idle, if they are long.
FEW_GROUPS = 256
LONG = 1 << 14
#: How long rows side by side may be: what is made of their elements fits in a first cache.
MOST_ABREAST = 1 << 9
#: How long they may be where their elements are neighbours: longer ones are folded block by block.
MOST_TURNED = 1 << 8
#: So many rows that are neighbours make elementwise kernels of their columns good.
LEAST_NEAR = 32

#: What is costly is made with a row in pieces where each has so many vectors: of 7 x 7 elements a
#: quarter of the lanes would be empty.
FEW_VECTORS = 12


class Stop(NamedTuple):
    """A node that fits no kernel of its region: its operands are to be in memory first.

    With ``is_alone`` it then runs by kernels of its own; with ``is_wanted`` it is its results that
    are to be there first.
    """

    node: Node
    is_alone: bool
    is_wanted: bool


class RegionRun:
    """One step in a region: which values become real by the kernel that goes furthest.

    It sees the nodes of the region as a graph of their own, so that its kernels do not depend on
    where they stand.  Siblings are folds besides that may be made along with what is wanted.
    """

    def __init__(
        self, launcher: Launcher, name: str, nodes: Sequence[Node], part: Part,
        wanted: Sequence[int], siblings: Sequence[int], real: dict[int, Input],
    ) -> None:  # fmt: skip
        self.launcher, self.name, self.machine = launcher, name, launcher.machine
        self._nodes = nodes
        self._part = part
        self._wanted = wanted
        self._siblings = siblings
        self._real = real

    @property
    def made(self) -> dict[int, Input]:
        """What lies in memory now, by its number in the whole graph."""
        return {old: self._real[n] for old, n in self._part.numbers.items() if n in self._real}

    def call(self) -> ElementwiseCall | None:
        """Return the elementwise kernel that makes all that is wanted, for who launches it.

        None where no one kernel does.
        """
        try:
            region = self._region()
        except CutError:
            return None
        return points_call(self.launcher, self.name, region, self._wanted, self._real)

    def _region(self) -> Region:
        part = self._part
        return Region(part.graph, part.graph.nodes, tuple(range(len(part.leaves))))

    def run(self, join: Join | None = None) -> Stop | None:
        """Run a kernel; or return what stops that.

        ``join`` is asked to run, with what follows them, folds of what groups of rows gave.
        """
        nodes = self._part.graph.nodes
        try:
            region = self._region()
        except CutError as error:
            return self._stop(error.node)
        if not any(is_fold(n) for n in nodes):
            beyond = map_points(self.launcher, self.name, region, self._wanted, self._real)
            # One that is made of too many tensors at once stops it.
            if beyond is None:
                return None
            return self._stop(next(n for n in nodes if beyond in n.results))

        def lies_along(node: Node) -> bool:
            return self._are_rows(region, region.kept(node), region.reduced(node))

        group = self._within_limits(
            region, best_group(region, self._wanted, self.machine, lies_along, self._siblings)
        )
        if group.order is not None and group.order.along == "columns" and not group.sums:
            group = replace(
                group, abreast=self._abreast(region, group.rows, group.length, group.elements)
            )
        if self._fits(region, group):
            if first := made_before(region, group):
                return self._stop(first, is_wanted=True)
            if (last := made_after(region, group)) and self._is_in_small_pieces(region, group):
                return self._stop(last)
            own = None if join is None else self._of_whole(join)
            run_group(self.launcher, self.name, region, group, self._real, join=own)
            return None
        group = replace(group, folds=tuple(passes(region, group)[0]), elements=(), sums=())
        if self._runs_in_parts(region, group):
            return None
        return self._stop(group.folds[0], is_alone=True)

    def _stop(self, node: Node, *, is_alone: bool = False, is_wanted: bool = False) -> Stop:
        """Return a node of the part as one of the whole graph."""
        return Stop(self._nodes[self._part.graph.nodes.index(node)], is_alone, is_wanted)

    def _of_whole(self, join: Join) -> Join:
        """Return a join of nodes of the part, by one of nodes of the whole graph."""
        nodes = self._part.graph.nodes
        return lambda node, *given: join(self._nodes[nodes.index(node)], *given)

    def _within_limits(self, region: Region, group: Group) -> Group:
        """Return a group without what takes more tensors than a kernel may have."""
        most = self.machine.buffers
        if self._tensors_of(region, group) <= most:
            return group
        results = tuple(v for n in group.folds for v in n.results)
        return replace(group, elements=(), numbers=results, sums=())

    def _tensors_of(self, region: Region, group: Group) -> int:
        wanted = [*group.elements, *group.numbers, *(n.first for n in group.sums)]
        return len(wanted) + len(leaves_of(region, wanted, self._real))

    def _fits(self, region: Region, group: Group) -> bool:
        """Whether a kernel over rows is the way: they are many, or short, and more than one fold.

        A fold alone whose elements are no neighbours runs by the skeleton of folds, which goes over
        memory as it lies.
        """
        machine = self.machine
        rows, length = region.atoms.count(group.rows), region.atoms.count(group.length)
        if self._tensors_of(region, group) > machine.buffers:
            return False
        order = group.order
        if order is not None and order.along == "columns":
            if not self._are_rows(region, group.rows, group.length):
                return False
        if length == 1 and machine.kind == "gpu":
            # Drivers see that a mean of one is the number, and make 0 of x - x, infinite or not.
            return False
        few = 2 * machine.threads if machine.kind == "cpu" else FEW_GROUPS
        if length > LONG and rows < few:
            return False
        has_more = bool(group.elements or group.sums) or len(passes(region, group)) > 1
        if has_more or not self._is_along(region, group):
            return has_more
        if order is not None:
            return order.along == "rows"
        return not self._is_broken(region, group)

    def _is_broken(self, region: Region, group: Group) -> bool:
        """Whether rows lie in pieces, which are better folded one by one."""
        pieces = outer_of(region, group, self._real, parts=0)
        return bool(pieces) and not any(reads_position(n) for n in group.folds)

    def _is_in_small_pieces(self, region: Region, group: Group) -> bool:
        """Whether rows lie in pieces of which the masked end takes much of a pass."""
        outer = outer_of(region, group, self._real, parts=0)
        piece = region.atoms.count(group.length[len(outer) :])
        return bool(outer) and piece < FEW_VECTORS * self.machine.vector

    def _runs_in_parts(self, region: Region, group: Group) -> bool:
        """Run folds of few or broken rows part by part, if they can be cut."""
        if any(reads_position(n) for n in group.folds) or not self._is_along(region, group):
            return False
        orders = [order_in(region, n, self.machine) for n in group.folds]
        order = next((o for o in orders if o is not None), None)
        if order is not None:
            if order.along == "columns" or order.segments == 1:
                return False
            apart = replace(group, order=order, is_part=True, numbers=())
            run_segments(self.launcher, self.name, region, apart, self._real)
            return True
        machine = self.machine
        most = 8 * machine.threads if machine.kind == "cpu" else FEW_GROUPS
        rows = region.atoms.count(group.rows)
        outer = outer_of(region, group, self._real, -(-most // rows))
        if not outer:
            return False
        whole = replace(group, length=region.reduced(group.folds[0]))
        run_parts(self.launcher, self.name, region, whole, outer, self._real)
        return True

    def _is_along(self, region: Region, group: Group) -> bool:
        """Whether elements that a fold joins are neighbours in memory: those of some tensor."""
        return 1 in self._steps_along(region, group.length)

    def _lies_along(self, region: Region, length: Space) -> bool:
        """Whether elements of rows are neighbours in memory: those of all tensors."""
        return _are_neighbours(self._steps_along(region, length))

    def _are_rows(self, region: Region, rows: Space, length: Space) -> bool:
        """Whether what is folded in the order of columns is gone over as rows.

        Those along memory, and those side by side; and columns of which an elementwise kernel would
        mask the end of each line, or which are few: they are copied.
        """
        lines, machine = self._lines(region, rows, length), self.machine
        line, is_turned = lines or (0, False)
        is_near = machine.kind == "cpu" and _are_neighbours(self._steps_along(region, rows))
        return asked(
            _go_as_rows, region.atoms.count(rows), region.atoms.count(length), line, is_turned,
            self._lies_along(region, length), is_near, machine.vector,
        )  # fmt: skip

    def _abreast(
        self, region: Region, rows: Space, length: Space, elements: Sequence[int] = ()
    ) -> Abreast | None:
        """Return how rows in the order of columns are gone over side by side, None if they are not.

        They are short, and in each tensor rows are neighbours of each other, or their elements are.
        """
        lines = self._lines(region, rows, length, elements)
        if lines is None:
            return None
        line, is_turned = lines
        width = asked(
            _width_abreast, region.atoms.count(length), line, is_turned, self.machine.vector
        )
        return Abreast(width, line, is_turned) if width else None

    def _lines(
        self, region: Region, rows: Space, length: Space, elements: Sequence[int] = ()
    ) -> tuple[int, bool] | None:
        """Return how many rows are neighbours, and whether their elements are.

        None where neither are in one of the tensors, and on GPUs.
        """
        atoms = region.atoms
        if self.machine.kind != "cpu" or not rows or not length:
            return None
        read = self._steps(region)
        near, inner = length[-1], rows[-1]
        if not all(1 in (steps.get(near, 1), steps.get(inner)) for steps in read):
            return None
        is_turned = all(steps.get(near, 1) == 1 for steps in read)
        types = region.graph.types
        made = (
            []
            if is_turned
            else [atoms.strides(region.axes(v), row_major(types[v].shape)) for v in elements]
        )
        return line_of(region, rows, [*read, *made]), is_turned

    def _steps(self, region: Region) -> list[Steps]:
        """Return the strides of all tensors that are read along the atoms."""
        return [
            region.atoms.strides(region.axes(v), t.strides)
            for v in region.leaves
            if isinstance(t := self._real[v], CubeTensor)
        ]

    def _steps_along(self, region: Region, length: Space) -> list[int]:
        """Return how far apart neighbours of rows are in each tensor that has such."""
        return [
            steps[a]
            for v in region.leaves
            if isinstance(t := self._real[v], CubeTensor)
            for a in length[-1:]
            if a in (steps := region.atoms.strides(region.axes(v), t.strides))
        ]


def _are_neighbours(steps: Sequence[int]) -> bool:
    """Whether elements are neighbours in each tensor that has some; there is one at least."""
    return bool(steps) and all(step == 1 for step in steps)


def _width_abreast(size: int, line: int, is_turned: bool, vector: int) -> int:
    """Return the lanes of rows of a size that are gone over side by side, 0 where they are not."""
    if size > (MOST_TURNED if is_turned else MOST_ABREAST) or line < vector:
        return 0
    whole = 2 * vector  # all of a line of memory
    return whole if not is_turned and line >= whole and whole <= WIDTHS[-1] else vector


def _go_as_rows(
    count: int, size: int, line: int, is_turned: bool, lies_along: bool, is_near: bool, vector: int
) -> bool:
    """Whether so many rows of a size are gone over as such; see `RegionRun._are_rows`."""
    if _width_abreast(size, line, is_turned, vector):
        return True
    if size > LONG and count < FEW_ROWS:
        return False
    if lies_along:
        return True
    return is_near and size > MOST_ABREAST and (count < LEAST_NEAR or count % vector > 0)
