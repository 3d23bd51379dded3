"""The steps of random graphs: each class of op, applied to what the graph holds."""

from __future__ import annotations

from pyrite.testing.random_steps import (
    draws,
    elementwise,
    folds,
    gradients,
    moves,
    products,
    rows,
    views,
)
from pyrite.testing.random_steps.step import Draw

#: What a graph is drawn of: a class of ops stands as often as it is drawn.
STEPS: list[Draw] = [
    *elementwise.STEPS,
    *folds.STEPS,
    *rows.STEPS,
    *products.STEPS,
    *views.STEPS,
    *moves.STEPS,
    *draws.STEPS,
    *gradients.STEPS,
]
