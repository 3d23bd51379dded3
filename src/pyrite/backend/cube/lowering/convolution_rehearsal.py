"""Rehearsals of convolutions: other batches and images, by the weight that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from random import Random
from typing import Final

from pyrite.backend.cube.ahead import Job
from pyrite.backend.cube.launcher import Launcher, Resizing
from pyrite.backend.cube.lowering.convolution import GRADIENTS, convolve
from pyrite.backend.cube.rehearsal import Rehearsal, gaps_of, order_of, resized
from pyrite.backend.cube.tensor import CubeTensor, without_memory
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.types import Shape

#: Batches that are rehearsed.
_BATCHES: Final = (1, 2, 3, 5, 8, 37)
#: Of the images that came first: a GPU's kernels have these built in, and are of other tiles, whole
#: or cut, by how many positions all images have.
_BATCHES_OF_FIRST: Final = {
    "cpu": _BATCHES,
    "gpu": (*_BATCHES, *chain(*[(n, n + 1, n + 2, n + n // 2) for n in (4, 8, 16, 32, 64, 128)])),
}
#: From the size of an axis of an image to another: with odd ends, and as many whole vectors.
_SIZES: Final[tuple[Callable[[int], int], ...]] = (
    lambda n: n,
    lambda n: n + 1,
    lambda n: n // 2,
    lambda n: 2 * n + 1,
    lambda n: _multiple(n, 16),
    lambda n: _multiple(n, 16) + 1,
    lambda n: _multiple(n, 16) + 4,
    lambda n: _multiple(n, 16) + 7,
    lambda n: _multiple(n, 16) + 8,
    lambda n: _multiple(n, 16) + 15,
)
#: Images of at most so many windows on an axis may come with a few, down to one.
_FEW: Final = 4
#: How many these are along the last axis, where vectors lie, and along the others.
_LAST: Final = (1, 2, 3, 5)
_OTHERS: Final = (1, 2, 3)

#: How many images are drawn beside these: what finds its kernels costs next to nothing.  A GPU's
#: tiles are whole or cut at each side, so there are more.
_DRAWS: Final = {"cpu": 40, "gpu": 120}
#: What their last axis is a multiple of, in turns: vectors of so many elements lie in one row.
_WHOLE: Final = (1, 4, 8, 16)
#: Rows of so many elements are rehearsed with each end: they are vectors of 2, 4, 8 or 16 with a
#: mask, each another way, in batches small and large.
_SHORT: Final = 16
_BATCHES_OF_SHORT: Final = (1, 6, 40)
#: Images of few rows are products, where others of as long rows are run directly.
_FEW_ROWS: Final = 6

#: By how many of these axes differ.
_STEPS: Final = (0, 1, 3)


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of


#: From windows to the shape of an operand; None for one that the layer has.
ShapeOf = Callable[[Windows], Shape] | None
#: What runs a convolution of other windows, on tensors of their shapes.
Run = Callable[[Launcher, Windows, Sequence[CubeTensor]], None]


def rehearse_windows(
    launcher: Launcher, w: Windows, what: str, operands: Sequence[tuple[CubeTensor, ShapeOf]],
    run: Run,
) -> None:  # fmt: skip
    """Have a convolution, or the gradient that ``what`` says, rehearsed once for each layer."""
    if not launcher.foresees:
        return
    launcher.keep_sizes(*(n for t, _ in operands for n in t.shape))
    orders = tuple([order_of(t.shape, t.strides) for t, _ in operands])
    if any(
        gaps is None or any(gaps) for gaps in (gaps_of(t.shape, t.strides) for t, _ in operands)
    ):
        return
    zeros = (0,) * len(w.sizes)
    layer = (what, orders, replace(w, batch=0, sizes=zeros, counts=zeros), operands[0][0].dtype)
    given = [(without_memory(t), shape_of) for t, shape_of in operands]

    def jobs(launcher: Launcher) -> Iterator[Job]:
        kind = launcher.machine.kind
        for other in other_windows(w, _DRAWS[kind], _BATCHES_OF_FIRST[kind]):
            tensors = [t if of is None else resized(t, of(other)) for t, of in given]
            rehearsal = Rehearsal(launcher, tensors)
            yield partial(run, rehearsal, other, rehearsal.inputs)

    launcher.compile_ahead(layer, jobs)


def rehearse_forward(
    launcher: Launcher, w: Windows, x: CubeTensor, weight: CubeTensor,
    biases: Sequence[CubeTensor], target: CubeTensor,
) -> None:  # fmt: skip
    """Have the kernels of a layer for other batches and images compiled ahead."""
    flat = [bias.strided(bias.shape[1:2], bias.strides[1:2]) for bias in biases]

    def run(launcher: Launcher, w: Windows, tensors: Sequence[CubeTensor]) -> None:
        x, weight, target, *others = tensors
        spread = [
            bias.strided(target.shape, (0, bias.strides[0], *(0,) * len(w.counts)))
            for bias in others
        ]
        convolve(launcher, w, x, weight, spread, target)

    operands = [(x, image_shape), (weight, None), (target, result_shape)]
    rehearse_windows(launcher, w, "forward", [*operands, *((bias, None) for bias in flat)], run)


def rehearse_gradient(
    launcher: Launcher, w: Windows, role: int, first: CubeTensor, second: CubeTensor,
    target: CubeTensor,
) -> None:  # fmt: skip
    """Have the kernels of a gradient for other batches and images compiled ahead."""

    def run(launcher: Launcher, w: Windows, tensors: Sequence[CubeTensor]) -> None:
        GRADIENTS[role](launcher, w, *tensors)

    shapes = ((result_shape, None, image_shape), (image_shape, result_shape, None))[role]
    operands = tuple(zip((first, second, target), shapes, strict=True))
    rehearse_windows(launcher, w, ("gradient of x", "gradient of the weight")[role], operands, run)


def note_windows(
    launcher: Launcher, w: Windows, operands: Sequence[tuple[CubeTensor, ShapeOf]]
) -> None:
    """Note which shapes operands have at other batches and images."""
    if not launcher.foresees:
        return
    tensors = [t for t, of in operands if of is not None]
    shapes_of = [of for _, of in operands if of is not None]

    def resizings() -> Iterator[Resizing]:
        kind = launcher.machine.kind
        others = other_windows(w, 0, _BATCHES_OF_FIRST[kind])
        for other in chain(_drawn(w, _DRAWS[kind]), others):
            yield Resizing([of(other) for of in shapes_of], {w.sizes: other.sizes})

    launcher.note_resizings(tensors, resizings)


def image_shape(w: Windows) -> Shape:
    """Return the shape of x."""
    return (w.batch, w.groups * w.channels, *w.sizes)


def result_shape(w: Windows) -> Shape:
    """Return the shape of out."""
    return (w.batch, w.groups * w.outputs, *w.counts)


def other_windows(w: Windows, draws: int, batches: Sequence[int]) -> Iterator[Windows]:
    """Yield the windows of other batches and images that a layer may meet, so many drawn.

    First of these images in some batches.
    """
    for batch in batches:
        yield replace(w, batch=batch)
    rank = len(w.sizes)
    for step, start in product(_STEPS, range(len(_SIZES))):
        of_axes = [_SIZES[(start + step * axis) % len(_SIZES)] for axis in range(rank)]
        sizes = tuple([max(size(n), 1) for size, n in zip(of_axes, w.sizes, strict=True)])
        counts = _counts(w, sizes)
        if all(count > 0 for count in counts):
            batch = _BATCHES[(start + step) % len(_BATCHES)]
            yield replace(w, batch=batch, sizes=sizes, counts=counts)
    if min(w.counts) <= _FEW:
        yield from _of_few_windows(w)
    if w.sizes[-1] <= 2 * _SHORT:
        yield from _of_short_rows(w)
    yield from _drawn(w, draws)


def _of_short_rows(w: Windows) -> Iterator[Windows]:
    """Yield windows of images whose rows are shorter than two vectors, few and as many."""
    own = w.sizes[:-1]
    rows = {own, tuple([min(n, _FEW_ROWS) for n in own])}
    for others, last, batch in product(sorted(rows), range(2, _SHORT + 1), _BATCHES_OF_SHORT):
        sizes = (*others, last)
        counts = _counts(w, sizes)
        if all(count > 0 for count in counts):
            yield replace(w, batch=batch, sizes=sizes, counts=counts)


def _drawn(w: Windows, draws: int) -> Iterator[Windows]:
    """Yield windows of images half to twice as long, in batches of all kinds."""
    rng = Random(0)
    for draw in range(draws):
        *others, last = [rng.randint(-(-n // 2), 2 * n) for n in w.sizes]
        sizes = (*others, _multiple(last, _WHOLE[draw % len(_WHOLE)]))
        counts = _counts(w, sizes)
        if all(count > 0 for count in counts):
            yield replace(w, batch=round(2 ** rng.uniform(0, 6)), sizes=sizes, counts=counts)


def _of_few_windows(w: Windows) -> Iterator[Windows]:
    """Yield windows of images with few of them, or with one, along some axes."""
    own = w.counts[:-1]
    others = [own, *([n] * len(own) for n in _OTHERS)] if own else [()]
    batches = _BATCHES[:2] + _BATCHES[-1:]
    for (first, last), batch, is_left in product(product(others, _LAST), batches, (False, True)):
        counts = (*first, last)
        # Elements behind the last window keep rows of windows apart.
        beyond = [
            more - is_left * (far // 2) for more, far in zip(_beyond(w), w.stride, strict=True)
        ]
        axes = zip(counts, beyond, w.stride, strict=True)
        sizes = tuple([(count - 1) * far - more for count, more, far in axes])
        if all(n > 0 for n in sizes) and (not is_left or max(w.stride) > 1):
            yield replace(w, batch=batch, sizes=sizes, counts=counts)


def _counts(w: Windows, sizes: Shape) -> Shape:
    """Return how many windows images of other sizes have."""
    axes = zip(sizes, _beyond(w), w.stride, strict=True)
    return tuple([(n + more) // far + 1 for n, more, far in axes])


def _beyond(w: Windows) -> list[int]:
    """Return how far padding and the first window reach beyond an axis: -size of one window.

    What stands after an axis is not told; where it is what stands before it, no element is left.
    """
    found = []
    of = (w.counts, w.stride, w.sizes, w.padding, w.kernel_size, w.dilation)
    for count, far, n, before, k, apart in zip(*of, strict=True):
        even = 2 * before - (k - 1) * apart - 1
        is_even = (n + even) // far + 1 == count
        found.append(even if is_even else (count - 1) * far - n)
    return found
