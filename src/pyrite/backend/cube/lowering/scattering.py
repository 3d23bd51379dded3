"""Writing by index tensors, in the order that the reference states, on any number of cores.

All forms are one: K writes, each with a vector of indices for the leading axes of the result, along
lines that do not touch each other.  The config says who keeps the order:

- by "line" an invocation owns a line and does its K writes one after the other;
- by "element" an invocation owns an element and looks through all K for those that are its own:
  more work, for small results with few lines;
- by "run" the writes are sorted by their place, and an invocation does those that go to one place:
  see `runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.lowering.gathering import outside
from pyrite.backend.cube.lowering.segmented_scatter import (
    Place,
    assign_runs,
    join_runs,
    sorted_writes,
)
from pyrite.backend.cube.operand import Operand, added
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.elementwise import as_tensor, dense, flattened, zeros
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Constant, Op
from pyrite.types import Shape, TensorType, bool_, element_count, int32


@dataclass(frozen=True, slots=True)
class ScatterConfig:
    """Who keeps the order; see the head of this file.  Runs are cut at every ``chunk`` writes."""

    by: Literal["line", "element", "run"]
    chunk: int = 0


def candidates(writes: int, lines: int, elements: int, machine: Machine) -> list[ScatterConfig]:
    """Return the configs: all are always right."""
    return [ScatterConfig("line"), ScatterConfig("element"), ScatterConfig("run", 256)]


def select(writes: int, lines: int, elements: int, machine: Machine) -> ScatterConfig:
    """Return a config: by line, unless few lines would leave a large device idle."""
    by_line, by_element, by_run = candidates(writes, lines, elements, machine)
    if machine.kind == "cpu" or writes <= max(256, lines // 4):
        is_small = machine.kind == "gpu" and lines < 256 and writes * elements <= 1 << 20
        return by_element if is_small else by_line
    return by_run


_JOIN: dict[str, Callable[[RecordingAlgebra, Value, Value], Value]] = {
    "assign": lambda _, old, new: new,
    "add": lambda _, old, new: added(old, new),
    "mul": lambda _, old, new: old * new,
    "min": lambda k, old, new: k.minimum(old, new),
    "max": lambda k, old, new: k.maximum(old, new),
}


@dataclass(frozen=True, slots=True)
class Writes:
    """What is written: views of one form.

    ``indices`` has shape (K, *lines, D), ``updates`` (K, *lines) or is None to write the number of
    the write, and the target has D leading axes before the lines.  Without a ``fault`` writes
    outside 0 <= index are dropped in silence.
    """

    indices: CubeTensor
    updates: CubeTensor | None
    reduction: str
    fault: str | None

    @property
    def count(self) -> int:
        """How many writes there are on each line."""
        return self.indices.shape[0]

    @property
    def lines(self) -> Shape:
        """The shape of the lines."""
        return self.indices.shape[1:-1]


def along_axis(indices: CubeTensor, shape: Shape, axis: int) -> CubeTensor:
    """Return the indices of a scatter along an axis of a shape in the form of `Writes`."""
    selected = indices.broadcast_to((*shape[:axis], indices.shape[axis], *shape[axis + 1 :]))
    return _with_axis(axis_first(selected, axis))


def _with_axis(x: CubeTensor) -> CubeTensor:
    view = x.reshaped((*x.shape, 1))
    assert view is not None, "an axis of size 1 takes no copy"
    return view


def axis_first(x: CubeTensor, axis: int) -> CubeTensor:
    """Return a view with an axis moved to the front."""
    others = tuple(a for a in range(len(x.shape)) if a != axis)
    return x.permuted((axis, *others))


def by_vector(launcher: Launcher, indices: CubeTensor, rest: Shape) -> CubeTensor:
    """Return vectors of indices, the same on all lines, in the form of `Writes`."""
    depth = indices.shape[-1]
    count = element_count(indices.shape[:-1])
    rows = flattened(launcher, indices, (count, *(1 for _ in rest), depth))
    return rows.broadcast_to((count, *rest, depth))


def write(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig | None = None
) -> None:
    """Do the writes to a target of shape (N1, ..., ND, *lines), which holds x already."""
    lines, elements = element_count(writes.lines), target.type.size
    config = config or select(writes.count, lines, elements, launcher.machine)
    depth = writes.indices.shape[-1]
    sizes = target.shape[:depth]
    join = _JOIN[writes.reduction]
    sources = [writes.indices] if writes.updates is None else [writes.indices, writes.updates]

    def place(each: Each, number: Value, line: list[Value | int]) -> tuple[Value, list[Value]]:
        inside, found = each.b.const(True, bool_), []
        for axis, size in enumerate(sizes):
            given = each.operands[0][[number, *line, axis]]
            is_inside, index = each.as_index(given, size, from_end=writes.fault is not None)
            inside = inside & is_inside
            found.append(index)
        if writes.fault is not None:
            each.fail(~inside)
        return inside, found

    if config.by == "run":
        _write_runs(launcher, writes, target, place, config)
        return

    def update(each: Each, number: Value, line: list[Value | int]) -> Value:
        if writes.updates is None:
            return each.b.cast(number, int32)
        return each.operands[1][[number, *line]]

    def line_by_line(each: Each) -> None:
        result, line = each.operands[-1], each.at
        with each.b.for_(0, writes.count) as loop:
            inside, index = place(each, loop.index, line)
            at = result.at([*index, *line])
            old = result.load(at, mask=inside)
            result.store(at, join(each.k, old, update(each, loop.index, line)), mask=inside)

    def element_by_element(each: Each) -> None:
        b, result, line = each.b, each.operands[-1], each.at[depth:]
        with b.for_(0, writes.count, carried=[result[each.at]]) as loop:
            mine, index = place(each, loop.index, line)
            for own, other in zip(each.at, index, strict=False):
                mine = mine & (other == own)
            (old,) = loop.carried
            new = join(each.k, old, update(each, loop.index, line))
            loop.yield_(b.select(mine, new, old))
        result[each.at] = loop.results[0]

    is_by_line = config.by == "line"
    for_each(
        launcher, "scatter",
        content_of((config, writes.count, sizes, writes.reduction, len(sources))),
        writes.lines if is_by_line else target.shape, sources, target,
        line_by_line if is_by_line else element_by_element,
        fault=writes.fault, access="read_write",
    )  # fmt: skip


def _write_runs(
    launcher: Launcher, writes: Writes, target: CubeTensor, place: Place, config: ScatterConfig
) -> None:
    if writes.count == 0 or target.type.size == 0:
        return
    sizes = target.shape[: writes.indices.shape[-1]]
    runs = sorted_writes(launcher, writes.indices, sizes, place, writes.fault)
    if writes.updates is None or writes.reduction == "assign":
        assign_runs(launcher, runs, writes.updates, target)
        return
    join = _JOIN[writes.reduction]
    join_runs(launcher, runs, writes.updates, target, writes.reduction, join, config.chunk)


def _begun(launcher: Launcher, x: CubeTensor | Constant, type: TensorType) -> CubeTensor:
    """Return x in the dtype in which updates meet, so that 16-bit floats are rounded once."""
    return dense(launcher, x, TensorType(type.shape, type.dtype.compute))


def _ended(launcher: Launcher, x: CubeTensor, type: TensorType) -> CubeTensor:
    return x if x.dtype is type.dtype else dense(launcher, x, type)


@lowers("scatter", "scatter_reduce")
def scatter(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """An index for each update along one axis."""
    x, indices, updates = inputs
    axis, shape = attrs["axis"], out[0].shape
    target = _begun(launcher, x, out[0])
    selected = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
    values = as_tensor(launcher, updates).broadcast_to(selected)
    writes = Writes(
        along_axis(indices, shape, axis), axis_first(values, axis), attrs["reduction"],
        outside(attrs.get("asked", "scatter"), shape[axis : axis + 1], axis),
    )  # fmt: skip
    write(launcher, writes, axis_first(target, axis))
    return [_ended(launcher, target, out[0])]


@lowers("scatter_nd", "scatter_nd_reduce")
def scatter_nd(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """A vector of indices for each slice of updates."""
    x, indices, updates = inputs
    depth = indices.shape[-1]
    sizes, rest = out[0].shape[:depth], out[0].shape[depth:]
    target = _begun(launcher, x, out[0])
    values = as_tensor(launcher, updates).broadcast_to(indices.shape[:-1] + rest)
    count = element_count(indices.shape[:-1])
    writes = Writes(
        by_vector(launcher, indices, rest), flattened(launcher, values, (count, *rest)),
        attrs["reduction"], outside("scatter_nd", sizes),
    )  # fmt: skip
    write(launcher, writes, target)
    return [_ended(launcher, target, out[0])]


@lowers("embedding_backward")
def embedding_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The rows of g added up at their indices."""
    indices, g = inputs
    rows, features = out[0].shape
    target = zeros(launcher, TensorType(out[0].shape, out[0].dtype.compute))
    count = indices.type.size
    writes = Writes(
        by_vector(launcher, flattened(launcher, indices, (count, 1)), (features,)),
        flattened(launcher, g, (count, features)), "add", outside("embedding", (rows,)),
    )  # fmt: skip
    write(launcher, writes, target)
    return [_ended(launcher, target, out[0])]


@lowers("bincount_within")
def bincount_within(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Ones, or weights, added up at the integers; what lies outside is not counted."""
    x, weights = inputs
    assert isinstance(x, CubeTensor)
    one = Constant(1, TensorType((), out[0].dtype))
    values = as_tensor(launcher, one if weights is None else weights).broadcast_to(x.shape)
    target = zeros(launcher, TensorType(out[0].shape, out[0].dtype.compute))
    write(launcher, Writes(_with_axis(x), values, "add", None), target)
    return [_ended(launcher, target, out[0])]


@lowers("is_last_scattered", "is_last_scattered_nd")
def is_last(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The numbers of the writes are written; the last are those that are still there."""
    (indices,) = inputs
    shape, axis = attrs["shape"], attrs.get("axis")
    result = launcher.empty(out[0])
    if axis is not None:
        vectors, view = along_axis(indices, shape, axis), axis_first(result, axis)
        kept = (shape[axis], *shape[:axis], *shape[axis + 1 :])
        fault = outside("scatter", (shape[axis],), axis)
    else:
        depth = indices.shape[-1]
        vectors, view = by_vector(launcher, indices, ()), _flat(result)
        kept, fault = shape[:depth], outside("scatter_nd", shape[:depth])
    latest = launcher.empty(TensorType(kept, int32))
    write(launcher, Writes(vectors, None, "assign", fault), latest)
    sizes = kept[: vectors.shape[-1]]

    def body(each: Each) -> None:
        given, last, still = each.operands
        number, *line = each.at
        index = [each.as_index(given[[*each.at, a]], n)[1] for a, n in enumerate(sizes)]
        still[each.at] = _same(each, last, [*index, *line], number)

    for_each(launcher, op.name, content_of(sizes), view.shape, [vectors, latest], view, body)
    return [result]


def _flat(x: CubeTensor) -> CubeTensor:
    view = x.reshaped((x.type.size,))
    assert view is not None, "a dense tensor takes any shape"
    return view


def _same(each: Each, last: Operand, at: Any, number: Value | int) -> Value:
    return last[at] == each.b.cast(each.b.index(number), int32)
