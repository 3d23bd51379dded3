"""Regions with folds: one kernel over rows, each of which is folded as often as the body says.

A row is what the folds go over.  What a fold gives is a number of the row; what it is given, and
the results that are as long as a row, are made of its elements, again at each pass or, where that
costs more than to keep them, once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from pyrite.backend.cube.body.abreast import RowsAbreast
from pyrite.backend.cube.body.atoms import Atoms
from pyrite.backend.cube.body.group import (
    Group,
    bound_fold,
    kept_value,
    kernel_fold_of,
    order_in,
)
from pyrite.backend.cube.body.points import Space, key_of, over
from pyrite.backend.cube.body.region import Region, ancestors
from pyrite.backend.cube.body.row import BodyRow
from pyrite.backend.cube.body.row_body import write_joined, write_row
from pyrite.backend.cube.body.row_layouts import RowLayout, RowLayouts, Steps, dense_rows, row_space
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import row_major
from pyrite.backend.cube.operand import Layout, bindings_of
from pyrite.backend.cube.registry import Input, lowering_of
from pyrite.backend.cube.skeleton.copy import contiguous
from pyrite.backend.cube.skeleton.fold import KernelFold, fold_columns, join_segments
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.row import ROWS, RowProblem, RowsConfig, groups_of, select
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Graph, Node, content_of_node
from pyrite.backend.graph import Input as GraphInput
from pyrite.op import Attributes, Constant, Op
from pyrite.op.rule.fold import axes_of
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, TensorType

#: Runs a fold by other inputs and attributes with what follows it, in one kernel that writes no
#: more of the fold itself than is needed; or returns False.
Join = Callable[[Node, Sequence[Input], Attributes], bool]


def arranged(
    launcher: Launcher, region: Region, x: CubeTensor, order: Space, value: int
) -> CubeTensor:
    """Return a tensor with an axis for each atom in the shape of a value."""
    moved = x.permuted(tuple(order.index(a) for a in region.space(value)))
    shape = region.graph.types[value].shape
    found = moved.reshaped(shape)
    if found is None:
        found = contiguous(launcher, moved).reshaped(shape)
    assert found is not None, "what has no gaps has any shape"
    return found


class _Launch:
    """The operands of one group: where each lies, copied if its rows are in pieces."""

    def __init__(
        self, launcher: Launcher, region: Region, group: Group, real: dict[int, Input],
        config: RowsConfig | None,
    ) -> None:  # fmt: skip
        self.launcher, self.region, self.group = launcher, region, group
        self.types = region.graph.types
        of_parts = (n.first for n in group.folds if group.is_part)
        wanted = (*group.elements, *group.numbers, *(n.first for n in group.sums), *of_parts)
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
        self.space, self.config = row_space(
            region, group, steps, self.dtype, launcher.machine, config
        )
        found = {v: self._in_rows(v, t) for v, t in self.tensors.items()}
        self.tensors = {v: t for v, (t, _) in found.items()}
        self.sources = [self.space.layout(steps, t) for t, steps in found.values()]
        self.made = {v: self._target(v) for v in group.elements}
        self.targets = [self.space.layout(steps, t) for t, steps in self.made.values()]
        #: Tensors of (groups, length), and of one number for each row.
        self.partial = [self._partial(n) for n in group.sums]
        self.of_rows = {v: self._numbers(self.types[v].dtype) for v in group.numbers}
        self.states = [self._states(dtype) for dtype in self._dtypes_of_states()]

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

    def _in_rows(self, value: int, x: CubeTensor) -> tuple[CubeTensor, Steps]:
        """Return a leaf as it is, or a copy that lies row by row, and its strides."""
        steps = self.steps(value, x)
        if self.space.fits(steps):
            return x, steps
        order = (*self.group.rows, *self.group.length)
        dense = self._dense(value, x, tuple(a for a in order if a in steps))
        if self.space.fits(dense[1]):
            return dense
        # It is the same along part of a piece.
        return self._dense(value, x, order)

    def _dense(self, value: int, x: CubeTensor, order: Space) -> tuple[CubeTensor, Steps]:
        made = contiguous(self.launcher, over(self.region, value, x, order), always=True)
        return made, dict(zip(order, made.strides, strict=True))

    def _arranged(self, x: CubeTensor, order: Space, value: int) -> CubeTensor:
        return arranged(self.launcher, self.region, x, order, value)

    def _target(self, value: int) -> tuple[CubeTensor, Steps]:
        """Return the memory of a result along the rows, dense in its shape or row by row."""
        steps = self.steps(value)
        if self.space.fits(steps):
            return self.launcher.empty(self.types[value]), steps
        order = (*self.group.rows, *self.group.length)
        sizes = self.region.atoms.sizes(order)
        made = self.launcher.empty(TensorType(sizes, self.types[value].dtype))
        return made, dict(zip(order, made.strides, strict=True))

    def _partial(self, node: Node) -> CubeTensor:
        groups = groups_of(self.sizes[0], self.config)
        ((_, dtype),) = bound_fold(self.region, node, 1).start
        return self.launcher.empty(TensorType((groups, self.sizes[1]), dtype))

    def _dtypes_of_states(self) -> list[DType]:
        folds = self.group.folds if self.group.is_part else ()
        return [d for n in folds for _, d in bound_fold(self.region, n, 1).start]

    def _numbers(self, dtype: DType) -> CubeTensor:
        sizes = self.region.atoms.sizes(self.group.rows)
        return self.launcher.empty(TensorType(sizes, dtype))

    @property
    def segments(self) -> int:
        """How many segments of a row are folded apart."""
        order = self.group.order
        return order.segments if order is not None and self.group.is_part else 1

    def _states(self, dtype: DType) -> CubeTensor:
        if self.group.order is None:
            return self._numbers(dtype)
        return self.launcher.empty(TensorType((self.segments, self.sizes[0]), dtype))

    def run(self, name: str, arguments: Sequence[Number]) -> None:
        """Launch the kernel."""
        rows, length = self.sizes
        sums = [self.space.dense(x.dtype, x.shape[0]) for x in self.partial]
        of_rows = [*self.of_rows.values(), *self.states]
        numbers = [RowLayout(Layout(x.dtype, (1,)), (rows,), ()) for x in of_rows]
        dtypes = [self.types[v].dtype.compute for v in self.numbers]

        def write(layouts: RowLayouts, config: RowsConfig, grid: int) -> BodyRow:
            bound = [bound_fold(self.region, node, 1) for node in self.group.sums]
            kind = RowsAbreast if config.abreast else BodyRow
            row = kind(name, layouts, config, grid, self.dtype, bound)
            given = [row.b.scalar(f"number{i}", dtype) for i, dtype in enumerate(dtypes)]
            known = dict(zip(self.numbers, given, strict=True))
            row.run(lambda _: write_row(row, self.region, self.group, list(self.tensors), known))
            return row

        made = [t for t, _ in self.made.values()]
        bindings: list[Buffer | Number] = [
            b
            for t in (*self.tensors.values(), *made, *of_rows, *self.partial)
            for b in bindings_of(t)
        ]
        bindings += arguments
        layouts = RowLayouts.of(
            rows, length, self.sources, [*self.targets, *numbers], sums,
            pieces=self.space.count, together=self.space.together, line=self.space.line,
        )  # fmt: skip
        divisors = layouts.divisors
        if divisors and self.launcher.builds_in(divisors, (layouts, name, self._key)):
            layouts = replace(layouts, knows_divisors=True)
        units = rows * self.segments
        if self.config.abreast:
            units = rows // self.space.line * -(-self.space.line // self.config.abreast)
        problem = RowProblem(layouts, self.dtype, units, length, bool(self.group.sums))
        fused = Fused(body=Body(name, self._key, write))
        launch(self.launcher, ROWS, problem, bindings, config=self.config, fused=fused)

    @property
    def _key(self) -> Hashable:
        """What the kernel depends on, besides its layouts."""
        group, along = self.group, set(self.group.length)
        folded = (group.folds if group.is_part else (), group.sums)
        wanted = (group.elements, group.numbers, *([n.first for n in of] for of in folded))
        made = (v for n in self.nodes for v in n.results)
        of_rows = [v for v in made if along.isdisjoint(self.region.support(v))]
        # Leaves go by the order in which nodes take them: tensors and numbers may change places.
        leaves = (list(self.tensors), self.numbers)
        return key_of(self.nodes, *leaves, of_rows, *wanted)

    def results(self, join: Join | None) -> dict[int, CubeTensor]:
        """Return what was written, in the shapes that the body gives.

        Without what ``join`` has run with what follows it.
        """
        found: dict[int, CubeTensor] = {}
        for value, (made, _) in self.made.items():
            order = (*self.group.rows, *self.group.length)
            is_own = self.space.fits(self.steps(value))
            found[value] = made if is_own else self._arranged(made, order, value)
        for value, made in self.of_rows.items():
            found[value] = self._arranged(made, self.group.rows, value)
        for node, partial in zip(self.group.sums, self.partial, strict=True):
            joined = self._over_groups(node, partial, join)
            if joined is not None:
                found[node.first] = joined
        return found

    def _over_groups(self, node: Node, partial: CubeTensor, join: Join | None) -> CubeTensor | None:
        """Return the fold of what each group of rows gave: the same fold once more.

        None where it was run with what follows it.
        """
        type = TensorType((self.sizes[1],), node.types[0].dtype)
        if partial.shape[0] == 1 and partial.dtype is type.dtype:
            return self._along(partial, node)
        if order_in(self.region, node, self.launcher.machine) is not None:
            fold = kernel_fold_of(self.region, node, self.sizes[0])
            if self.config.rows == 1:
                return self._fold_elements(node, fold, partial, join)
            (found,) = fold_columns(self.launcher, fold, partial, (0,), [type], of_blocks=True)
            return self._along(found, node)
        attrs = {**node.attrs, "axis": (0,), "keepdims": False}
        is_in_order = self.region.space(node.first) == self.group.length
        if join is not None and is_in_order and join(node, [partial], attrs):
            return None
        lowering = lowering_of(node.op)
        assert lowering is not None, "a fold has kernels"
        (found,) = lowering(self.launcher, node.op, [partial], attrs, (type,))
        return self._along(found, node)

    def _fold_elements(
        self, node: Node, fold: KernelFold, partial: CubeTensor, join: Join | None
    ) -> CubeTensor | None:
        """Return the fold of elements that were written row by row, as of its operand."""
        value, attrs = node.values[0], {**node.attrs, "keepdims": False}
        order = (*self.group.rows, *self.group.length)
        apart = partial.reshaped(self.region.atoms.sizes(order))
        assert apart is not None, "a dense tensor has any shape"
        x = self._arranged(apart, order, value)
        if join is not None and join(node, [x], node.attrs):
            return None
        axes = axes_of(attrs.get("axis"), len(x.shape))
        (found,) = fold_columns(self.launcher, fold, x, axes, node.types)
        return found

    def _along(self, found: CubeTensor, node: Node) -> CubeTensor:
        """Return numbers along a row in the shape of a result."""
        apart = found.reshaped(self.region.atoms.sizes(self.group.length))
        assert apart is not None, "a dense tensor has any shape"
        return self._arranged(apart, self.group.length, node.first)


def run_group(
    launcher: Launcher, name: str, region: Region, group: Group, real: dict[int, Input],
    config: RowsConfig | None = None, join: Join | None = None,
) -> None:  # fmt: skip
    """Compute the values that a group writes."""
    launch = _Launch(launcher, region, group, real, config)
    launch.run(name, arguments_of(launch, real))
    real.update(launch.results(join))


def run_fold(
    launcher: Launcher, op: Op, x: CubeTensor, attrs: Attributes, out: Sequence[TensorType]
) -> list[CubeTensor]:
    """Return the results of a fold along rows, in the order of a processor."""
    node = Node(op, (0,), attrs, tuple(out), 1, content_of_node(op, (0,), attrs))
    graph = Graph((GraphInput(0, x.type),), (node,), tuple(node.results))
    region = Region(graph, graph.nodes, (0,))
    order = order_in(region, node, launcher.machine)
    assert order is not None, "a fold that has an order"
    group = Group(
        (node,), region.kept(node), region.reduced(node), (), tuple(node.results), order=order
    )
    real: dict[int, Input] = {0: x}
    rows = region.atoms.count(group.rows)
    if order.segments > 1 and rows < FEW_ROWS:
        apart = replace(group, numbers=(), is_part=True)
        run_segments(launcher, op.name, region, apart, real)
    else:
        run_group(launcher, op.name, region, group, real)
    found = [real[v] for v in node.results]
    return [x for x in found if isinstance(x, CubeTensor)]


#: Fewer rows than that a processor folds by segments, so that all threads have some.
FEW_ROWS = 32


# ---- rows in parts ----


def run_segments(
    launcher: Launcher, name: str, region: Region, group: Group, real: dict[int, Input]
) -> None:
    """Compute the folds of a group: of the segments of each row first."""
    launch = _Launch(launcher, region, group, real, None)
    launch.run(name, arguments_of(launch, real))
    states, count = list(launch.states), region.atoms.count(group.length)
    for node in group.folds:
        fold = kernel_fold_of(region, node, count)
        own, states = states[: len(fold.start)], states[len(fold.start) :]
        sizes = region.atoms.sizes(group.rows)
        flat = [TensorType((own[0].shape[1],), type.dtype) for type in node.types]
        found = join_segments(launcher, fold, own, flat)
        for value, tensor in zip(node.results, found, strict=True):
            apart = tensor.reshaped(sizes)
            assert apart is not None, "a dense tensor has any shape"
            real[value] = arranged(launcher, region, apart, group.rows, value)


def run_parts(
    launcher: Launcher, name: str, region: Region, group: Group, outer: Space,
    real: dict[int, Input],
) -> None:  # fmt: skip
    """Compute the folds of a group: of parts of each row first, which lie along the outer atoms."""
    inner = tuple(a for a in group.length if a not in outer)
    part = Group(group.folds, (*group.rows, *outer), inner, (), (), is_part=True)
    launch = _Launch(launcher, region, part, real, None)
    launch.run(name, arguments_of(launch, real))
    join_parts(launcher, name, region, group, (outer, launch.states), real)


def arguments_of(launch: _Launch, real: dict[int, Input]) -> list[Number]:
    """Return the numbers of a call that a kernel gets."""
    return [
        launch.launcher.number(x, launch.types[v].dtype.compute)
        for v in launch.numbers
        if isinstance(x := real[v], Constant)
    ]


def join_parts(
    launcher: Launcher, name: str, region: Region, group: Group,
    parts: tuple[Space, Sequence[CubeTensor]], real: dict[int, Input],
) -> None:  # fmt: skip
    """Compute the folds of rows of the states of their parts."""
    outer, states = parts
    atoms, types = region.atoms, region.graph.types
    rows, length = atoms.count(group.rows), atoms.count(outer)
    count = atoms.count(group.length)
    bound = [bound_fold(region, node, count) for node in group.folds]
    dtype = states[0].dtype.compute
    config = select(length, dtype, launcher.machine)
    sources = [dense_rows(s.dtype, rows, (length,), config.width, launcher.machine) for s in states]
    results = [v for n in group.folds for v in n.results]
    made = {v: launcher.empty(TensorType(atoms.sizes(group.rows), types[v].dtype)) for v in results}
    targets = [RowLayout(Layout(x.dtype, (1,)), (rows,), ()) for x in made.values()]

    def write(layouts: RowLayouts, config: RowsConfig, grid: int) -> BodyRow:
        row = BodyRow(name, layouts, config, grid, dtype)
        folds = [fold.ending(count=layouts.count) for fold in bound]
        row.run(lambda _: write_joined(row, folds))
        return row

    bindings = [b for t in (*states, *made.values()) for b in bindings_of(t)]
    layouts = RowLayouts.of(rows, length, sources, targets, count=count)
    key = ("joined parts", *(fold.key_of_any_count for fold in bound))
    problem, fused = RowProblem(layouts, dtype, rows, length), Fused(body=Body(name, key, write))
    launch(launcher, ROWS, problem, bindings, config=config, fused=fused)
    for value, tensor in made.items():
        real[value] = arranged(launcher, region, tensor, group.rows, value)


def _first_of_piece(atoms: Atoms, length: Space, steps: Steps) -> int:
    """Return from which atom of a row on its elements lie together."""
    first = len(length) - 1
    while first:
        last = length[first]
        if steps[length[first - 1]] != steps[last] * atoms.size(last):
            break
        first -= 1
    return first


def outer_of(region: Region, group: Group, real: dict[int, Input], parts: int) -> Space:
    """Return the atoms of a row by which it is cut: all but those that lie together in memory.

    Where all do, the first is cut into about so many parts; () if it has no such divisor.
    """
    atoms, length = region.atoms, group.length
    found: Space = ()
    for leaf in region.leaves:
        tensor = real[leaf]
        if not isinstance(tensor, CubeTensor):
            continue
        steps = atoms.strides(region.axes(leaf), tensor.strides)
        if not all(a in steps for a in length) or steps[length[-1]] != 1:
            continue
        found = max(found, length[: _first_of_piece(atoms, length, steps)], key=len)
    if found or not parts:
        return found
    size = atoms.size(length[0])
    divisors = [n for n in range(max(2, parts), min(16 * parts, size) + 1) if size % n == 0]
    if not divisors:
        return ()
    if divisors[0] == size:
        return length[:1] if len(length) > 1 else ()
    return (atoms.cut(length[0], size // divisors[0]),)
