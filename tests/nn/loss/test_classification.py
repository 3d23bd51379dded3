"""Losses of classes and distributions against PyTorch's; ignored targets; extremes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, IndexRangeError, ShapeError
from pyrite.tensor.creation import full, tensor

torch = pytest.importorskip("torch")
T = torch.nn

rng = np.random.default_rng(0)
LOGITS = rng.standard_normal((6, 4)) * 2
CLASSES = np.array([0, 3, 1, 1, 2, 3])
WEIGHT = [0.5, 1.0, 2.0, 0.0]
IMAGES = rng.standard_normal((2, 4, 3, 2))
IMAGE_CLASSES = rng.integers(0, 4, (2, 3, 2))

each_reduction = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def log_softmax(x: Any) -> Any:
    return np.log(softmax(x))


PROBABILITIES = softmax(rng.standard_normal((6, 4)))
BITS = rng.integers(0, 2, (6, 4)).astype(np.float64)
UNITS = rng.uniform(0.05, 0.95, (6, 4))
SIGNS = BITS * 2 - 1


def weights() -> Any:
    return torch.tensor(WEIGHT, dtype=torch.float64)


@each_reduction
@pytest.mark.parametrize(
    ("ours", "theirs", "arrays"),
    [
        (nn.CrossEntropyLoss, T.CrossEntropyLoss, (LOGITS, CLASSES)),
        (partial(nn.CrossEntropyLoss, axis=1), T.CrossEntropyLoss, (IMAGES, IMAGE_CLASSES)),
        (nn.CrossEntropyLoss, T.CrossEntropyLoss, (LOGITS, PROBABILITIES)),
        (
            lambda **o: nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.0, **o),
            lambda **o: T.CrossEntropyLoss(weights(), **o),
            (LOGITS, CLASSES),
        ),
        (
            lambda **o: nn.CrossEntropyLoss(ignore_index=1, label_smoothing=0.1, **o),
            lambda **o: T.CrossEntropyLoss(ignore_index=1, label_smoothing=0.1, **o),
            (LOGITS, CLASSES),
        ),
        (nn.NLLLoss, T.NLLLoss, (log_softmax(LOGITS), CLASSES)),
        (
            lambda **o: nn.NLLLoss(WEIGHT, ignore_index=0, axis=1, **o),
            lambda **o: T.NLLLoss(weights(), ignore_index=0, **o),
            (log_softmax(IMAGES), IMAGE_CLASSES),
        ),
        (nn.BCELoss, T.BCELoss, (UNITS, BITS)),
        (
            lambda **o: nn.BinaryCrossEntropyLoss(WEIGHT, **o),
            lambda **o: T.BCELoss(weights(), **o),
            (UNITS, UNITS[::-1].copy()),
        ),
        (nn.BCEWithLogitsLoss, T.BCEWithLogitsLoss, (LOGITS, UNITS)),
        (
            lambda **o: nn.BinaryCrossEntropyLoss(WEIGHT, WEIGHT, logits=True, **o),
            lambda **o: T.BCEWithLogitsLoss(weights(), pos_weight=weights(), **o),
            (LOGITS, BITS),
        ),
        (nn.KLDivLoss, T.KLDivLoss, (log_softmax(LOGITS), PROBABILITIES)),
        (
            lambda **o: nn.KLDivLoss(log_target=True, **o),
            lambda **o: T.KLDivLoss(log_target=True, **o),
            (log_softmax(LOGITS), np.log(PROBABILITIES)),
        ),
        (nn.MultiMarginLoss, T.MultiMarginLoss, (LOGITS, CLASSES)),
        (
            lambda **o: nn.MultiMarginLoss(2, 0.5, WEIGHT, **o),
            lambda **o: T.MultiMarginLoss(2, 0.5, weights(), **o),
            (LOGITS, CLASSES),
        ),
        (
            nn.MultiLabelMarginLoss,
            T.MultiLabelMarginLoss,
            (LOGITS[:3], np.array([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 0, 2, 3]])),
        ),
        (nn.SoftMarginLoss, T.SoftMarginLoss, (LOGITS, SIGNS)),
    ],
)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
def test_it_is_pytorchs(
    agrees: Any, ours: Any, theirs: Any, arrays: tuple[Any, ...], reduction: str
) -> None:
    # PyTorch gives no gradient of some targets: they are checked as constants by `as_constants`.
    agrees(as_constants(ours(reduction=reduction), arrays[1]), only_prediction(
        theirs(reduction=reduction), arrays[1]), arrays[0], rtol=1e-8)  # fmt: skip


def as_constants(loss: nn.Module, target: Any) -> nn.Module:
    return nn.Lambda(lambda prediction: loss(prediction, tensor(target)))


def only_prediction(loss: Any, target: Any) -> Any:
    class OnlyPrediction(T.Module):
        def forward(self, prediction: Any) -> Any:
            return loss.double()(prediction, torch.tensor(target))

    return OnlyPrediction()


def value(loss: nn.Module, *arrays: Any) -> Any:
    return loss(*(tensor(np.asarray(a)) for a in arrays)).numpy()


def test_smoothed_and_weighted_cross_entropy_of_probabilities_is_pytorchs() -> None:
    ours = nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.2)
    theirs = T.CrossEntropyLoss(weights(), label_smoothing=0.2)
    want = theirs(torch.tensor(LOGITS), torch.tensor(PROBABILITIES)).item()
    assert value(ours, LOGITS, PROBABILITIES) == pytest.approx(want, rel=1e-6)


def test_several_indices_may_be_ignored_and_all_kept() -> None:
    both = nn.CrossEntropyLoss(ignore_index=[1, 3], reduction="sum")
    kept = ~np.isin(CLASSES, [1, 3])
    every = nn.CrossEntropyLoss(ignore_index=None, reduction="none")
    losses = value(every, LOGITS, CLASSES)
    assert value(both, LOGITS, CLASSES) == pytest.approx(losses[kept].sum(), rel=1e-9)


def test_classes_may_be_on_the_last_axis() -> None:
    x = rng.standard_normal((2, 5, 4))
    y = rng.integers(0, 4, (2, 5))
    got = value(nn.CrossEntropyLoss(axis=-1), x, y)
    want = value(nn.CrossEntropyLoss(axis=1), x.transpose(0, 2, 1), y)
    assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("function", ["cross_entropy", "cross_entropy_with_logits", "nll_loss"])
def test_layer_and_function_agree_on_the_axis_of_classes(function: str) -> None:
    layer = nn.NLLLoss if function == "nll_loss" else nn.CrossEntropyLoss
    of = getattr(pyrite, function)
    for x, y in ((LOGITS, CLASSES), (LOGITS[0], CLASSES[0])):
        assert of(tensor(x), tensor(y)).item() == layer()(tensor(x), tensor(y)).item()
    # Of more axes neither is right for all: images have classes on 1, texts on -1.
    same = np.zeros((2, 3, 3))
    for ask in (layer(), of):
        with pytest.raises(ArgumentError, match="axis of the classes for 3 axes, got none; write"):
            ask(tensor(same), tensor(np.zeros((2, 3), np.int32)))
    for axis in (1, -1, 2):
        targets = tensor(np.ones((2, 3), np.int32))
        want = of(tensor(same), targets, axis=axis).item()
        assert layer(axis=axis)(tensor(same), targets).item() == want


@pytest.mark.parametrize("log_target", [False, True])
def test_batchmean_is_pytorchs(log_target: bool) -> None:
    target = np.log(PROBABILITIES) if log_target else PROBABILITIES
    x = log_softmax(LOGITS)
    options: Any = {"log_target": log_target, "reduction": "batchmean"}
    want = T.KLDivLoss(**options)(torch.tensor(x), torch.tensor(target)).item()
    assert value(nn.KLDivLoss(**options), x, target) == pytest.approx(want, rel=1e-12)
    assert nn.KLDivLoss(**options).reduction == "batch_mean"


def test_probabilities_as_predictions() -> None:
    p = softmax(LOGITS)
    got = value(nn.CrossEntropyLoss(logits=False, label_smoothing=0.1), p, CLASSES)
    want = value(nn.CrossEntropyLoss(label_smoothing=0.1), LOGITS, CLASSES)
    assert got == pytest.approx(want, rel=1e-9)
    _, g = value_and_grad(lambda p: nn.CrossEntropyLoss(logits=False)(p, tensor([1])))(
        tensor([[1.0, 0.0]])
    )
    assert np.isfinite(g.numpy()).all()


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_the_mean_over_the_batch_counts_samples(loss: Any) -> None:
    total = value(loss(WEIGHT, ignore_index=1, reduction="sum"), LOGITS, CLASSES)
    got = value(loss(WEIGHT, ignore_index=1, reduction="batch_mean"), LOGITS, CLASSES)
    assert got == pytest.approx(total / 6, rel=1e-9)


def test_the_divergence_over_the_batch_is_pytorchs() -> None:
    want = T.KLDivLoss(reduction="batchmean")(
        torch.tensor(log_softmax(LOGITS)), torch.tensor(PROBABILITIES)
    ).item()
    got = value(nn.KLDivLoss(reduction="batch_mean"), log_softmax(LOGITS), PROBABILITIES)
    assert got == pytest.approx(want, rel=1e-9)
    zeros = value(nn.KLDivLoss(reduction="sum"), [[0.0, -1.0]], [[1.0, 0.0]])
    assert zeros == 0


def test_smoothing_of_two_classes() -> None:
    smooth = nn.BinaryCrossEntropyLoss(label_smoothing=0.2, logits=True)
    want = value(nn.BCEWithLogitsLoss(), LOGITS, BITS * 0.8 + 0.1)
    assert value(smooth, LOGITS, BITS) == pytest.approx(want, rel=1e-9)
    integers = value(smooth, LOGITS, BITS.astype(np.int64))
    assert integers == pytest.approx(want, rel=1e-9)


def test_binary_cross_entropy_at_certainty_is_pytorchs_and_has_finite_gradients() -> None:
    p, y = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
    loss = nn.BCELoss(reduction="none")
    want = T.BCELoss(reduction="none")(torch.tensor(p), torch.tensor(y)).numpy()
    np.testing.assert_array_equal(value(loss, p, y), want)
    _, g = value_and_grad(lambda p: loss(p, tensor(y)).sum())(tensor(p))
    assert np.isfinite(g.numpy()).all()
    assert np.isnan(value(loss, [np.nan], [1.0]))


def test_the_focal_loss_is_its_formula() -> None:
    p = 1 / (1 + np.exp(-LOGITS))
    p_true = np.where(BITS == 1, p, 1 - p)
    weight = np.where(BITS == 1, 0.3, 0.7)
    want = -weight * (1 - p_true) ** 1.5 * np.log(p_true)
    got = value(nn.FocalLoss(0.3, 1.5, reduction="none"), LOGITS, BITS)
    np.testing.assert_allclose(got, want, rtol=1e-9)
    plain = value(nn.FocalLoss(None, 0.0), LOGITS, BITS)
    assert plain == pytest.approx(value(nn.BCEWithLogitsLoss(), LOGITS, BITS), rel=1e-9)
    _, g = value_and_grad(lambda x: nn.FocalLoss()(x, tensor([1.0, 0.0])))(tensor([500.0, 500.0]))
    assert np.isfinite(g.numpy()).all()


def test_class_weights_take_the_dtype_of_the_prediction() -> None:
    logits = tensor(LOGITS.astype(np.float16))
    assert nn.CrossEntropyLoss(WEIGHT)(logits, tensor(CLASSES)).dtype.name == "float16"


def test_a_mean_in_half_precision_may_be_over_more_samples_than_it_counts() -> None:
    logits, targets = full((70_000, 2), 0.0, dtype="float16"), full((70_000,), 1)
    loss = nn.CrossEntropyLoss()(logits, targets)
    assert loss.dtype.name == "float16"
    assert loss.item() == pytest.approx(np.log(2), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.CrossEntropyLoss(label_smoothing=1.5), ArgumentError, "<= 1, got 1.5"),
        (lambda: nn.FocalLoss(alpha=2.0), ArgumentError, "0 <= alpha <= 1, got 2.0"),
        (lambda: nn.FocalLoss(gamma=-1.0), ArgumentError, "gamma >= 0, got -1.0"),
        (lambda: nn.MultiMarginLoss(p=3), ArgumentError, "p of 1 or 2, got 3"),
        (
            lambda: nn.CrossEntropyLoss()(full((2, 3), 0.0), tensor([0, 3])),
            IndexRangeError,
            "0 <= index < 3",
        ),
        (
            lambda: nn.CrossEntropyLoss()(full((2, 3), 0.0), tensor([0, 1, 2])),
            ShapeError,
            r"targets of shape \(2,\)",
        ),
        (
            lambda: nn.BCELoss()(full((2, 1), 0.5), full((2,), 1.0)),
            ShapeError,
            "BinaryCrossEntropyLoss requires target of the prediction's shape",
        ),
        (
            lambda: nn.MultiMarginLoss()(full((2, 3), 0.5), tensor([1])),
            ShapeError,
            r"x of shape \(N, C\) and targets \(N,\)",
        ),
        (
            lambda: nn.MultiMarginLoss()(full((1, 3), 0.5), tensor([3])),
            IndexRangeError,
            "3",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    # Some devices tell of an index out of range at the next read.
    with pytest.raises(error, match=message):
        call().numpy()
