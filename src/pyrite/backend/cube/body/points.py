"""Elementwise regions: every operand is read once, every result written once, by one kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from pyrite.backend.cube.body.atoms import Atom
from pyrite.backend.cube.body.evaluate import evaluate
from pyrite.backend.cube.body.region import Region, ancestors, is_view
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.elementwise import map_together
from pyrite.backend.cube.skeleton.elementwise_group import ElementwiseCall
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Node
from pyrite.kernel import KernelBuilder, Value
from pyrite.types import TensorType

Space = tuple[Atom, ...]


def over(region: Region, value: int, tensor: CubeTensor, space: Space) -> CubeTensor:
    """Return the tensor of a value as a view with an axis for each atom of a space."""
    strides = region.atoms.strides(region.axes(value), tensor.strides)
    return CubeTensor(
        tensor.buffer,
        TensorType(region.atoms.sizes(space), tensor.dtype),
        tuple(strides.get(atom, 0) for atom in space),
        tensor.offset,
        tensor.doubt,
    )


def key_of(nodes: Sequence[Node], *values: Sequence[int]) -> Hashable:
    """Return what a kernel computes, by content: its nodes, and which values are what.

    A view names axes anew, and where its elements lie the layouts say: its attributes are sizes.
    """
    computed = tuple([("view", *n.operands) if is_view(n) else n.key for n in nodes])
    return computed, *map(tuple, values)


def map_points(
    launcher: Launcher, name: str, region: Region, wanted: Sequence[int], real: dict[int, Input]
) -> int | None:
    """Compute values that no fold stands before; those over one space together.

    Return None, or the first value that is made of more tensors than a kernel may have.
    """
    groups = _groups(launcher.machine, region, wanted, real)
    if isinstance(groups, int):
        return groups
    before = dict(real)
    for values in groups:
        # What groups before have made is read, unless a kernel cannot have as many tensors.
        fits = _tensors_of(region, values, real) <= launcher.machine.buffers
        known = real if fits else dict(before)
        map_together(launcher, *_call(launcher, name, region, values, known))
        real.update({value: known[value] for value in values})
    return None


def points_call(
    launcher: Launcher, name: str, region: Region, wanted: Sequence[int], real: dict[int, Input]
) -> ElementwiseCall | None:
    """Return the kernel that computes values over one space, not launched yet.

    What it will have written is in ``real``.  None where they take several kernels.
    """
    groups = _groups(launcher.machine, region, wanted, real)
    if isinstance(groups, int) or len(groups) > 1:
        return None
    return _call(launcher, name, region, wanted, real)


def _groups(
    machine: Machine, region: Region, wanted: Sequence[int], real: dict[int, Input]
) -> list[list[int]] | int:
    """Return values by the kernels that compute them, or one that is made of too many tensors."""
    groups: list[tuple[frozenset[Atom], list[int], set[int]]] = []
    for value in wanted:
        space, leaves = frozenset(region.space(value)), leaves_of(region, [value], real)
        if len(leaves) + 1 > machine.buffers:
            return value
        for over_space, values, read in groups:
            if over_space == space and len(read | leaves) + len(values) + 1 <= machine.buffers:
                values.append(value)
                read |= leaves
                break
        else:
            groups.append((space, [value], leaves))
    return [values for _, values, _ in groups]


def leaves_of(region: Region, wanted: Sequence[int], real: dict[int, Input]) -> set[int]:
    """Return the tensors in memory of which values are made."""
    nodes = ancestors(region.graph, wanted, real.keys())
    read = {v for n in nodes for v in n.values}
    return {v for v in region.leaves if v in read and isinstance(real[v], CubeTensor)}


def _tensors_of(region: Region, values: Sequence[int], real: dict[int, Input]) -> int:
    """Return how many tensors the kernel of some values has, those that groups made with them."""
    read = {v for n in ancestors(region.graph, values, real.keys()) for v in n.values}
    return len({v for v in read if isinstance(real.get(v), CubeTensor)}) + len(values)


def _call(
    launcher: Launcher, name: str, region: Region, wanted: Sequence[int], real: dict[int, Input]
) -> ElementwiseCall:
    """Return the kernel of values over one space; where it writes them is in ``real``."""
    # Values that were computed before, for another space, lie in memory too.
    nodes = ancestors(region.graph, wanted, real.keys())
    leaves = list(dict.fromkeys(v for n in nodes for v in n.values if v in real))
    space = region.space(wanted[0])
    targets = {v: launcher.empty(region.graph.types[v]) for v in wanted}
    inputs: list[Input] = []
    for leaf in leaves:
        tensor = real[leaf]
        is_tensor = isinstance(tensor, CubeTensor)
        inputs.append(over(region, leaf, tensor, space) if is_tensor else tensor)  # type: ignore[arg-type]

    def rule(
        b: KernelBuilder, values: Sequence[Value | None], _: Callable[[], Value]
    ) -> list[Value]:
        known = {leaf: x for leaf, x in zip(leaves, values, strict=True) if x is not None}
        for node in nodes:
            is_same = is_view(node)
            known[node.first] = (
                known[node.values[0]] if is_same else evaluate(b, node, known.__getitem__)
            )
        return [known[v] for v in wanted]

    real.update(targets)
    return ElementwiseCall(
        name, key_of(nodes, leaves, wanted), rule, inputs,
        [over(region, v, targets[v], space) for v in wanted],
    )  # fmt: skip
