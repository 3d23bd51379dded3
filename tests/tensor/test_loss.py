"""Losses against torch, and where they differ from it on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, value_and_grad
from pyrite.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, ShapeError
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.tensor import Tensor
from pyrite.types import bfloat16, float16, float32, int32

torch = pytest.importorskip("torch")
F = torch.nn.functional

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape)


def classes(shape: tuple[int, ...], count: int) -> Any:
    return rng.integers(0, count, shape)


def distribution(*shape: int, axis: int) -> Any:
    found = rng.uniform(0.1, 1, shape)
    return found / found.sum(axis, keepdims=True)


def assert_same(ours: Any, theirs: Any, *arrays: Any) -> None:
    """Compare values, and the gradients of their sums, of two functions."""
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    want = theirs(*inputs)
    want.sum().backward()
    inside = [tensor(a) for a in arrays]
    value, found = value_and_grad(lambda *i: ours(*i).sum(), range(len(arrays)))(*inside)
    np.testing.assert_allclose(ours(*inside).numpy(), want.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(value.item(), want.sum().item(), rtol=1e-10)
    for got, expected in zip(found, inputs, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.grad.numpy(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1])
def test_cross_entropy_of_class_indices_is_torchs(
    reduction: Any, smoothing: float, weighted: bool, ignored: int | None
) -> None:
    x, y = normal(3, 5, 4), classes((3, 4), 5)
    w = rng.uniform(0.5, 2, 5) if weighted else None
    options = {"reduction": reduction, "label_smoothing": smoothing}
    assert_same(
        lambda x: x.cross_entropy_with_logits(
            tensor(y), w if w is None else tensor(w), axis=1, ignore_index=ignored, **options
        ),
        lambda x: F.cross_entropy(
            x, torch.tensor(y), None if w is None else torch.tensor(w),
            ignore_index=-100 if ignored is None else ignored, **options,
        ),
        x,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_probabilities_and_both_gradients_are_torchs(
    reduction: Any, weighted: bool
) -> None:
    x, y = normal(3, 5, 4), distribution(3, 5, 4, axis=1)
    w = rng.uniform(0.5, 2, 5) if weighted else None
    options = {"reduction": reduction, "label_smoothing": 0.1}
    assert_same(
        lambda x, y: x.cross_entropy_with_logits(
            y, w if w is None else tensor(w), axis=1, **options
        ),
        lambda x, y: F.cross_entropy(x, y, None if w is None else torch.tensor(w), **options),
        x,
        y,
    )


def test_the_mean_over_probabilities_is_over_samples() -> None:
    x, y = normal(6, 5), distribution(6, 5, axis=1)
    assert_same(lambda x, y: x.cross_entropy(y), F.cross_entropy, x, y)


def test_the_gradient_of_the_class_weights_is_that_of_differences() -> None:
    x, y, w = normal(4, 3), tensor(classes((4,), 3)), rng.uniform(0.5, 2, 3)

    def loss(w: Tensor) -> Any:
        return tensor(x).cross_entropy(y, w, label_smoothing=0.2)

    got = grad(loss)(tensor(w)).numpy()
    steps = 1e-6 * np.eye(3)
    want = [(loss(tensor(w + s)).item() - loss(tensor(w - s)).item()) / 2e-6 for s in steps]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_several_indices_can_be_ignored() -> None:
    x, y = tensor(normal(6, 4)), np.array([0, 1, 2, 3, -7, 2])
    got = x.cross_entropy(tensor(y), ignore_index=(3, -7))
    kept = [0, 1, 2, 5]
    want = tensor(x.numpy()[kept]).cross_entropy(tensor(y[kept]))
    np.testing.assert_allclose(got.item(), want.item(), rtol=1e-12)


def test_ignored_samples_get_no_gradient() -> None:
    y = tensor([0, -1, 2])
    g = grad(lambda x: x.cross_entropy(y, ignore_index=-1))(tensor(normal(3, 4))).numpy()
    np.testing.assert_array_equal(g[1], np.zeros(4))
    assert (g[[0, 2]] != 0).all()


def test_the_mean_of_ignored_samples_alone_is_nan_as_in_torch() -> None:
    x, y = normal(2, 3), np.array([1, 1])
    assert np.isnan(tensor(x).cross_entropy(tensor(y), ignore_index=1).item())
    assert torch.isnan(F.cross_entropy(torch.tensor(x), torch.tensor(y), ignore_index=1))


def test_hessian_vector_products_of_cross_entropy_are_those_of_differences() -> None:
    x, v, w = normal(3, 4), normal(3, 4), tensor(rng.uniform(0.5, 2, 4))
    y = tensor(classes((3,), 4))

    def loss(x: Tensor) -> Any:
        return (x.cross_entropy(y, w, label_smoothing=0.1, reduction="none") ** 2).sum()

    got = grad(lambda x: (grad(loss)(x) * tensor(v)).sum())(tensor(x)).numpy()
    step = 1e-5
    ahead, behind = (grad(loss)(tensor(x + s * v)).numpy() for s in (step, -step))
    np.testing.assert_allclose(got, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


def test_logits_far_beyond_the_range_of_exp_are_exact() -> None:
    x = tensor(np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32))
    y = tensor([0, 0])
    losses = x.cross_entropy(y, reduction="none")
    np.testing.assert_array_equal(losses.numpy(), [0.0, 2e4])
    g = grad(lambda x: x.cross_entropy(y, reduction="sum"))(x)
    np.testing.assert_array_equal(g.numpy(), [[0.0, 0.0], [-1.0, 1.0]])


def test_a_class_that_is_shut_out_costs_nothing_where_its_target_is_0() -> None:
    x = tensor(np.array([[0.0, 0.0, -np.inf]]))
    want = np.log(2)
    for target in (tensor([1]), tensor(np.array([[0.5, 0.5, 0.0]]))):
        value, g = value_and_grad(lambda x, y=target: x.cross_entropy(y))(x)
        np.testing.assert_allclose(value.item(), want)
        assert np.isfinite(g.numpy()).all()
    assert tensor(np.array([[0.0, -np.inf]])).cross_entropy(tensor([1])).item() == np.inf


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_narrow_dtypes_are_computed_in_float32(dtype: Any) -> None:
    x, y = tensor(normal(8, 50).astype(dtype.numpy)), tensor(classes((8,), 50))
    got = x.cross_entropy(y, reduction="none")
    want = x.astype(float32).cross_entropy(y, reduction="none").astype(dtype)
    assert got.dtype is dtype
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("ignored", [None, 2])
def test_nll_loss_is_torchs(ignored: int | None) -> None:
    x, y, w = normal(4, 3), classes((4,), 3), rng.uniform(0.5, 2, 3)
    assert_same(
        lambda x: x.nll_loss(tensor(y), tensor(w), ignore_index=ignored),
        lambda x: F.nll_loss(
            x,
            torch.tensor(y),
            torch.tensor(w),
            ignore_index=-100 if ignored is None else ignored,
        ),
        x,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("positive", [False, True])
def test_binary_cross_entropy_is_torchs(reduction: Any, positive: bool) -> None:
    x, y, w = normal(4, 3), rng.uniform(0, 1, (4, 3)), rng.uniform(0.5, 2, 3)
    p = rng.uniform(0.5, 2, 3) if positive else None
    assert_same(
        lambda x, y: x.binary_cross_entropy_with_logits(
            y, tensor(w), pos_weight=p if p is None else tensor(p), reduction=reduction
        ),
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, torch.tensor(w), pos_weight=None if p is None else torch.tensor(p),
            reduction=reduction,
        ),
        x, y,
    )  # fmt: skip


def test_confident_binary_predictions_keep_their_digits() -> None:
    x = tensor(np.array([-50.0, 50.0, -1000.0], np.float32))
    y = tensor(np.array([0.0, 1.0, 1.0], np.float32))
    losses = x.binary_cross_entropy_with_logits(y, reduction="none").numpy()
    np.testing.assert_allclose(losses, [np.exp(-50), np.exp(-50), 1000], rtol=1e-6)
    g = grad(lambda x: x.binary_cross_entropy_with_logits(y, reduction="sum"))(x).numpy()
    np.testing.assert_allclose(g, [np.exp(-50), -np.exp(-50), -1], rtol=1e-6)


def test_targets_that_do_not_fit_are_errors() -> None:
    x = tensor(normal(4, 3))
    with pytest.raises(ShapeError) as error:
        x.cross_entropy_with_logits(tensor([0, 1]))
    assert str(error.value) == (
        "cross_entropy requires targets of shape (4,), indices for logits of shape (4, 3) with "
        "classes on axis 1, got (2,)"
    )
    with pytest.raises(ShapeError, match=r"targets of shape \(4, 3\), probabilities for"):
        x.cross_entropy_with_logits(tensor(normal(3)))
    with pytest.raises(
        ShapeError, match=r"weight\.shape == \(3,\), one for each class, got \(4,\)"
    ):
        x.cross_entropy_with_logits(tensor([0, 1, 2, 0]), tensor(normal(4)))
    with pytest.raises(DTypeError, match=r"requires targets of an integer dtype, .* got bool"):
        x.cross_entropy_with_logits(tensor([True, False, True, False]))
    with pytest.raises(ShapeError, match=r"requires targets of shape \(4, 3\), got \(4,\)"):
        x.binary_cross_entropy_with_logits(tensor(normal(4)))
    with pytest.raises(AxisError, match="cross_entropy requires -2 <= axis < 2, got axis=2"):
        x.cross_entropy_with_logits(tensor([0, 1, 2, 0]), axis=2)


@pytest.mark.parametrize("index", [3, -1])
def test_an_index_that_is_no_class_is_an_error(index: int) -> None:
    with pytest.raises(IndexRangeError) as error:
        tensor(normal(2, 3)).cross_entropy_with_logits(tensor([0, index]))
    assert str(error.value) == (
        f"cross_entropy requires targets 0 <= index < 3, the number of classes, got {index}; mark "
        "samples without a target by ignore_index"
    )


def test_arguments_out_of_range_are_errors() -> None:
    x, y = tensor(normal(2, 3)), tensor([0, 1])
    with pytest.raises(ArgumentError, match=r"requires 0 <= label_smoothing <= 1, got 1\.5"):
        x.cross_entropy_with_logits(y, label_smoothing=1.5)
    with pytest.raises(ArgumentError, match="reduction 'mean', 'sum' or 'none', got 'max'"):
        x.cross_entropy_with_logits(y, reduction="max")  # type: ignore[arg-type]


def test_a_cotangent_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"requires g of shape \(4,\), got \(1,\)"):
        zeros((1,))._cross_entropy_backward(
            zeros((4, 3)), zeros((4,), dtype=int32), None, axis=-1, label_smoothing=0.0,
            ignore_index=(), argnums=(0,),
        )  # fmt: skip
