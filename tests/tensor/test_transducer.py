"""RNN-T loss against all alignments counted one by one, and derivatives by differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, IndexRangeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.transducer import rnnt_loss
from pyrite.testing import central_difference
from pyrite.types import bfloat16

BATCH, STEPS, LABELS, CLASSES = 4, 4, 3, 5
RNG = np.random.default_rng(0)
LOG_PROBS = RNG.normal(size=(BATCH, STEPS, LABELS + 1, CLASSES))
#: Full, shorter in both, without labels, and of one step.
INPUTS, WANTED = np.array([4, 2, 3, 1]), np.array([3, 2, 0, 3])


def enumerated(log_probs: Any, target: Any, steps: int, blank: int) -> float:
    """-log of the sum over all orders of labels and blanks, the last of which is a blank."""
    total, count = 0.0, len(target)
    for said in itertools.combinations(range(steps - 1 + count), count):
        t = u = 0
        way = 0.0
        for place in range(steps - 1 + count):
            if place in said:
                way += log_probs[t, u, target[u]]
                u += 1
            else:
                way += log_probs[t, u, blank]
                t += 1
        total += np.exp(way + log_probs[t, u, blank])
    return -float(np.log(total))


def by_sample(log_probs: Any, labels: Any, blank: int) -> Any:
    return np.array([
        enumerated(log_probs[n], labels[n, : WANTED[n]], INPUTS[n], blank) for n in range(BATCH)
    ])  # fmt: skip


@pytest.mark.sample(1, varies=True)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("blank", [0, 3, -1])
def test_values_and_gradients_are_those_of_all_alignments(device: str, blank: int) -> None:
    labels = RNG.choice([c for c in range(CLASSES) if c != blank % CLASSES], (BATCH, LABELS))
    padded = np.where(np.arange(LABELS) >= WANTED[:, None], 1000, labels)
    weights = np.array([1.0, -2.0, 3.0, 0.5])

    def losses(x: Any, reduction: Any = "none") -> Any:
        return rnnt_loss(
            x.permute_dims((3, 2, 1, 0)), tensor(padded, device=device),
            tensor(INPUTS, device=device), WANTED, blank=blank, reduction=reduction,
        )  # fmt: skip

    x = tensor(LOG_PROBS.T, device=device)
    want = by_sample(LOG_PROBS, labels, blank % CLASSES)
    np.testing.assert_allclose(losses(x).numpy(), want, atol=1e-12)
    np.testing.assert_allclose(losses(x, "mean").item(), want.mean(), atol=1e-12)
    np.testing.assert_allclose(losses(x, "sum").item(), want.sum(), atol=1e-12)
    got = grad(lambda x: (losses(x) * tensor(weights, device=device)).sum())(x).numpy().T
    difference = central_difference(
        lambda a: float((by_sample(a, labels, blank % CLASSES) * weights).sum()), [LOG_PROBS], 0
    )
    np.testing.assert_allclose(got, difference, atol=1e-8)


def test_the_second_derivative_is_that_of_differences() -> None:
    x, labels = LOG_PROBS[:2, :3, :3, :3], tensor(np.array([[1, 2], [2, 2]]))

    def slope(x: Any) -> Any:
        value = lambda x: (rnnt_loss(x, labels, [3, 2], [2, 1], reduction="none") ** 2).sum()  # noqa: E731
        return (grad(value)(x) ** 2).sum()

    want = central_difference(lambda a: float(slope(tensor(a)).item()), [x], 0)
    np.testing.assert_allclose(grad(slope)(tensor(x)).numpy(), want, rtol=1e-5, atol=1e-5)


def test_what_has_no_probability_and_a_narrow_dtype() -> None:
    never = np.zeros((1, 2, 2, 2))
    never[..., 1] = -np.inf
    loss = rnnt_loss(tensor(never), tensor([[1]]), [2], [1])
    assert loss.item() == np.inf
    labels = RNG.integers(1, CLASSES, (BATCH, LABELS))
    narrow = tensor(LOG_PROBS).astype(bfloat16)
    got = rnnt_loss(narrow, tensor(labels), INPUTS, WANTED, reduction="none")
    want = rnnt_loss(narrow.astype("float64"), tensor(labels), INPUTS, WANTED, reduction="none")
    assert got.dtype is bfloat16
    np.testing.assert_allclose(got.astype("float64").numpy(), want.numpy(), rtol=0.01)


def test_errors() -> None:
    x, labels = tensor(LOG_PROBS), tensor(np.ones((BATCH, LABELS), np.int32))
    with pytest.raises(IndexRangeError):
        rnnt_loss(x, labels * 9, INPUTS, WANTED).numpy()
    with pytest.raises(ArgumentError, match="-5 <= blank < 5, got -6"):
        rnnt_loss(x, labels, INPUTS, WANTED, blank=-6)
    with pytest.raises(ShapeError, match=r"log_probs.shape\[2\] == targets.shape\[1\] \+ 1, got"):
        rnnt_loss(x, labels[:, :2], INPUTS, WANTED)
    with pytest.raises(ShapeError, match=r"of shape \(N, T, U \+ 1, C\) with T >= 1, got"):
        rnnt_loss(x[:, 0], labels, INPUTS, WANTED)
