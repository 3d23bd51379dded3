"""The kernel of a gather.  Indices are tested where they are used; see `backend.cube.fault`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import dense, flattened
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.gather.config import GatherConfig, select
from pyrite.backend.cube.skeleton.place import coordinates_at, fault_of, types_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.op.rule import Coordinate, Gather, IndexRead, Place, merged
from pyrite.types import Shape, TensorType, bool_


@dataclass(frozen=True, slots=True)
class _Problem:
    """What the kernel depends on, besides its operands: the source, then its index tensors."""

    place: Place
    #: The input that each further operand is.
    operands: tuple[int, ...]
    counts_from_end: bool
    can_fail: bool
    width: int


def gather(
    launcher: Launcher, name: str, rule: Gather, inputs: Sequence[Any], attrs: Mapping[str, Any],
    out: TensorType,
) -> CubeTensor:  # fmt: skip
    """Return the elements of the source at the places of the rule, 0 where there is none."""
    given: CubeTensor = inputs[rule.source]
    types = types_of(inputs)
    place = rule.places(out.shape, given.shape, types, attrs)
    shape = merged(place, given.shape)
    source = given if shape == given.shape else flattened(launcher, given, shape)
    operands = tuple(sorted({e.input for e in place if isinstance(e, IndexRead)}))
    has_neighbours = _has_neighbours(place, out.shape) and source.strides[-1] == 1
    config = select(out.shape, has_neighbours, launcher.machine)
    fault = fault_of(rule, place, source.shape, attrs)
    problem = _Problem(place, operands, rule.counts_from_end, fault is not None, config.width)
    target = launcher.empty(out)
    for_each(
        launcher, name, content_of(problem), _vectors(out.shape, config),
        [source, *(_tensor(launcher, inputs[n], types[n]) for n in operands)], target,
        lambda each: _write(each, problem), extents=source.shape, fault=fault, config=config.each,
        # To divide the place of each element takes a tenth of the time; one of each vector nothing.
        knows_first=config.width == 1 and len(out.shape) > 1,
    )  # fmt: skip
    return target


def _tensor(launcher: Launcher, index: Any, type: TensorType | None) -> CubeTensor:
    """Return an index as a tensor: it may be a number, as in ``x.take(1, 0)``."""
    if isinstance(index, CubeTensor):
        return index
    assert type is not None
    return dense(launcher, index, type)


def _has_neighbours(place: Place, shape: Shape) -> bool:
    """Whether neighbours on the last axis of the result are neighbours on the source's."""
    last = Coordinate(len(shape) - 1)
    reads = [e for e in place if isinstance(e, IndexRead)]
    return bool(place) and place[-1] == last and place.count(last) == 1 and not any(
        last in read.at for read in reads
    )  # fmt: skip


def _vectors(shape: Shape, config: GatherConfig) -> Shape:
    """Return the shape of the vectors of a result."""
    return shape if config.width == 1 else (*shape[:-1], shape[-1] // config.width)


def _write(each: Each, problem: _Problem) -> None:
    """Write the elements at a point, or 0 where one of its indices is outside."""
    b, width = each.b, problem.width
    source, *indices, result = each.operands
    operand = dict(zip(problem.operands, indices, strict=True))
    reads = {
        axis: each.as_index(
            operand[entry.input][coordinates_at(entry.at, each.at)], each.extents[axis],
            from_end=problem.counts_from_end,
        )
        for axis, entry in enumerate(problem.place) if isinstance(entry, IndexRead)
    }  # fmt: skip
    inside = b.const(True, bool_)
    for is_inside, _ in reads.values():
        inside = inside & is_inside
    if problem.can_fail:
        each.fail(~inside)
    at = each.at if width == 1 else [*each.at[:-1], b.index(each.at[-1]) * width]
    place = [
        reads[axis][1] if axis in reads else coordinates_at((entry,), at)[0]
        for axis, entry in enumerate(problem.place)
    ]
    found = source.at(place)
    result.store_along(result.at(at), source.load_along(found, width, exists=inside))
