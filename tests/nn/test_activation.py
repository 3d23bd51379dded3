"""Activation modules against PyTorch's, and the choice by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError
from pyrite.nn.activation import ACTIVATIONS
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.stream import random_stream

torch = pytest.importorskip("torch")
T = torch.nn

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nn.Identity(), T.Identity()),
        (nn.ReLU(), T.ReLU()),
        (nn.ReLU6(), T.ReLU6()),
        (nn.LeakyReLU(0.2), T.LeakyReLU(0.2)),
        (nn.PReLU(), T.PReLU()),
        (nn.PReLU(3, 0.1), T.PReLU(3, 0.1)),
        (nn.Hardtanh(-0.5, 2.0), T.Hardtanh(-0.5, 2.0)),
        (nn.Hardsigmoid(), T.Hardsigmoid()),
        (nn.Hardswish(), T.Hardswish()),
        (nn.Threshold(0.1, 20.0), T.Threshold(0.1, 20.0)),
        (nn.ThresholdedReLU(1.5), T.Threshold(1.5, 0.0)),
        (nn.Hardshrink(0.7), T.Hardshrink(0.7)),
        (nn.Softshrink(0.7), T.Softshrink(0.7)),
        (nn.Shrink(0.7, 0.7), T.Softshrink(0.7)),
        (nn.ELU(0.5), T.ELU(0.5)),
        (nn.CELU(0.5), T.CELU(0.5)),
        (nn.SELU(), T.SELU()),
        (nn.Sigmoid(), T.Sigmoid()),
        (nn.LogSigmoid(), T.LogSigmoid()),
        (nn.Tanh(), T.Tanh()),
        (nn.Tanhshrink(), T.Tanhshrink()),
        (nn.Softplus(2.0), T.Softplus(2.0, threshold=1000)),
        (nn.Softsign(), T.Softsign()),
        (nn.GELU(), T.GELU()),
        (nn.GELU("tanh"), T.GELU("tanh")),
        (nn.SiLU(), T.SiLU()),
        (nn.Mish(), T.Mish()),
        (nn.Softmax(1), T.Softmax(1)),
        (nn.LogSoftmax(), T.LogSoftmax(-1)),
        (nn.GLU(), T.GLU()),
        (nn.RReLU(0.1, 0.3), T.RReLU(0.1, 0.3)),
    ],
    ids=lambda m: repr(m),
)
def test_it_is_pytorchs(agrees: Any, ours: Any, theirs: Any) -> None:
    agrees(ours, theirs, rng.standard_normal((2, 3, 4)) * 3, training=False, rtol=1e-7)


def test_swiglu_gates_one_map_by_the_silu_of_another() -> None:
    layer = nn.SwiGLU(3, 4, bias=True, dtype="float64")
    assert [name for name, _ in layer.named_parameters()] == [
        "linear_inner.weight", "linear_inner.bias", "linear_outer.weight", "linear_outer.bias",
    ]  # fmt: skip
    x = rng.standard_normal((5, 3))
    inner, inner_bias, outer, outer_bias = (p.numpy() for p in layer.parameters())
    gate = x @ inner.T + inner_bias
    want = gate / (1 + np.exp(-gate)) * (x @ outer.T + outer_bias)
    np.testing.assert_allclose(layer(tensor(x)).numpy(), want, rtol=1e-12)
    assert [name for name, _ in nn.SwiGLU(3, 4).named_parameters()] == [
        "linear_inner.weight", "linear_outer.weight",
    ]  # fmt: skip


def test_rrelu_draws_a_slope_for_each_element_in_training() -> None:
    layer = nn.RReLU(0.1, 0.3)
    with random_stream(4):
        slopes = -layer.with_training(True)(full((10_000,), -1.0)).numpy()
        positive = layer.with_training(True)(full((3,), 5.0)).numpy()
    assert slopes.min() >= 0.1
    assert slopes.max() < 0.3
    assert slopes.mean() == pytest.approx(0.2, abs=0.002)
    np.testing.assert_array_equal(positive, [5, 5, 5])


def test_the_gradient_of_rrelu_is_its_slope() -> None:
    x = full((8,), -2.0)
    with random_stream(1):
        value, of_x = value_and_grad(lambda x: nn.RReLU()(x).sum())(x)
    assert value.item() == pytest.approx(-2 * of_x.numpy().sum(), rel=1e-6)
    assert len(set(of_x.numpy().tolist())) == 8


def test_activations_by_name() -> None:
    x = tensor(rng.standard_normal((2, 4)).astype(np.float32))
    needs = {"threshold": {"threshold": 0.0, "value": 1.0},
             "swiglu": {"in_features": 4, "out_features": 2}}  # fmt: skip
    for name, layer in ACTIVATIONS.items():
        made = nn.Activation(name, **needs.get(name, {}))
        assert type(made.function) is layer
        assert made(x).shape[0] == 2
    assert [name for name, _ in nn.Activation("prelu").named_parameters()] == ["function.weight"]
    with pytest.raises(ArgumentError, match=r"one of celu, elu, .* got 'maxout'"):
        nn.Activation("maxout")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: nn.Hardtanh(1.0, -1.0), "Hardtanh requires min_value <= max_value"),
        (lambda: nn.CELU(0.0), "CELU requires alpha != 0"),
        (lambda: nn.Softplus(0.0), "Softplus requires beta > 0, got 0.0"),
        (lambda: nn.GELU("erf"), "GELU requires approximate"),
        (lambda: nn.PReLU(0), "PReLU requires num_parameters >= 1, got 0"),
        (lambda: nn.RReLU(0.5, 0.1), "RReLU requires lower <= upper, got 0.5 and 0.1"),
    ],
)
def test_arguments_are_checked(declare: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        declare()
