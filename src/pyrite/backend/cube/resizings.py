"""What sizes are rehearsed in place of those of a call; see `pyrite.backend.cube.rehearsal`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, product
from random import Random
from typing import Any, Final

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.types import Shape

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
#: Most calls have axes that are short together, so many or more, where classes lie close: how many
#: lanes share a row, whether a product of sizes is whole vectors.  Of these magnitudes, in so many
#: draws, which cost next to nothing where they find their class.
LEAST_TOGETHER: Final = 2
SHORT: Final = (2, 4, 8, 16)
SHORT_DRAWS: Final = 160
#: What the first axes have, where all others stay.
LEADING: Final = (1, 3, 16, 37, 301)
#: What stands for a batch of one beside other sizes that are drawn.
BATCHES: Final = (2, 3, 8, 5, 37)


def likely_resizings(inputs: Sequence[Any], kept: Collection[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of one size each: leading axes' first, then what weights leave open.

    >>> from pyrite.backend.cube.tensor import unstored
    >>> from pyrite.types import TensorType, float32
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
    >>> from pyrite.types import TensorType, float32
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
    tiled = _crossed(drawn) if are_tiled else ()
    mixtures = chain(_drawn(drawn), _drawn_alike(drawn), _drawn(own), tiled)
    batches = [m for m in leading if m < 0 or ~m not in leading]
    for draw, others in enumerate(mixtures):
        of_one = [m for m in batches if m in others or m < 0] if draw % 4 == 0 else []
        several = {1: BATCHES[draw % len(BATCHES)]} if 1 in sizes and draw % 2 else {}
        yield others | dict.fromkeys(of_one, 1) | several
    for draw, others in enumerate(_drawn_alone(drawn)):
        yield others
        # A model's weights and heads stay, beside a batch of one where there were several, or not.
        several = {1: BATCHES[draw % len(BATCHES)]} if 1 in sizes else {}
        yield others | dict.fromkeys(batches, 1) | several


def short_resizings(inputs: Sequence[Any], free: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield others in place of several sizes that may change ``free`` of others, all of them short.

    Those that no tensor of fewer axes has where these are several, as weights stay.
    """
    shapes = [x.shape for x in inputs if isinstance(x, CubeTensor) and x.shape]
    changing = _of_images(shapes, free)
    sizes = changing if len(changing) >= LEAST_TOGETHER else free
    rng = Random(0)
    for _ in range(SHORT_DRAWS if len(sizes) >= LEAST_TOGETHER else 0):
        yield {m: _size(rng, rng.choice(MULTIPLES[:3]), rng.choice(SHORT)) for m in sizes}


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
