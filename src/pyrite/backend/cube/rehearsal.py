"""Rehearsals: an op that is known runs at sizes that may come, and launches nothing.

Which kernels an op has may differ by classes of its sizes: few rows or many, whole vectors or not.
So what a lowering does for other sizes is noted and thrown away, by a thread in a pause; what stays
are its kernels.  They are those that a call of such sizes would have asked for, so no result
depends on whether there was a rehearsal.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, TypeVar

from pyrite.backend.cube.ahead import Job
from pyrite.backend.cube.launcher import Foresee, Launcher
from pyrite.backend.cube.layout import Strides
from pyrite.backend.cube.recording_launcher import Kept, RecordingLauncher
from pyrite.backend.cube.resizings import likely_resizings, resizings, short_resizings
from pyrite.backend.cube.sized import MOST_REHEARSED, SizedCall, SizedRecordings
from pyrite.backend.cube.tensor import CubeTensor, without_memory
from pyrite.content import NoContentError, content_of
from pyrite.errors import PyriteError
from pyrite.kernel import Kernel
from pyrite.kernel.extent import all_extents
from pyrite.op import Attributes, Op, rules_key, types_of_results
from pyrite.symbol import LEAST
from pyrite.types import Shape, TensorType

P = TypeVar("P", bound=Hashable)

#: Elements of an operand above which nothing is rehearsed.
MOST_ELEMENTS: Final = 1 << 28


class Rehearsal(RecordingLauncher):
    """A launcher whose sizes come first for nobody, and which is thrown away."""

    foresees = False

    def launch_for(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Any], workgroups: int, fault: str | None = None, *,
        knows_first: bool = False, writes_once: bool = False,
    ) -> None:  # fmt: skip
        """Have the kernel compiled that serves a problem, if its like came before."""
        super().launch_for(problem, key, build, bindings, workgroups, fault)

    def is_first(self, problem: Hashable) -> bool:
        """Whether the extents are those with which a pattern came first: of other batches, too."""
        like, extents = all_extents(problem)
        return self._launcher.known_first_extents(like) == extents

    def builds_in(self, sizes: tuple[int, ...], problem: Hashable) -> bool:
        """Return False: kernels with sizes built in are for those of real calls."""
        return False

    def first_of(self, problem: P) -> P:
        """Return what came first; raise LookupError where nothing has."""
        first = self._launcher.known_first_of(problem)
        if first is None:
            raise LookupError("a rehearsal of what no call has come to")
        return first

    def compile_ahead(self, key: Hashable, job: Callable[[Launcher], Iterable[Job] | None]) -> None:
        """Leave it to the first call."""

    def compile_other_class(self, foreseen: Callable[[], tuple[Hashable, Foresee]]) -> None:
        """Compile it now: what a lowering asks for at these sizes no call may have asked for."""
        _, compile = foreseen()
        compile(self._launcher)


def rehearse(
    launcher: Launcher, known: SizedRecordings, kind: Hashable, op: Op, inputs: Sequence[Any],
    attrs: Attributes, kept: Kept,
) -> None:  # fmt: skip
    """Have an op rehearsed at other sizes in pauses, once for each kind of its inputs.

    What is ``kept`` is as it is now at all of these sizes.  Those for which a recording is
    ``known`` are left out; each other makes one known, for all sizes like it.
    """
    given = tuple([without_memory(x) for x in inputs])
    changing = {
        n for n, x in enumerate(given) if isinstance(x, CubeTensor) and n not in kept.inputs
    }

    operands = [given[n] for n in sorted(changing)]

    def call(sizes: dict[int, int]) -> tuple[Sequence[Any], Attributes]:
        others = [
            resized(x, resized_shape(x.shape, sizes)) if n in changing else x
            for n, x in enumerate(given)
        ]
        own = {n: n for x in operands for n in x.shape} | sizes
        like = operands[0].shape if operands else ()
        return others, resized_attributes(op, attrs, own, like, resized_shape(like, sizes))

    def job(sizes: dict[int, int]) -> Job:
        return partial(_run, launcher, known, op, *call(sizes))

    def likely() -> Iterator[Job]:
        yield from map(job, likely_resizings(operands, kept.sizes))

    def jobs(launcher: Launcher) -> Iterator[Job]:
        sizes = {n for x in operands for n in x.shape if n > 1}.difference(kept.sizes)
        free = [n for n in sorted(sizes) if _types(op, *call({n: n + 1})) is not None]
        yield from map(job, short_resizings(operands, free))
        are_tiled = launcher.machine.kind == "gpu"
        yield from map(job, resizings(operands, kept.sizes, are_tiled=are_tiled))
        for shapes, of_attributes in kept.resizings() if kept.resizings is not None else ():
            others = [*given]
            for n, shape in zip(kept.resized, shapes, strict=True):
                others[n] = resized(given[n], shape)
            changed = {
                name: of_attributes.get(value, value) if name in op.sizes else value
                for name, value in attrs.items()
            }
            yield partial(_run, launcher, known, op, others, changed)

    launcher.ahead.submit(content_of(("likely", kind)), likely, is_likely=True)
    launcher.compile_ahead(kind, jobs)


def _run(
    launcher: Launcher, known: SizedRecordings, op: Op, inputs: Sequence[Any], attrs: Attributes
) -> None:
    """Run the lowering of an op; errors say that there is no such call."""
    given, out = [x.type for x in inputs if isinstance(x, CubeTensor)], _types(op, inputs, attrs)
    if out is None or any(t.size > MOST_ELEMENTS for t in (*given, *out)):
        return
    kind, call = kind_of(op, inputs, attrs), SizedCall(op, inputs, attrs, out)
    if kind is not None and known.serve(kind, call):
        return
    rehearsal = Rehearsal(launcher, inputs)
    lowering = known.choose(op, rehearsal.inputs, attrs)
    if lowering is not None:
        lowering(rehearsal, op, rehearsal.inputs, attrs, out)
        # Where its kernels were all that was missing there is a class.
        if kind is not None and not known.serve(kind, call):
            known.learn(kind, op, call, most=MOST_REHEARSED)


def _types(op: Op, inputs: Sequence[Any], attrs: Attributes) -> tuple[TensorType, ...] | None:
    """Return the types of results, None where there is no such call."""
    types = [x.type if isinstance(x, CubeTensor) else x for x in inputs]
    try:
        return types_of_results(op, types, attrs)
    except PyriteError:
        return None


def kind_of(op: Op, inputs: Sequence[Any], attrs: Attributes) -> Hashable | None:
    """Return what calls have in common that differ in sizes alone; None where there is no such key.

    An application's body has none: no thread runs it but those of the application.  Sizes among the
    attributes are the same in all calls, as if they were not known.
    """
    if op.body_reads is not None:
        return None
    parts: list[Hashable] = [op.name, rules_key(op)]
    for x in inputs:
        if not isinstance(x, CubeTensor):
            is_bool = x is not None and x.type.dtype.is_bool
            parts.append(x if x is None else bool(x.value) if is_bool else x.type.dtype)
            continue
        order, gaps = order_of(x.shape, x.strides), gaps_of(x.shape, x.strides)
        if gaps is None:
            return None
        parts += (x.dtype, order, tuple([n == 1 for n in x.shape[1:]]))
        parts += (tuple([n > 0 for n in gaps]), x.offset > 0)
    try:
        return (*parts, content_of(tuple(_mapped_sizes(op, attrs, lambda *_: None).items())))
    except NoContentError:
        return None


def order_of(shape: Shape, strides: Strides) -> tuple[int, ...]:
    """Return the axes of a tensor from the outermost on.

    Axes along which it is stretched stand before these, as ``~axis``.

    >>> order_of((5, 3, 4), (1, 0, 5)), order_of((5, 3), (4, 1))
    ((-2, 2, 0), (0, 1))
    """
    stretched = [axis for axis, n in enumerate(shape) if n > 1 and not strides[axis]]
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    return (*[~axis for axis in stretched], *[axis for axis in order if axis not in stretched])


def gaps_of(shape: Shape, strides: Strides) -> tuple[int, ...] | None:
    """Return how many elements are left out behind each axis of a tensor, as a part of a row has.

    The last is for neighbours that are apart.  None where no such gaps say how it lies.

    >>> gaps_of((5, 3, 4), (1, 0, 5)), gaps_of((5, 3), (4, 1)), gaps_of((5, 3), (12, 2))
    ((0, 0, 0, 0), (0, 1, 0), (0, 3, 1))
    >>> gaps_of((5, 3), (7, 2)), gaps_of((5,), (-1,))
    (None, None)
    """
    gaps, step, inner = [0] * (len(shape) + 1), 1, -1
    for axis in reversed([axis for axis in order_of(shape, strides) if axis >= 0]):
        if shape[axis] == 1:
            continue
        count, rest = divmod(strides[axis], step)
        least = 1 if inner < 0 else shape[inner]
        if rest or count < least:
            return None
        gaps[inner], inner, step = count - least, axis, strides[axis]
    return tuple(gaps)


def resized_shape(shape: Shape, sizes: dict[int, int]) -> Shape:
    """Return a shape with others in place of sizes, and of 1 and ~n on the first axis alone."""
    first = [sizes.get(~n, sizes.get(n, n)) for n in shape[:1]]
    return (*first, *[sizes.get(n, n) if n > 1 else n for n in shape[1:]])


def resized_attributes(
    op: Op, attrs: Attributes, sizes: Mapping[int, int], shape: Shape, other: Shape
) -> Attributes:
    """Return attributes with others in place of sizes, in those that are sizes.

    One that no tensor has, as of a pool's images by its windows, or a place, changes as the axis
    does that stands there, from the last on, when a shape becomes the ``other``.

    >>> from pyrite.op import OPS
    >>> attrs = {"shape": (5, 3), "start": (1, 2), "step": (5, 1)}
    >>> resized_attributes(OPS["slice_update"], attrs, {5: 8, 3: 9}, (5, 3), (8, 9))
    {'shape': (8, 9), 'start': (1, 6), 'step': (5, 1)}
    """

    def change(n: int, from_last: int) -> int:
        if n in sizes or from_last > len(shape):
            return sizes.get(n, n)
        return max(n * other[-from_last] // max(shape[-from_last], 1), LEAST)

    return _mapped_sizes(op, attrs, change)


def _mapped_sizes(op: Op, attrs: Attributes, change: Callable[[int, int], Any]) -> Attributes:
    """Return attributes with others in place of sizes of two or more.

    They come of these, and of their places from the last on, which is 1.
    """
    return {
        name: tuple([
            change(n, len(value) - at) if n.__class__ is int and n >= LEAST else n
            for at, n in enumerate(value)
        ])
        if name in op.sizes and value.__class__ is tuple else value
        for name, value in attrs.items()
    }  # fmt: skip


def resized(x: CubeTensor, shape: Shape) -> CubeTensor:
    """Return a tensor of a shape whose axes lie in the order of those of x, with the same gaps."""
    order, gaps = order_of(x.shape, x.strides), gaps_of(x.shape, x.strides)
    assert gaps is not None, "what lies in no order is not rehearsed"
    strides, step = [0] * len(shape), 1 + gaps[-1]
    for axis in reversed(order):
        if axis >= 0:
            strides[axis] = step
            step *= shape[axis] + gaps[axis]
    return CubeTensor(x.buffer, TensorType(shape, x.dtype), tuple(strides), x.offset)
