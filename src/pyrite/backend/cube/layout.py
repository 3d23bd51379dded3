"""Where the elements of a tensor lie: strides, counted in elements, and what views make of them.

Element (i, j, …) lies at ``offset + i * strides[0] + j * strides[1] + …``.  A stride may be 0
(broadcast) or negative (flipped).  All of this is arithmetic on tuples; nothing is computed on a
device.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from pyrite.types import Shape

Strides = tuple[int, ...]

_keys: dict[tuple[Strides, int], int] = {}
_new_keys = itertools.count(1)
#: So many layouts have keys; then equal ones get others.
_MOST_KEYS: Final = 1 << 16


def layout_key(strides: Strides, offset: int) -> int:
    """Return a number for a layout: equal numbers mean equal layouts, and mostly the reverse.

    What is looked up by layouts is looked up by these: a number hashes faster.
    """
    layout = (strides, offset)
    found = _keys.get(layout)
    if found is None:
        if len(_keys) >= _MOST_KEYS:
            _keys.clear()
        found = _keys.setdefault(layout, next(_new_keys))
    return found


def row_major(shape: Shape) -> Strides:
    """Return the strides of a dense tensor in row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_row_major(shape: Shape, strides: Strides) -> bool:
    """Whether the elements lie in row-major order without gaps; strides of size 1 do not count."""
    wanted = row_major(shape)
    return 0 in shape or all(
        size == 1 or stride == want
        for size, stride, want in zip(shape, strides, wanted, strict=True)
    )


def broadcast_strides(shape: Shape, strides: Strides, to: Shape) -> Strides:
    """Return the strides of a tensor stretched to a shape to which it broadcasts.

    >>> broadcast_strides((3, 1), (1, 1), (2, 3, 4))
    (0, 1, 0)
    """
    missing = len(to) - len(shape)
    stretched = (
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(shape, strides, to[missing:], strict=True)
    )
    return (0,) * missing + tuple(stretched)


def reshaped_strides(shape: Shape, strides: Strides, to: Shape) -> Strides | None:
    """Return the strides of the same elements as another shape, or None where that takes a copy.

    >>> reshaped_strides((2, 6), (12, 2), (2, 3, 2)), reshaped_strides((2, 3), (1, 2), (6,))
    ((12, 4, 2), None)
    """
    if 0 in shape:
        return row_major(to)
    (sizes, steps), *_ = merged(shape, [strides])
    found: list[int] = []
    group = len(sizes) - 1
    left, step = (sizes[group], steps[group]) if sizes else (1, 1)
    for size in reversed(to):
        if size == 1:
            found.append(step)
            continue
        if left == 1:
            group -= 1
            left, step = sizes[group], steps[group]
        if left % size:
            return None
        found.append(step)
        step *= size
        left //= size
    return tuple(reversed(found))


def merged(shape: Shape, strides: Sequence[Strides]) -> list[tuple[Shape, Strides]]:
    """Return the shape and each operand's strides with as few axes as say the same.

    Axes of size 1 vanish, and neighbours along which every operand continues become one.

    >>> merged((2, 3, 4), [(12, 4, 1), (0, 0, 0)])
    [((24,), (1,)), ((24,), (0,))]
    """
    sizes: list[int] = []
    kept: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = [s[axis] for s in strides]
        if kept and all(last == step * size for last, step in zip(kept[-1], steps, strict=True)):
            sizes[-1] *= size
            kept[-1] = steps
        else:
            sizes.append(size)
            kept.append(steps)
    return [(tuple(sizes), tuple(steps[i] for steps in kept)) for i in range(len(strides))]
