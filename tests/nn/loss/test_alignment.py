"""The losses of alignments as modules: their reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.tensor.creation import tensor
from pyrite.tensor.ctc import ctc_loss
from pyrite.tensor.transducer import rnnt_loss

RNG = np.random.default_rng(0)
LABELS = tensor(np.array([[1, 2], [2, 1], [1, 1]]))
INPUTS, WANTED = [4, 3, 1], tensor(np.array([2, 1, 2]))


@pytest.mark.parametrize("reduction", ["mean", "sum", "batch_mean", "batchmean", "none"])
def test_reductions_of_ctc(reduction: Any) -> None:
    x = tensor(RNG.normal(size=(4, 3, 3))).log_softmax(-1)
    got = nn.CTCLoss(2, reduction, zero_infinity=True)(x, LABELS % 2, INPUTS, WANTED).numpy()
    losses = ctc_loss(
        x, LABELS % 2, INPUTS, WANTED, blank=2, reduction="none", zero_infinity=True
    ).numpy()
    want = {
        "mean": (losses / WANTED.numpy()).mean(), "sum": losses.sum(),
        "batch_mean": losses.sum() / 3, "batchmean": losses.sum() / 3, "none": losses,
    }  # fmt: skip
    np.testing.assert_allclose(got, want[reduction])
    assert nn.CTCLoss()(x, LABELS, [4, 4, 4], WANTED).item() > 0


@pytest.mark.parametrize("reduction", ["mean", "sum", "batch_mean", "none"])
def test_reductions_of_rnnt(reduction: Any) -> None:
    x = tensor(RNG.normal(size=(3, 4, 3, 3))).log_softmax(-1)
    got = nn.RNNTLoss(reduction=reduction)(x, LABELS, INPUTS, WANTED).numpy()
    losses = rnnt_loss(x, LABELS, INPUTS, WANTED, reduction="none").numpy()
    want = {"sum": losses.sum(), "none": losses}.get(reduction, losses.mean())
    np.testing.assert_allclose(got, want)
