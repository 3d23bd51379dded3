"""Recurrent layers against PyTorch's, and the variants that it lacks against their formulas."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import grad, value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream


def pair(torch, name: str, **options):
    """Our layer with the weights of PyTorch's, and PyTorch's, in float64."""
    both = options.pop("direction", "forward") == "both"
    layers = options.pop("layers", 1)
    theirs = getattr(torch.nn, name)(
        3, 4, layers, batch_first=True, bidirectional=both, dtype=torch.float64, **options
    )
    ours = getattr(nn, name)(
        3, 4, layers, direction="both" if both else "forward", dtype="float64", **options
    )
    arrays = {k: v.detach().numpy() for k, v in theirs.state_dict().items()}
    return nn.weights.with_arrays(ours, arrays), theirs


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_pytorchs_words_of_direction_and_batch_are_in_the_signature(name):
    layer = getattr(nn, name)
    parameters = inspect.signature(layer).parameters
    assert {"batch_first", "bidirectional", "direction", "dropout"} <= set(parameters)
    assert parameters["batch_first"].default is True
    assert layer(3, 4, bidirectional=True).direction == "both"
    assert layer(3, 4, bidirectional=False).direction == "forward"
    assert layer(3, 4, direction="reverse").direction == "reverse"
    assert layer(3, 4, direction="reverse", bidirectional=False).direction == "reverse"
    with pytest.raises(ArgumentError, match="agree, got 'both' and False"):
        layer(3, 4, direction="both", bidirectional=False)
    with pytest.raises(ArgumentError, match="agree, got 'reverse' and True"):
        layer(3, 4, direction="reverse", bidirectional=True)
    steps_first = layer(3, 4, batch_first=False)(tensor(np.ones((5, 2, 3), np.float32)))
    assert steps_first[0].shape == (5, 2, 4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_values_and_gradients_are_pytorchs(name, layers, direction, bias):
    torch = pytest.importorskip("torch")
    ours, theirs = pair(torch, name, layers=layers, direction=direction, bias=bias)
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    their_x = torch.tensor(x, requires_grad=True)
    out, state = theirs(their_x)
    our_out, our_state = ours(tensor(x))
    np.testing.assert_allclose(our_out.numpy(), out.detach().numpy(), atol=1e-12)
    states = state if isinstance(state, tuple) else (state,)
    our_states = our_state if isinstance(our_state, tuple) else (our_state,)
    for a, b in zip(our_states, states, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), atol=1e-12)

    (out**2).sum().backward()
    _, (grads, of_x) = value_and_grad(lambda m, x: (m(x)[0] ** 2).sum(), (0, 1))(ours, tensor(x))
    np.testing.assert_allclose(of_x.numpy(), their_x.grad.numpy(), atol=1e-10)
    for path, p in ours.named_parameters():
        want = getattr(theirs, path).grad.numpy()
        np.testing.assert_allclose(grads[p].numpy(), want, atol=1e-10)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_sequence_may_be_run_in_pieces(name):
    with random_stream(1):
        layer = getattr(nn, name)(3, 4, 2, dtype="float64")
    x = tensor(np.random.default_rng(0).normal(size=(2, 6, 3)))
    whole, _ = layer(x)
    first, state = layer(x.narrow(1, 0, 4))
    rest, _ = layer(x.narrow(1, 4, 2), state)
    np.testing.assert_allclose(first.numpy(), whole.numpy()[:, :4])
    np.testing.assert_allclose(rest.numpy(), whole.numpy()[:, 4:])


def test_reverse_is_forward_on_the_flipped_sequence():
    with random_stream(1):
        forward = nn.GRU(3, 4, dtype="float64")
    with random_stream(1):
        backward = nn.GRU(3, 4, direction="reverse", dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    want = forward(tensor(x[:, ::-1].copy()))[0].numpy()[:, ::-1]
    np.testing.assert_allclose(backward(tensor(x))[0].numpy(), want)


def test_time_first():
    with random_stream(1):
        layer = nn.LSTM(3, 4, dtype="float64")
    with random_stream(1):
        time_first = nn.LSTM(3, 4, batch_first=False, dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    got = time_first(tensor(np.swapaxes(x, 0, 1).copy()))[0].numpy()
    np.testing.assert_allclose(np.swapaxes(got, 0, 1), layer(tensor(x))[0].numpy())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_gru_that_resets_before_the_product_is_the_papers():
    with random_stream(2):
        layer = nn.GRU(3, 4, reset_after=False, dtype="float64")
    x = np.random.default_rng(0).normal(size=(1, 3, 3))
    w, u, b, c = (p.numpy() for p in layer.parameters())
    h = np.zeros(4)
    for t in range(3):
        i = w @ x[0, t] + b
        r = sigmoid(i[:4] + u[:4] @ h + c[:4])
        z = sigmoid(i[4:8] + u[4:8] @ h + c[4:8])
        n = np.tanh(i[8:] + u[8:] @ (r * h) + c[8:])
        h = (1 - z) * n + z * h
    np.testing.assert_allclose(layer(tensor(x))[1].numpy()[0, 0], h)


def test_lstm_variants():
    x = tensor(np.random.default_rng(0).normal(size=(1, 8, 3)) * 5)
    with random_stream(2):
        clipped = nn.LSTM(3, 4, clip=0.3, dtype="float64")
    assert np.abs(clipped(x)[1].cell.numpy()).max() <= 0.3
    with random_stream(2):
        coupled = nn.LSTM(3, 4, input_forget=True, dtype="float64")
    # |c'| = |(1-i) c + i g| stays below 1: a mean of values that are.
    assert np.abs(coupled(x)[1].cell.numpy()).max() <= 1.0


def test_second_order_through_time():
    with random_stream(3):
        layer = nn.LSTM(2, 3, dtype="float64")
    x = np.random.default_rng(0).normal(size=(1, 3, 2))
    first = grad(lambda x: (layer(x)[0] ** 2).sum())
    v = np.random.default_rng(1).normal(size=x.shape)
    got = grad(lambda x: (first(x) * tensor(v)).sum())(tensor(x)).numpy()
    step = 1e-5
    ends = [first(tensor(x + s * step * v)).numpy() for s in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)


def test_bad_inputs_are_named():
    layer = nn.LSTM(3, 4)
    with pytest.raises(ShapeError, match=r"LSTM requires x of shape \(N, T, 3\), got \(2, 5, 7\)"):
        layer(tensor(np.zeros((2, 5, 7), np.float32)))
    with pytest.raises(ShapeError, match="at least one step"):
        layer(tensor(np.zeros((2, 0, 3), np.float32)))
    with pytest.raises(ShapeError, match=r"2 states of shape \(1, 2, 4\)"):
        layer(tensor(np.zeros((2, 5, 3), np.float32)), tensor(np.zeros((1, 2, 4), np.float32)))
    with pytest.raises(ArgumentError, match="direction forward, reverse or both"):
        nn.GRU(3, 4, direction="sideways")
    with pytest.raises(ArgumentError, match="clip > 0"):
        nn.LSTM(3, 4, clip=0.0)
