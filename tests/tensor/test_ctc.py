"""CTC loss against PyTorch's, against all alignments counted one by one, and by differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, value_and_grad
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.ctc import ctc_loss
from pyrite.testing import central_difference
from pyrite.types import float16

STEPS, BATCH, CLASSES, LABELS = 7, 5, 5, 3
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(STEPS, BATCH, CLASSES))
INPUTS = np.array([7, 5, 2, 6, 3])
#: The third has more labels than steps, the fourth none, the fifth just fits.
WANTED = np.array([3, 2, 3, 0, 2])


def targets(blank: int) -> Any:
    """Labels with repeats, and what is no class where no target is."""
    labels = [c for c in range(CLASSES) if c != blank]
    found = RNG.choice(labels, (BATCH, LABELS))
    found[0], found[4] = labels[1], [labels[0], labels[1], labels[0]]
    return found


def enumerated(log_probs: Any, target: Any, blank: int) -> float:
    """-log of the sum over all that says the target."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        said = [c for c, _ in itertools.groupby(path) if c != blank]
        if said == list(target):
            total += np.exp(sum(row[c] for row, c in zip(log_probs, path, strict=True)))
    return -float(np.log(total)) if total else np.inf


@pytest.mark.sample(1, varies=True)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("blank", [0, 2, -1])
def test_values_and_gradients_are_pytorchs(device: str, blank: int) -> None:
    torch = pytest.importorskip("torch")
    labels = targets(blank % CLASSES)
    flat = np.concatenate([row[:n] for row, n in zip(labels, WANTED, strict=True)])
    behind = np.arange(LABELS) >= WANTED[:, None]
    padded = np.where(behind, 1000, labels)
    for reduction, zero_infinity, given in itertools.product(
        ("none", "sum", "mean"), (False, True), (padded, flat)
    ):
        x = torch.tensor(LOGITS, requires_grad=True)
        options: Any = {"reduction": reduction, "zero_infinity": zero_infinity}
        theirs = torch.tensor(labels if given is padded else flat)
        want = torch.nn.functional.ctc_loss(
            x.log_softmax(-1), theirs, torch.tensor(INPUTS), torch.tensor(WANTED),
            blank=blank % CLASSES, **options,
        )  # fmt: skip
        (want * torch.arange(1.0, want.numel() + 1).reshape(want.shape)).sum().backward()

        def loss(x: Any, y: Any = given, o: Any = options) -> Any:
            got = ctc_loss(
                x.mT.log_softmax(1).mT, tensor(y, device=device), tensor(INPUTS, device=device),
                WANTED.tolist(), blank=blank, **o,
            )  # fmt: skip
            weights = np.arange(1.0, got.size + 1).reshape(got.shape)
            return (got * tensor(weights, device=device)).sum(), got

        (_, got), g = value_and_grad(loss, has_aux=True)(tensor(LOGITS, device=device))
        np.testing.assert_allclose(got.numpy(), want.detach().numpy(), atol=1e-10)
        can_be_said = np.array([True, True, zero_infinity, True, True])
        np.testing.assert_allclose(
            g.numpy()[:, can_be_said], x.grad.numpy()[:, can_be_said], atol=1e-10
        )
        assert np.isnan(g.numpy()[:, 2]).any() != zero_infinity


def test_it_is_the_sum_over_all_alignments() -> None:
    for target, steps in (((1, 1), 4), ((2, 1), 3), ((), 3), ((1,), 1), ((1, 1), 2)):
        x = RNG.normal(size=(steps, 3))
        got = ctc_loss(tensor(x), tensor(np.array(target, np.int32)), [steps], [len(target)],
                       reduction="sum")  # fmt: skip
        np.testing.assert_allclose(got.item(), enumerated(x, target, 0), atol=1e-12)


def test_derivatives_of_what_is_no_log_softmax_are_those_of_differences() -> None:
    """PyTorch's gradient is that of the logits only; ours is of what is given, twice."""
    labels, inputs, wanted = np.array([[1, 1], [2, 1]]), [3, 4], [2, 1]
    x = RNG.normal(size=(4, 2, 3))

    def value(x: Any) -> Any:
        return (ctc_loss(x, tensor(labels), inputs, wanted, reduction="none") ** 2).sum()

    want = central_difference(lambda a: float(value(tensor(a)).item()), [x], 0)
    np.testing.assert_allclose(grad(value)(tensor(x)).numpy(), want, atol=1e-7)
    slope = lambda x: (grad(value)(x) ** 2).sum()  # noqa: E731
    want = central_difference(lambda a: float(slope(tensor(a)).item()), [x], 0)
    np.testing.assert_allclose(grad(slope)(tensor(x)).numpy(), want, rtol=1e-5, atol=1e-5)


def test_what_has_no_probability_and_what_has_no_length() -> None:
    sure = np.full((3, 1, 3), -np.inf)
    sure[[0, 1, 2], 0, [1, 0, 2]] = 0.0
    assert ctc_loss(tensor(sure), tensor([[1, 2]]), [3], [2]).item() == 0.0
    assert ctc_loss(tensor(sure), tensor([[2, 1]]), [3], [2]).item() == np.inf
    assert ctc_loss(tensor(sure), tensor([[2, 1]]), [3], [2], zero_infinity=True).item() == 0.0
    none = ctc_loss(tensor(sure), tensor([[2, 1]]), [0], [0], reduction="none")
    assert none.tolist() == [0.0]
    assert ctc_loss(tensor(sure), tensor([[2, 1]]), [0], [1], reduction="sum").item() == np.inf
    bare = np.zeros((2, 0), np.int64)
    assert ctc_loss(tensor(LOGITS[:, :2]), tensor(bare), [7, 7], [0, 0]).shape == ()
    nan = LOGITS.copy()
    nan[1, 0] = np.nan
    got = ctc_loss(tensor(nan), tensor(targets(0)), INPUTS, WANTED, reduction="none").numpy()
    assert np.isnan(got).tolist() == [True] + [False] * 4


def test_a_long_sequence_of_a_narrow_dtype_is_summed_wide() -> None:
    x = tensor(np.zeros((60, 2, 4), np.float32)).log_softmax(-1)
    labels = tensor(np.array([[1, 2, 3] * 4] * 2))
    wide = ctc_loss(x, labels, [60, 50], [12, 8], reduction="none").numpy()
    got = ctc_loss(x.astype(float16), labels, [60, 50], [12, 8], reduction="none")
    assert got.dtype is float16
    np.testing.assert_allclose(got.numpy(), wide, rtol=2e-3)
    g = grad(lambda x: ctc_loss(x, labels, [60, 50], [12, 8], reduction="sum"))(x).numpy()
    # Each step says something, with probability 1, and what is behind the end says nothing.
    np.testing.assert_allclose(g[:, 0].sum(-1), -1, rtol=1e-3)
    np.testing.assert_array_equal(g[50:, 1], np.zeros((10, 4)))


def test_errors() -> None:
    x, labels = tensor(LOGITS), tensor(targets(0))
    with pytest.raises(IndexRangeError):
        ctc_loss(x, labels * 0 + 7, INPUTS, WANTED).numpy()
    with pytest.raises(ArgumentError, match="-5 <= blank < 5, got 5"):
        ctc_loss(x, labels, INPUTS, WANTED, blank=5)
    with pytest.raises(ArgumentError, match=r"the target lengths add up to, 10, got \(4,\)"):
        ctc_loss(x, labels.flatten()[:4], INPUTS, WANTED)
    with pytest.raises(ShapeError, match=r"targets of shape \(5, S\), got \(4, 3\)"):
        ctc_loss(x, labels[:4], INPUTS, WANTED)
    with pytest.raises(ShapeError, match=r"input_lengths of shape \(5,\), got \(4,\)"):
        ctc_loss(x, labels, INPUTS[:4], WANTED)
    with pytest.raises(DTypeError, match="input_lengths of an integer dtype, got float64"):
        ctc_loss(x, labels, tensor(INPUTS * 1.0), WANTED)
