"""Rehearsals: an op that is known runs at sizes that may come, and launches nothing.

Which kernels an op has may differ by classes of its sizes: few rows or many, whole vectors or not.
So what a lowering does for other sizes is noted and thrown away, by a thread in a pause; what stays
are its kernels.  They are those that a call of such sizes would have asked for, so no result
depends on whether there was a rehearsal.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import chain, product
from random import Random
from typing import Any, Final, TypeVar

from pyrite.backend.cube.ahead import Job
from pyrite.backend.cube.launcher import Foresee, Launcher
from pyrite.backend.cube.layout import Strides
from pyrite.backend.cube.recording_launcher import Kept, RecordingLauncher
from pyrite.backend.cube.sized import MOST_REHEARSED, SizedCall, SizedRecordings
from pyrite.backend.cube.tensor import CubeTensor, without_memory
from pyrite.content import NoContentError, content_of
from pyrite.kernel import Kernel
from pyrite.op import Attributes, Op, rules_key, types_of_results
from pyrite.symbol import LEAST
from pyrite.types import Shape, TensorType

P = TypeVar("P", bound=Hashable)

#: Sizes that are rehearsed in place of each size: one, few and many, whole vectors and not.
SIZES: Final = (2, 7, 8, 12, 24, 37, 58, 100, 120, 301, 512)
#: By how many of these a size differs from the one before it.
STEPS: Final = (0, 1, 3)
#: Mixtures are drawn beside these, as what finds its kernels costs next to nothing: of sizes of
#: each magnitude, from so many on to twice as many, that are odd multiples of each of some numbers.
MAGNITUDES: Final = tuple([1 << n for n in range(2, 10)])
MULTIPLES: Final = (1, 2, 4, 16, 64)
#: Multiples of which a size is where all others stay.
_LONE: Final = (1, 16)
#: A GPU's tiles are whole or cut at each side, with vectors that fit or not: multiples of these,
#: each beside each of up to so many sizes, in so many rounds of other magnitudes.
TILES: Final = (1, 4, 64)
MOST_CROSSED: Final = 3
ROUNDS: Final = 3
#: Axes of images are short together, so many or more: a GPU's lanes share a row by how many
#: elements all of them have.  Of these magnitudes, in so many draws.
LEAST_TOGETHER: Final = 3
SHORT: Final = (2, 4, 8, 16)
SHORT_DRAWS: Final = 160
#: What the first axes have, where all others stay.
LEADING: Final = (1, 3, 16, 37, 301)
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
        """Return False: kernels with sizes built in are for those of real calls."""
        return False

    def builds_in(self, sizes: tuple[int, ...], problem: Hashable) -> bool:
        """Return False: see `is_first`."""
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

    def job(sizes: dict[int, int]) -> Job:
        others = [
            resized(x, resized_shape(x.shape, sizes)) if n in changing else x
            for n, x in enumerate(given)
        ]
        own = {n: n for x in operands for n in x.shape} | sizes
        like = operands[0].shape if operands else ()
        changed = resized_attributes(op, attrs, own, like, resized_shape(like, sizes))
        return partial(_run, launcher, known, op, others, changed)

    def likely() -> Iterator[Job]:
        yield from map(job, likely_resizings(operands, kept.sizes))

    def jobs(launcher: Launcher) -> Iterator[Job]:
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
    types = [x.type if isinstance(x, CubeTensor) else x for x in inputs]
    out = types_of_results(op, types, attrs)
    given = [t for t in types if isinstance(t, TensorType)]
    if out is None or any(t.size > MOST_ELEMENTS for t in (*given, *out)):
        return
    kind, call = kind_of(op, inputs, attrs), SizedCall(op, inputs, attrs, out)
    if kind is not None and known.serve(kind, call):
        return
    rehearsal = Rehearsal(launcher, inputs)
    lowering = known.choose(op, rehearsal.inputs, attrs)
    if lowering is not None:
        lowering(rehearsal, op, rehearsal.inputs, attrs, out)
        if kind is not None:
            known.learn(kind, op, call, most=MOST_REHEARSED)


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


def likely_resizings(inputs: Sequence[Any], kept: Collection[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of one size each: leading axes' first, then what weights leave open.

    >>> from pyrite.backend.cube.tensor import unstored
    >>> from pyrite.types import float32
    >>> x, bias = (unstored(TensorType(shape, float32)) for shape in ((5, 6, 4, 3), (4,)))
    >>> list(dict.fromkeys(m for sizes in likely_resizings([x, bias], ()) for m in sizes))
    [4, 5, 3, 6]
    """
    shapes = [x.shape for x in inputs if isinstance(x, CubeTensor) and x.shape]
    sizes = sorted({n for shape in shapes for n in shape if n > 1}.difference(kept))
    leading = sorted({shape[0] for shape in shapes}.intersection(sizes))
    for m, n in product(dict.fromkeys([*leading, *_of_images(shapes, sizes)]), LEADING):
        yield {m: n}


def resizings(
    inputs: Sequence[Any], kept: Collection[int], *, are_tiled: bool = False
) -> Iterator[dict[int, int]]:
    """Yield others in place of the sizes of inputs; equal sizes remain equal.

    First that of one leading axis alone, as batches differ; then all, so that any two meet as few
    and many.  What stands for 1 is for a batch of one, and for leading axes only; what stands for
    ``~n`` is for leading axes of n alone, where other axes have as many elements as the batch.
    Where kernels ``are_tiled`` there are more mixtures.

    >>> from pyrite.backend.cube.tensor import unstored
    >>> from pyrite.types import float32
    >>> x = unstored(TensorType((5, 3), float32))
    >>> [next(resizings([x], kept)) for kept in ((), (5,))]
    [{5: 1}, {3: 2}]
    """
    shapes = [x.shape for x in inputs if isinstance(x, CubeTensor) and x.shape]
    sizes = sorted({n for shape in shapes for n in shape if n > 1}.difference(kept))
    rank = max(map(len, shapes), default=0)
    if all(shape[0] == 1 for shape in shapes if len(shape) == rank):
        sizes.append(1)
    leading = [
        *sorted({shape[0] for shape in shapes}.intersection(sizes)), *_batches_like(shapes)
    ]  # fmt: skip
    for m, n in product(leading, LEADING):
        yield {m: n}
    drawn = [m for m in sizes if m > 1]
    # First what changes where a model's weights stay, as only so many classes are made known.
    changing = _of_images(shapes, drawn)
    yield from _drawn(changing) if len(changing) < len(drawn) else ()
    for step, start in product(STEPS, range(len(SIZES))) if sizes else ():
        others = {m: SIZES[(start + step * i) % len(SIZES)] for i, m in enumerate(sizes)}
        if start % 2:
            others.pop(1, None)
        yield others
    own = _own(shapes, drawn)
    tiled = chain(_crossed(drawn), _short(_of_images(shapes, drawn))) if are_tiled else ()
    mixtures = chain(_drawn(drawn), _drawn_alike(drawn), _drawn(own), tiled)
    batches = [m for m in leading if m < 0 or ~m not in leading]
    for draw, others in enumerate(mixtures):
        of_one = [m for m in batches if m in others or m < 0] if draw % 4 == 0 else []
        yield others | dict.fromkeys(of_one, 1)
    for others in _drawn_alone(drawn):
        yield others
        yield others | dict.fromkeys(batches, 1)


def _batches_like(shapes: Sequence[Shape]) -> list[int]:
    """Return ``~n`` for a batch of n where another axis has n elements too, as heads or features.

    >>> _batches_like([(4, 3, 4), (4, 3)]), _batches_like([(5, 3, 4), (5, 3)])
    ([-5], [])
    """
    rank = max(map(len, shapes), default=0)
    batches = {shape[0] for shape in shapes if len(shape) == rank}
    others = {n for shape in shapes for n in shape[1:]}
    return [~n for n in batches if n > 1 and n in others] if len(batches) == 1 else []


def _own(shapes: Sequence[Shape], sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the first shape that no other has: a model's weights have the others."""
    kept = {n for shape in shapes[1:] for n in shape}
    own = [m for m in sizes if m in shapes[0] and m not in kept]
    return own if len(own) < len(sizes) else []


def _drawn(sizes: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of sizes, each of every magnitude and multiple once."""
    rng = Random(0)
    classes = [(of, low) for of in MULTIPLES for low in MAGNITUDES]
    for each in zip(*[rng.sample(classes, len(classes)) for _ in sizes], strict=True):
        yield {m: _size(rng, of, low) for m, (of, low) in zip(sizes, each, strict=True)}


def _crossed(sizes: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of few sizes: each multiple beside each of the others' multiples."""
    if not 1 < len(sizes) <= MOST_CROSSED:
        return
    rng = Random(0)
    for _, multiples in product(range(ROUNDS), product(TILES, repeat=len(sizes))):
        yield {
            m: _size(rng, of, rng.choice(MAGNITUDES))
            for m, of in zip(sizes, multiples, strict=True)
        }


def _of_images(shapes: Sequence[Shape], sizes: Sequence[int]) -> list[int]:
    """Return the sizes that no tensor of fewer axes has, as channels are in a norm's weight.

    >>> _of_images([(5, 32, 8, 9), (32,)], [5, 8, 9, 32])
    [5, 8, 9]
    """
    rank = max(map(len, shapes), default=0)
    kept = {n for shape in shapes if len(shape) < rank for n in shape}
    return [m for m in sizes if m not in kept]


def _short(sizes: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of several sizes, all of them short."""
    rng = Random(0)
    for _ in range(SHORT_DRAWS if len(sizes) >= LEAST_TOGETHER else 0):
        yield {m: _size(rng, rng.choice(MULTIPLES[:3]), rng.choice(SHORT)) for m in sizes}


def _drawn_alike(sizes: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of sizes, all of them multiples of the same number."""
    rng = Random(0)
    for of in MULTIPLES:
        for each in zip(*[rng.sample(MAGNITUDES, len(MAGNITUDES)) for _ in sizes], strict=True):
            yield {m: _size(rng, of, low) for m, low in zip(sizes, each, strict=True)}


def _drawn_alone(sizes: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of each size where all others stay, as lengths alone differ."""
    rng = Random(0)
    classes = [(of, low) for of in _LONE for low in MAGNITUDES]
    for m, (of, low) in product(sizes, classes):
        yield {m: _size(rng, of, low)}


def _size(rng: Random, of: int, low: int) -> int:
    """Return a size of low to twice that: an odd multiple of 1, 2 or 4, or any of 16 or 64."""
    n = rng.randrange(low, 2 * low)
    return -(-n // of) * of if of > MULTIPLES[2] else n // (2 * of) * 2 * of + of


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
