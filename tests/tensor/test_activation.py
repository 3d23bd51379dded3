from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import FLOATS, DType, float32

# ours, PyTorch's name of it, and the arguments of both
AS_TORCH: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("relu", "relu", {}, {}),
    ("relu6", "relu6", {}, {}),
    ("leaky_relu", "leaky_relu", {}, {}),
    ("leaky_relu", "leaky_relu", {"negative_slope": 0.3}, {"negative_slope": 0.3}),
    ("elu", "elu", {"alpha": 0.7}, {"alpha": 0.7}),
    ("celu", "celu", {"alpha": 0.5}, {"alpha": 0.5}),
    ("selu", "selu", {}, {}),
    ("gelu", "gelu", {}, {}),
    ("gelu", "gelu", {"approximate": "tanh"}, {"approximate": "tanh"}),
    ("silu", "silu", {}, {}),
    ("mish", "mish", {}, {}),
    ("hard_swish", "hardswish", {}, {}),
    ("hard_sigmoid", "hardsigmoid", {}, {}),
    ("sigmoid", "sigmoid", {}, {}),
    ("log_sigmoid", "logsigmoid", {}, {}),
    ("tanh", "tanh", {}, {}),
    ("hardtanh", "hardtanh", {"min_value": -1, "max_value": 2}, {"min_val": -1, "max_val": 2}),
    ("tanhshrink", "tanhshrink", {}, {}),
    ("softplus", "softplus", {"beta": 2.0}, {"beta": 2.0, "threshold": 1000}),
    ("softsign", "softsign", {}, {}),
    ("softmax", "softmax", {}, {"dim": -1}),
    ("softmax", "softmax", {"axis": 0}, {"dim": 0}),
    ("softmin", "softmin", {}, {"dim": -1}),
    ("log_softmax", "log_softmax", {"axis": 1}, {"dim": 1}),
    ("glu", "glu", {}, {"dim": -1}),
    ("glu", "glu", {"axis": 0}, {"dim": 0}),
    ("threshold", "threshold", {"threshold": 0.5, "value": 7.0}, {"threshold": 0.5, "value": 7.0}),
    ("hard_shrink", "hardshrink", {"lambd": 0.6}, {"lambd": 0.6}),
    ("soft_shrink", "softshrink", {"lambd": 0.6}, {"lambd": 0.6}),
]  # fmt: skip
SMOOTH = (
    "celu", "elu", "gelu", "silu", "mish", "sigmoid", "log_sigmoid", "softplus", "softsign",
    "tanhshrink", "softmax", "log_softmax", "quiet_softmax", "selu", "hard_swish", "hard_sigmoid",
)  # fmt: skip


@pytest.mark.parametrize(("name", "torch_name", "options", "torch_options"), AS_TORCH)
def test_values_and_gradients_are_those_of_torch(
    name: str, torch_name: str, options: dict[str, Any], torch_options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x = rng.normal(scale=3.0, size=(4, 6))
    weights = rng.normal(size=(4, 6))
    theirs = torch.tensor(x, requires_grad=True)
    out = getattr(torch.nn.functional, torch_name)(theirs, **torch_options)
    weights = weights[: out.shape[0], : out.shape[1]]
    (out * torch.tensor(weights)).sum().backward()
    ours = getattr(tensor(x), name)(**options)
    np.testing.assert_allclose(ours.numpy(), out.detach().numpy(), rtol=1e-13, atol=1e-14)
    found = grad(lambda t: (getattr(t, name)(**options) * tensor(weights)).sum())(tensor(x))
    # The sixth in PyTorch's hardsigmoid gradient is one of float32.
    rtol = 1e-7 if name == "hard_sigmoid" else 1e-12
    np.testing.assert_allclose(found.numpy(), theirs.grad.numpy(), rtol=rtol, atol=1e-14)


def test_swiglu_is_silu_of_one_half_times_the_other() -> None:
    x = np.random.default_rng(0).normal(size=(3, 8))
    expected = x[:, :4] / (1 + np.exp(-x[:, :4])) * x[:, 4:]
    np.testing.assert_allclose(tensor(x).swiglu().numpy(), expected, rtol=1e-14)
    assert tensor(x).glu().shape == (3, 4)
    with pytest.raises(ShapeError, match=r"^glu requires x.shape\[0\] to be even, got \(3, 8\)"):
        tensor(x).glu(axis=0)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_finite_input_gives_nan_in_value_gradient_or_second_derivative(
    name: str, dtype: type
) -> None:
    x = tensor(np.array([-1e30, -1e20, -1e4, -90, -1e-30, 0, 1e-30, 90, 1e4, 1e20, 1e30], dtype))
    fn = getattr(Tensor, name)
    first = grad(lambda t: fn(t).sum())
    second = grad(lambda t: first(t).sum())
    for found in (fn(x), first(x), second(x)):
        assert not np.isnan(found.numpy()).any()


def test_gelu_by_tanh_is_finite_everywhere_too() -> None:
    x = tensor(np.array([-3e38, -1e20, -10, 0, 10, 1e20, 3e38], np.float32))
    first = grad(lambda t: t.gelu("tanh").sum())
    assert first(x).numpy().tolist() == pytest.approx([0, 0, 0, 0.5, 1, 1, 1])
    assert np.isfinite(grad(lambda t: first(t).sum())(x).numpy()).all()


def test_small_results_keep_their_digits() -> None:
    x = np.array([-30.0, -100.0, -700.0])
    np.testing.assert_allclose(tensor(x).sigmoid().numpy(), np.exp(x), rtol=1e-12)
    np.testing.assert_allclose(tensor(x).softplus().numpy(), np.exp(x), rtol=1e-12)
    np.testing.assert_allclose(tensor(x).log_sigmoid().numpy(), x, rtol=1e-12)
    np.testing.assert_allclose(tensor(-x).log_sigmoid().numpy(), -np.exp(x), rtol=1e-12)
    np.testing.assert_allclose(tensor(-x).softplus().numpy(), -x, rtol=1e-12)


def test_nan_stays_nan() -> None:
    x = tensor([math.nan, 1.0])
    for name in ("relu", "relu6", "leaky_relu", "elu", "celu", "hardtanh", "soft_shrink", *SMOOTH):
        assert math.isnan(getattr(x, name)().numpy()[0]), name
    assert math.isnan(x.threshold(0.0, 1.0).numpy()[0])


def test_relu_keeps_integers_and_the_others_make_them_floats() -> None:
    x = tensor([-1, 2])
    assert x.relu().numpy().tolist() == [0, 2]
    assert x.relu().dtype is x.dtype
    assert x.sigmoid().dtype is x.softmax().dtype is x.mish().dtype is float32


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.compute is not d], ids=str)
@pytest.mark.parametrize("name", ["gelu", "silu", "sigmoid", "softplus", "softmax", "log_softmax"])
def test_narrow_floats_are_rounded_once(name: str, dtype: DType) -> None:
    x = tensor(np.random.default_rng(0).normal(size=(3, 5)) * 4).astype(dtype)
    wide = getattr(x.astype(float32), name)().astype(dtype)
    np.testing.assert_array_equal(getattr(x, name)().numpy(), wide.numpy())
    assert grad(lambda t: getattr(t, name)().square().sum())(x).dtype is dtype


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_third_derivatives_of_gelu_agree_with_differences(approximate: str) -> None:
    second = grad(grad(lambda t: t.gelu(approximate)))
    third = grad(second)
    x, step = 0.7, 1e-5
    ahead, behind = (second(tensor(np.array(x + s))).item() for s in (step, -step))
    assert third(tensor(np.array(x))).item() == pytest.approx((ahead - behind) / (2 * step))


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(
        ArgumentError, match=r"^gelu requires approximate in \('none', 'tanh'\), got"
    ):
        tensor([1.0]).gelu("fast")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^softplus requires beta > 0, got beta=0"):
        tensor([1.0]).softplus(beta=0)
