"""Scatters by their rule: a target that holds the base, and the writes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import as_tensor, dense, flattened
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.place import fault_of, types_of
from pyrite.backend.cube.skeleton.scatter.atomic import atomic_dtype
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig, select
from pyrite.backend.cube.skeleton.scatter.write import latest_writes, problem_of, write
from pyrite.backend.cube.skeleton.scatter.writes import Form, Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.op import Constant
from pyrite.op.rule import ASSIGN, Collision, Coordinate, LastWrite, Scatter, merged
from pyrite.types import DType, TensorType, int32


def scatter(
    launcher: Launcher, rule: Scatter, inputs: Sequence[Any], attrs: Mapping[str, Any],
    out: TensorType,
) -> CubeTensor:  # fmt: skip
    """Return the base with the updates written to it."""
    types = types_of(inputs)
    points, collision = rule.space(types, attrs), rule.collides(attrs)
    form = Form(rule.places(points, out.shape, types, attrs), points)
    shape = merged(form.place, out.shape)
    lines = form.sizes(form.lines)
    problem = problem_of(
        form.count, lines, out.size, collision, atomic_dtype(out.dtype), out.dtype.compute
    )
    config = select(problem, launcher.machine)
    met = _meeting(out.dtype, collision, config)
    given = None if rule.base is None else inputs[rule.base]
    start = Constant(collision.start, TensorType((), met)) if given is None else given
    target = dense(launcher, start, TensorType(out.shape, met))
    indices, reads = form.indices(launcher, inputs)
    updates = None if rule.updates is None else inputs[rule.updates]
    writes = Writes(
        form.count, lines, indices, reads,
        1 if updates is None else _on_lines(launcher, form, updates), collision,
        fault_of(rule, form.place, shape, attrs), rule.counts_from_end,
    )  # fmt: skip
    write(launcher, writes, form.of_target(flattened(launcher, target, shape)), config)
    return target if target.dtype is out.dtype else dense(launcher, target, out)


def _meeting(dtype: DType, collision: Collision, config: ScatterConfig) -> DType:
    """Return the dtype in which updates meet.

    16-bit floats are rounded once, bools are counted, and integers have atomics of 32 bits.
    """
    if collision is ASSIGN:
        return dtype.compute
    wide = atomic_dtype(dtype) if dtype.is_bool or config.by in ("atomic", "shared") else None
    return wide or dtype.compute


def _on_lines(launcher: Launcher, form: Form, updates: CubeTensor | Constant) -> CubeTensor:
    whole = as_tensor(launcher, updates).broadcast_to(form.points)
    return form.on_lines(launcher, whole, [Coordinate(axis) for axis in range(len(form.points))])


def last_write(
    launcher: Launcher, name: str, rule: LastWrite, inputs: Sequence[Any],
    attrs: Mapping[str, Any], out: TensorType,
) -> CubeTensor:  # fmt: skip
    """Return whether each write is the last one to its place.

    The numbers of the writes are written; the last are those that are still there.
    """
    types = types_of(inputs)
    shape = rule.shape(*types, **attrs)
    form = Form(rule.places(out.shape, shape, types, attrs), out.shape)
    shape = merged(form.place, shape)
    indices, reads = form.indices(launcher, inputs)
    lines = form.sizes(form.lines)
    writes = Writes(
        form.count, lines, indices, reads, "number", ASSIGN,
        fault_of(rule, form.place, shape, attrs), rule.counts_from_end,
    )  # fmt: skip
    sizes = tuple(shape[axis] for axis in form.read_axes)
    latest = latest_writes(launcher, writes, sizes)
    order = (*form.numbered, *form.lines)
    result = launcher.empty(TensorType(form.sizes(order), out.dtype))
    flat = result.reshaped((form.count, *lines))
    assert flat is not None, "a dense tensor takes any shape"

    def body(each: Each) -> None:
        last, still = each.operands[-2:]
        number, *line = each.at
        inside, index = writes.find(each, each.b.index(number), line, each.extents)
        own = each.b.cast(each.b.index(number), int32)
        if rule.drops:
            there = last.load(last.at([*index, *line]), mask=inside)
            still[each.at] = inside & (there == own)
        else:
            still[each.at] = last[[*index, *line]] == own

    for_each(
        launcher, name, content_of((writes.variant, rule.drops)), flat.shape,
        [*indices, latest], flat, body, extents=sizes,
    )  # fmt: skip
    return result.permuted(tuple(order.index(axis) for axis in range(len(order))))
