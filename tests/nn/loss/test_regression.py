"""Losses of numbers against PyTorch's: values and gradients under every reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full, tensor

torch = pytest.importorskip("torch")
T = torch.nn

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((2, 4, 3)) * 2
COUNTS = np.array([[0.0, 1.0, 4.0]] * 4)

each_reduction = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


@each_reduction
@pytest.mark.parametrize(
    ("ours", "theirs", "arrays"),
    [
        (nn.L1Loss, T.L1Loss, (X, Y)),
        (nn.MSELoss, T.MSELoss, (X, Y)),
        (lambda reduction: nn.LpLoss(1, reduction), T.L1Loss, (X, Y)),
        (lambda reduction: nn.LpLoss(2, reduction), T.MSELoss, (X, Y)),
        (nn.HuberLoss, T.HuberLoss, (X, Y)),
        (
            lambda reduction: nn.HuberLoss(0.3, reduction),
            lambda reduction: T.HuberLoss(reduction, 0.3),
            (X, Y),
        ),
        (
            lambda reduction: nn.SmoothL1Loss(0.3, reduction),
            lambda reduction: T.SmoothL1Loss(reduction=reduction, beta=0.3),
            (X, Y),
        ),
        (
            lambda reduction: nn.SmoothL1Loss(0.0, reduction),
            lambda reduction: T.SmoothL1Loss(reduction=reduction, beta=0.0),
            (X, Y),
        ),
        (nn.PoissonNLLLoss, T.PoissonNLLLoss, (X, COUNTS)),
        (nn.GaussianNLLLoss, T.GaussianNLLLoss, (X, Y, Y**2)),
        (
            lambda reduction: nn.GaussianNLLLoss(True, 0.5, reduction),
            lambda reduction: T.GaussianNLLLoss(full=True, eps=0.5, reduction=reduction),
            (X, Y, Y[:, :1] ** 2),
        ),
    ],
)
def test_it_is_pytorchs(
    agrees: Any, ours: Any, theirs: Any, arrays: tuple[Any, ...], reduction: str
) -> None:
    agrees(ours(reduction=reduction), theirs(reduction=reduction), *arrays)


@each_reduction
@pytest.mark.parametrize("log_input", [True, False])
def test_the_full_likelihood_of_counts_is_pytorchs(log_input: bool, reduction: str) -> None:
    x = np.abs(X) + 0.1
    options = {"log_input": log_input, "full": True, "reduction": reduction}
    want = T.PoissonNLLLoss(**options)(torch.tensor(x), torch.tensor(COUNTS)).numpy()
    got = nn.PoissonNLLLoss(**options)(tensor(x), tensor(COUNTS)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_the_mean_over_the_batch() -> None:
    x, y = tensor(X), tensor(Y)
    total = nn.MSELoss("sum")(x, y).item()
    assert nn.MSELoss("batch_mean")(x, y).item() == pytest.approx(total / 4, rel=1e-12)
    with pytest.raises(ShapeError, match="MSELoss requires a batch axis"):
        nn.MSELoss("batch_mean")(tensor(1.0), tensor(2.0))


def test_burns_names() -> None:
    assert nn.MseLoss is nn.MSELoss
    assert nn.PoissonNllLoss is nn.PoissonNLLLoss


def test_a_target_of_another_shape_is_an_error_not_a_broadcast() -> None:
    prediction, target = full((4, 1), 0.0), full((4,), 0.0)
    for loss in (nn.L1Loss(), nn.MSELoss(), nn.LpLoss(3), nn.HuberLoss(), nn.SmoothL1Loss()):
        with pytest.raises(ShapeError, match=r"shape \(4, 1\), got \(4,\); reshape one of them"):
            loss(prediction, target)
    with pytest.raises(ShapeError, match=r"one variance for each value .* got \(2,\)"):
        nn.GaussianNLLLoss()(prediction, prediction, full((2,), 1.0))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: nn.MSELoss("average"), "reduction to be one of mean, sum, .* got 'average'"),
        (lambda: nn.LpLoss(0), "LpLoss requires p > 0, got 0"),
        (lambda: nn.HuberLoss(0.0), "HuberLoss requires delta > 0, got 0.0"),
        (lambda: nn.SmoothL1Loss(-1.0), "SmoothL1Loss requires beta >= 0, got -1.0"),
        (lambda: nn.GaussianNLLLoss(eps=0.0), "GaussianNLLLoss requires eps > 0, got 0.0"),
    ],
)
def test_arguments_are_checked(declare: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        declare()
