"""Folds with what may stand before, after and beside them: their bits must not depend on it.

A case is drawn by a seed: what is folded, over which axes, in which layout and dtype, and what else
the program computes.  `FoldInProgram.run` gives all that a reader may ask for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyrite.autodiff import value_and_grad
from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS, Layout, drawn_order
from pyrite.types import Array, dtype

Axes = int | tuple[int, ...] | None

#: What is folded over which axes: along rows, columns and pieces, alone, few, odd, and long.
PLACES: tuple[tuple[tuple[int, ...], Axes], ...] = (
    ((1,), 0), ((5,), None), ((33,), 0), ((700,), None), ((20001,), 0), ((9, 70, 3), None),
    ((3, 8), 1), ((40, 7), 1), ((40, 37), 1), ((3, 129), 1), ((2, 20000), 1), ((5, 1), 1),
    ((8, 3), 0), ((33, 7), 0), ((70, 40), 0), ((5000, 3), 0), ((1, 12), 0), ((150, 1), 0),
    ((4, 5, 6), 1), ((4, 5, 6), (0, 1)), ((4, 5, 6), (1, 2)), ((4, 5, 6), (0, 2)),
    ((6, 3, 5, 7), (0, 2, 3)), ((40, 3, 7, 7), (0, 2, 3)), ((5, 3, 40, 41), (0, 2, 3)),
    ((9, 4, 2), (0, 2)), ((3, 2, 9000), (0, 2)), ((2, 6, 32), (1, 2)), ((2, 6, 9), (1, 2)),
    ((50, 20), 1), ((64, 48), 0), ((64, 48), 1),
)  # fmt: skip

FOLDS: dict[str, Callable[[Tensor, Axes], Tensor]] = {
    "sum": lambda x, axes: x.sum(axes, keepdims=True),
    "mean": lambda x, axes: x.mean(axes, keepdims=True),
    "var": lambda x, axes: x.var(axes, keepdims=True),
    "std": lambda x, axes: x.std(axes, keepdims=True),
    "logsumexp": lambda x, axes: x.logsumexp(axes, keepdims=True),
    "prod": lambda x, axes: (1 + x / 64).prod(axes, keepdims=True),
    "norm": lambda x, axes: (x * x).sum(axes, keepdims=True).sqrt(),
    "max": lambda x, axes: x.max(axes, keepdims=True),
    "softmax": lambda x, axes: x.softmax(axes if isinstance(axes, int) else -1),
    "log_softmax": lambda x, axes: x.log_softmax(axes if isinstance(axes, int) else -1),
    "layer_norm": lambda x, axes: x.layer_norm(axis=-1 if axes is None else axes),
    "rms_norm": lambda x, axes: x.rms_norm(axis=-1 if axes is None else axes),
}

#: Sizes of what is folded: all up to where rows leave registers, and where turns, segments and
#: blocks begin and end.
SIZES = (
    *range(1, 71), *(n + k for n in (128, 256, 512, 1024, 2048, 8192) for k in (-1, 0, 1)),
)  # fmt: skip


#: Sizes of the axes that stand beside it, and elements that a drawn tensor has at most.
_BESIDE = (1, 2, 3, 4, 7, 8, 9, 16, 17, 33)
_MOST = 40_000


def drawn_place(rng: random.Random, size: int) -> tuple[tuple[int, ...], Axes]:
    """Return a shape, and which axes are folded, of which one has the size."""
    ndim = rng.choice((1, 2, 2, 3, 3, 4))
    axes = tuple(sorted(rng.sample(range(ndim), min(ndim, rng.choice((1, 1, 1, 2, 3))))))
    shape = [rng.choice(_BESIDE) for _ in range(ndim)]
    long = rng.choice(axes)
    shape[long] = size
    for axis in rng.sample(range(ndim), ndim):
        if axis != long and math.prod(shape) > _MOST:
            shape[axis] = rng.choice((1, 2, 3))
    return tuple(shape), axes if len(axes) > 1 else axes[0]


DTYPES = (*["float32"] * 5, "float64", "float16", "bfloat16")

Map = Callable[[Tensor], Tensor]

#: What makes the operand.
BEFORE: dict[str, Map] = {
    "nothing": lambda x: x,
    "a product": lambda x: x * 1.5,
    "what is costly": lambda x: x.tanh(),
    "a turn": lambda x: (x * 2).mT if x.ndim > 1 else x * 2,
    "a copy the other way": lambda x: (x.mT * 1.25).mT if x.ndim > 1 else x.flip(0) * 2,
    "a bias": lambda x: x + x[:1],
    "a number of each row": lambda x: x * x[..., :1],
    "another shape": lambda x: (x + 1).reshape(-1).reshape(x.shape),
    "half of it": lambda x: (x * 3)[..., ::2],
}

#: What is made of the operand and the fold beside them, for a fold of some kind over some axes.
AFTER: dict[str, Callable[[Tensor, Tensor, Axes], Sequence[Tensor]]] = {
    "nothing": lambda x, s, axes: [],
    "a chain": lambda x, s, axes: [s * 2 + 1],
    "what is taken off": lambda x, s, axes: [x - s],
    "a sibling": lambda x, s, axes: [(x * x).sum(axes)],
    "a fold of what follows": lambda x, s, axes: [((x - s) * x).mean(axes)],
    "a fold the other way": lambda x, s, axes: [(x - s).sum(0), (x * s).sum(-1)],
    "a sum of all": lambda x, s, axes: [(x * 0.5).sum(), (x - s).mean()],
    "a norm": lambda x, s, axes: [(x - s).layer_norm(axis=-1), x],
}


@dataclass(frozen=True, slots=True)
class FoldInProgram:
    """A program of one fold and what stands around it."""

    text: str
    values: Array
    layout: Layout
    before: Map
    fold: Callable[[Tensor, Axes], Tensor]
    after: Callable[[Tensor, Tensor, Axes], Sequence[Tensor]]
    axes: Axes
    has_gradient: bool

    @classmethod
    def draw(cls, seed: int) -> FoldInProgram:
        """Return the program of a seed."""
        chosen = random.Random(seed)
        shape, axes = chosen.choice(PLACES)
        kind = chosen.choice(DTYPES)
        found = ["dense", *(n for n, of in LAYOUTS.items() if of.applies(shape))]
        return cls._drawn(seed, chosen, shape, axes, kind, LAYOUTS[chosen.choice(found)])

    @classmethod
    def draw_of_size(cls, size: int, seed: int) -> FoldInProgram:
        """Return a program that folds an axis of a size, of an operand in a drawn order."""
        chosen = random.Random(f"{size} {seed}")
        shape, axes = drawn_place(chosen, size)
        layout = drawn_order(chosen, len(shape))
        return cls._drawn(seed, chosen, shape, axes, chosen.choice(DTYPES), layout)

    @classmethod
    def _drawn(
        cls, seed: int, chosen: random.Random, shape: tuple[int, ...], axes: Axes, kind: str,
        layout: Layout,
    ) -> FoldInProgram:  # fmt: skip
        values = np.random.default_rng(seed).standard_normal(shape).astype(dtype(kind).numpy)
        before, fold, after = (chosen.choice(list(of)) for of in (BEFORE, FOLDS, AFTER))
        if before == "a turn" and len(shape) > 1 and shape[-1] != shape[-2]:
            before = "a copy the other way"
        has_gradient = chosen.random() < 0.25 and dtype(kind).itemsize > 2
        text = f"{seed}: {kind}{shape} lies {layout}, {before}, {fold} over {axes}, {after}"
        return cls(
            text + (", and its gradient" if has_gradient else ""), layout.settled(values), layout,
            BEFORE[before], FOLDS[fold], AFTER[after], axes, has_gradient,
        )  # fmt: skip

    @property
    def dense(self) -> FoldInProgram:
        """The same of a dense operand."""
        return replace(self, layout=LAYOUTS["dense"])

    def run(
        self, where: DeviceLike, between: Callable[[Sequence[Tensor]], None] = lambda _: None
    ) -> list[Array]:
        """Return what the program gives on a device.

        ``between`` is called with all that was made, between its steps.
        """
        given = self.layout(self.values, where)
        x = self.before(given)
        between([x])
        folded = self.fold(x, self.axes)
        between([x, folded])
        made = [folded, *self.after(x, folded, self.axes)]
        between([x, *made])
        if self.has_gradient:

            def loss(x: Tensor) -> Tensor:
                x = self.before(x)
                return (self.fold(x, self.axes) * x).sum()

            made += value_and_grad(loss)(given)
        return [m.numpy() for m in made]


def different(x: Sequence[Array], y: Sequence[Array]) -> list[int]:
    """Return which arrays have other bits; NaN is one whatever its payload."""
    return [n for n, pair in enumerate(zip(x, y, strict=True)) if not _are_same(*pair)]


def _are_same(x: Array, y: Array) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    is_same = (x == y) | ((x != x) & (y != y))
    if x.dtype.kind not in "iub":
        is_same &= (np.signbit(x) == np.signbit(y)) | (x != x)
    return bool(is_same.all())


def dense(values: Array, where: DeviceLike) -> Tensor:
    """Return a tensor in row-major order."""
    return tensor(np.ascontiguousarray(values), device=where)
