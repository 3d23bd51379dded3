"""Folds with what may stand before, after and beside them: their bits must not depend on it.

A case is drawn by a seed: what is folded, over which axes, in which layout and dtype, and what else
the program computes.  `FoldInProgram.run` gives all that a reader may ask for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.autodiff import value_and_grad
from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
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
    layout: str
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
        kind = chosen.choice(["float32"] * 5 + ["float64", "float16", "bfloat16"])
        values = np.random.default_rng(seed).standard_normal(shape).astype(dtype(kind).numpy)
        layout = chosen.choice(["dense", *(n for n, of in LAYOUTS.items() if of.applies(shape))])
        before, fold, after = (chosen.choice(list(of)) for of in (BEFORE, FOLDS, AFTER))
        if before == "a turn" and len(shape) > 1 and shape[-1] != shape[-2]:
            before = "a copy the other way"
        has_gradient = chosen.random() < 0.25 and dtype(kind).itemsize > 2
        text = f"{seed}: {kind}{shape} lies {layout}, {before}, {fold} over {axes}, {after}"
        return cls(
            text + (", and its gradient" if has_gradient else ""), values, layout, BEFORE[before],
            FOLDS[fold], AFTER[after], axes, has_gradient,
        )  # fmt: skip

    def run(
        self, where: DeviceLike, between: Callable[[Sequence[Tensor]], None] = lambda _: None
    ) -> list[Array]:
        """Return what the program gives on a device.

        ``between`` is called with all that was made, between its steps.
        """
        given = LAYOUTS[self.layout](LAYOUTS[self.layout].settled(self.values), where)
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
