"""Recurrent layers on the host: the gradient of an LSTM is oneDNN's, by what it noted forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import value_and_grad

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
SHAPES = [(5, 3, 4), (28, 4), (28, 7), (28,), (28,), (3, 7), (3, 7)]
COTANGENTS = [(5, 3, 7), (3, 7), (3, 7)]


def arrays(shapes: Any) -> list[Any]:
    return [RNG.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
@pytest.mark.parametrize("is_reversed", [False, True])
def test_gradients_of_an_lstm_are_those_of_pytorch_itself(is_reversed: bool) -> None:
    given, cotangents = arrays(SHAPES), arrays(COTANGENTS)

    def on(device: str) -> Any:
        inputs, weights = (
            [pyrite.tensor(a, device=device) for a in x] for x in (given, cotangents)
        )

        def loss(x: Any, *rest: Any) -> Any:
            results = x._lstm(*rest, is_reversed=is_reversed)
            return sum((r * w).sum() for r, w in zip(results, weights, strict=True))

        return [g.numpy() for g in value_and_grad(loss, tuple(range(7)))(*inputs)[1]]

    x, *rest = (torch.from_numpy(a).requires_grad_() for a in given)
    *flat, hidden, cell = rest
    steps = x.flip(0) if is_reversed else x
    out, *ends = torch.lstm(
        steps, (hidden[None], cell[None]), flat, True, 1, 0.0, True, False, False
    )
    results = [out.flip(0) if is_reversed else out, *(e[0] for e in ends)]
    wanted = torch.autograd.grad(results, [x, *rest], [torch.from_numpy(c) for c in cotangents])
    for got, judged, want in zip(on("torch:cpu"), on("numpy"), wanted, strict=True):
        assert np.array_equal(got, want.numpy())
        np.testing.assert_allclose(got, judged, rtol=1e-4, atol=1e-5)


def test_an_lstm_that_is_asked_for_its_gates_has_them() -> None:
    given = arrays(SHAPES)
    found, wanted = (
        inputs[0]._lstm(*inputs[1:], keeps_gates=True)
        for inputs in ([pyrite.tensor(a, device=d) for a in given] for d in ("torch:cpu", "numpy"))
    )
    assert found[3].shape == (5, 3, 28)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_second_derivatives_of_an_lstm_go_through_the_ops_of_its_gradient() -> None:
    given = arrays(SHAPES)

    def on(device: str) -> Any:
        x, *rest = (pyrite.tensor(a, device=device) for a in given)
        slope = pyrite.grad(lambda x: (x._lstm(*rest)[0] ** 2).sum())
        return pyrite.grad(lambda x: (slope(x) ** 2).sum())(x).numpy()

    np.testing.assert_allclose(on("torch:cpu"), on("numpy"), rtol=1e-3, atol=1e-3)
