"""Regions with folds: one kernel over rows, each of which is folded as often as the body says.

A row is what the folds go over.  What a fold gives is a number of the row; what it is given, and
the results that are as long as a row, are made of its elements, again at each pass or, where that
costs more than to keep them, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from pyrite.backend.cube.body.atoms import Atom
from pyrite.backend.cube.body.group import Group, bound_fold, kept_value
from pyrite.backend.cube.body.points import Space, key_of, over
from pyrite.backend.cube.body.region import Region, ancestors
from pyrite.backend.cube.body.row import BodyRow, Place
from pyrite.backend.cube.body.row_body import write_row
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import Strides, merged, row_major
from pyrite.backend.cube.operand import Layout, alignment_of, bindings_of
from pyrite.backend.cube.registry import Input, lowering_of
from pyrite.backend.cube.skeleton.elementwise import contiguous
from pyrite.backend.cube.skeleton.numbered_rows import numbered_candidates, widest
from pyrite.backend.cube.skeleton.row import RowsConfig, groups_of, select
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.tracing import Node
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.op import Constant
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, Shape, TensorType

#: Vectors that are narrower are slower than copies.
LEAST_WIDTH = 4

Steps = dict[Atom, int]


def _side(region: Region, steps: Steps, atoms: Space) -> tuple[Shape, Strides]:
    """Return shape and strides along atoms, as few axes as say the same."""
    strides = tuple(steps.get(a, 0) for a in atoms)
    ((shape, merged_strides),) = merged(region.atoms.sizes(atoms), [strides])
    return shape, merged_strides


def placed(region: Region, group: Group, steps: Steps, tensor: CubeTensor, width: int) -> Place:
    """Return where a tensor's elements lie by rows and places in a row."""
    rows, of_rows = _side(region, steps, group.rows)
    is_number = not any(a in steps for a in group.length)
    length, along = ((), ()) if is_number else _side(region, steps, group.length)
    strides = (*of_rows, *along)
    alignment = 1
    if along:
        alignment = alignment_of(strides, tensor.offset, width)
    layout = Layout(tensor.dtype, strides, tensor.offset != 0, alignment)
    return Place(layout, rows, length)


def inner_of(region: Region, group: Group, steps: Steps) -> int:
    """Return how many neighbours of a row lie together, 0 where that is all of it, or 1 of them."""
    if not any(a in steps for a in group.length):
        return 0
    shape, strides = _side(region, steps, tuple(a for a in group.length if a in steps))
    return 1 if strides[-1] != 1 else 0 if len(shape) == 1 else shape[-1]


def config_for(
    region: Region, group: Group, inners: Sequence[int], dtype: DType, machine: Machine
) -> RowsConfig:
    """Return a config: where rows lie in pieces with vectors that fit, if they are not narrow."""
    length = region.atoms.count(group.length)
    divisor = gcd(*inners)
    if divisor and divisor % LEAST_WIDTH == 0:
        found = numbered_candidates(length, dtype, machine, divisor=divisor)
        return widest(found, length, machine)
    return select(length, dtype, machine, adds=bool(group.sums))


class _Launch:
    """The operands of one group: where each lies, copied if its rows are in pieces."""

    def __init__(
        self, launcher: Launcher, region: Region, group: Group, real: dict[int, Input],
        config: RowsConfig | None,
    ) -> None:  # fmt: skip
        self.launcher, self.region, self.group = launcher, region, group
        self.types = region.graph.types
        wanted = (*group.elements, *group.numbers, *(n.first for n in group.sums))
        self.nodes = ancestors(region.graph, wanted, real.keys())
        read = {v for n in self.nodes for v in n.values}
        self.leaves = [v for v in region.leaves if v in read]
        self.tensors = {v: t for v in self.leaves if isinstance(t := real[v], CubeTensor)}
        self.numbers = [v for v in self.leaves if v not in self.tensors]
        self.kept = kept_value(region, group)
        of_folds = self.types[group.folds[0].values[0]].dtype.compute
        self.dtype = of_folds if self.kept is None else self.types[self.kept].dtype
        steps = [self.steps(v, t) for v, t in self.tensors.items()]
        steps += [self.steps(v) for v in group.elements]
        inners = [n for of in steps if (n := inner_of(region, group, of))]
        machine = launcher.machine
        self.config = config or config_for(region, group, inners, self.dtype, machine)
        self.tensors = {v: self._in_rows(v, t) for v, t in self.tensors.items()}
        self.sources = [self.placed(self.steps(v, t), t) for v, t in self.tensors.items()]
        self.made = {v: self._target(v) for v in group.elements}
        self.targets = [self.placed(steps, t) for t, steps in self.made.values()]
        #: Tensors of (groups, length), and of one number for each row.
        self.partial = [self._partial(n) for n in group.sums]
        self.of_rows = {v: self._numbers(v) for v in group.numbers}

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows there are, and how long they are."""
        atoms = self.region.atoms
        return atoms.count(self.group.rows), atoms.count(self.group.length)

    def steps(self, value: int, tensor: CubeTensor | None = None) -> Steps:
        """Return the stride of a value along each atom: of a tensor, or as a dense one."""
        axes = self.region.axes(value)
        shape = self.types[value].shape
        strides = row_major(shape) if tensor is None else tensor.strides
        return self.region.atoms.strides(axes, strides)

    def placed(self, steps: Steps, tensor: CubeTensor) -> Place:
        """Return where a tensor lies."""
        return placed(self.region, self.group, steps, tensor, self.config.width)

    def _fits(self, steps: Steps) -> bool:
        inner = inner_of(self.region, self.group, steps)
        return inner == 0 or inner % max(LEAST_WIDTH, self.config.width) == 0

    def _in_rows(self, value: int, x: CubeTensor) -> CubeTensor:
        """Return a leaf as it is, or a copy of its shape that lies row by row."""
        steps = self.steps(value, x)
        if self._fits(steps):
            return x
        own = tuple(a for a in (*self.group.rows, *self.group.length) if a in steps)
        dense = contiguous(self.launcher, over(self.region, value, x, own), always=True)
        return self._arranged(dense, own, value)

    def _arranged(self, x: CubeTensor, order: Space, value: int) -> CubeTensor:
        """Return a tensor with an axis for each atom in the shape of a value."""
        wanted = self.region.space(value)
        moved = x.permuted(tuple(order.index(a) for a in wanted))
        shape = self.types[value].shape
        found = moved.reshaped(shape)
        if found is None:
            found = contiguous(self.launcher, moved).reshaped(shape)
        assert found is not None, "what has no gaps has any shape"
        return found

    def _target(self, value: int) -> tuple[CubeTensor, Steps]:
        """Return the memory of a result along the rows, dense in its shape or row by row."""
        steps = self.steps(value)
        if self._fits(steps):
            return self.launcher.empty(self.types[value]), steps
        order = (*self.group.rows, *self.group.length)
        sizes = self.region.atoms.sizes(order)
        made = self.launcher.empty(TensorType(sizes, self.types[value].dtype))
        return made, dict(zip(order, made.strides, strict=True))

    def _partial(self, node: Node) -> CubeTensor:
        groups = groups_of(self.sizes[0], self.config)
        ((_, dtype),) = bound_fold(self.region, node, 1).start
        return self.launcher.empty(TensorType((groups, self.sizes[1]), dtype))

    def _numbers(self, value: int) -> CubeTensor:
        sizes = self.region.atoms.sizes(self.group.rows)
        return self.launcher.empty(TensorType(sizes, self.types[value].dtype))

    def run(self, name: str, arguments: Sequence[Number]) -> None:
        """Launch the kernel."""
        rows, length = self.sizes
        width = self.config.width
        sums = [
            Place(Layout(x.dtype, (length, 1), False, alignment_of((length, 1), 0, width)),
                  (x.shape[0],), (length,))
            for x in self.partial
        ]  # fmt: skip
        numbers = [Place(Layout(x.dtype, (1,)), (rows,), ()) for x in self.of_rows.values()]
        targets = [*self.targets, *numbers]
        dtypes = [self.types[v].dtype.compute for v in self.numbers]

        def build(grid: int) -> Kernel:
            row = BodyRow(
                name, self.sizes, self.sources, targets, sums, self.config, grid,
                self.dtype, [bound_fold(self.region, node, 1) for node in self.group.sums],
            )  # fmt: skip
            given = [row.b.scalar(f"number{i}", dtype) for i, dtype in enumerate(dtypes)]
            known = dict(zip(self.numbers, given, strict=True))
            row.run(lambda _: write_row(row, self.region, self.group, list(self.tensors), known))
            return row.b.build()

        made = [t for t, _ in self.made.values()]
        bindings: list[Buffer | Number] = [
            b
            for t in (*self.tensors.values(), *made, *self.of_rows.values(), *self.partial)
            for b in bindings_of(t)
        ]
        bindings += arguments
        self._launch(build, bindings, (*self.sources, *targets, *sums))

    def _launch(
        self, build: Callable[[int], Kernel], bindings: list[Buffer | Number],
        places: Sequence[Place],
    ) -> None:  # fmt: skip
        group, atoms, config = self.group, self.region.atoms, self.config
        wanted = (group.elements, group.numbers, [n.first for n in group.sums])
        key = (
            "body", key_of(self.nodes, self.leaves, *wanted), atoms.sizes(group.rows),
            atoms.sizes(group.length), tuple(p.key for p in places), config,
        )  # fmt: skip
        per_workgroup = config.workgroup_size // config.lanes
        workgroups = -(-groups_of(self.sizes[0], config) // per_workgroup)
        self.launcher.launch(key, build, bindings, workgroups)

    def results(self) -> dict[int, CubeTensor]:
        """Return what was written, in the shapes that the body gives."""
        found: dict[int, CubeTensor] = {}
        for value, (made, _) in self.made.items():
            order = (*self.group.rows, *self.group.length)
            is_own = self._fits(self.steps(value))
            found[value] = made if is_own else self._arranged(made, order, value)
        for value, made in self.of_rows.items():
            found[value] = self._arranged(made, self.group.rows, value)
        for node, partial in zip(self.group.sums, self.partial, strict=True):
            found[node.first] = self._over_groups(node, partial)
        return found

    def _over_groups(self, node: Node, partial: CubeTensor) -> CubeTensor:
        """Return the fold of what each group of rows gave: the same fold once more."""
        type = TensorType((self.sizes[1],), node.types[0].dtype)
        attrs = {**node.attrs, "axis": (0,), "keepdims": False}
        lowering = lowering_of(node.op)
        assert lowering is not None, "a fold has kernels"
        (found,) = lowering(self.launcher, node.op, [partial], attrs, (type,))
        sizes = self.region.atoms.sizes(self.group.length)
        apart = found.reshaped(sizes)
        assert apart is not None, "a dense tensor has any shape"
        return self._arranged(apart, self.group.length, node.first)


def run_group(
    launcher: Launcher, name: str, region: Region, group: Group, real: dict[int, Input],
    config: RowsConfig | None = None,
) -> None:  # fmt: skip
    """Compute the values that a group writes."""
    launch = _Launch(launcher, region, group, real, config)
    bindings_of_numbers = [
        launcher.number(x, launch.types[v].dtype.compute)
        for v in launch.numbers
        if isinstance(x := real[v], Constant)
    ]
    launch.run(name, bindings_of_numbers)
    real.update(launch.results())
