"""Checkpointing gives the same gradients from fewer kept bytes."""

from __future__ import annotations

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.autodiff import autodiff, checkpoint, grad, saved_bytes, training_mode, value_and_grad
from pyrite.autodiff.mode import training
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.random import random_bits
from pyrite.tensor.stream import random_stream


def chain(x):
    for _ in range(4):
        h = x @ x * 0.1
        x = h.exp() * (h * h).exp()
    return x


def points() -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.5, 0.5, (3, 3))


def test_the_gradient_is_the_same():
    x = tensor(points())
    plain = grad(lambda x: chain(x).sum())(x).numpy()
    again = grad(lambda x: checkpoint(chain)(x).sum())(x).numpy()
    np.testing.assert_array_equal(plain, again)


def test_second_order_through_a_checkpoint():
    x = tensor(points())
    hessian = lambda f: grad(lambda x: (grad(f)(x) ** 2).sum())(x).numpy()  # noqa: E731
    plain = hessian(lambda x: chain(x).sum())
    again = hessian(lambda x: checkpoint(chain)(x).sum())
    np.testing.assert_allclose(plain, again, rtol=1e-12)


def test_fewer_bytes_are_kept():
    x = tensor(points(), device=autodiff()).require_grad()
    everything = saved_bytes(chain(x).sum())
    assert saved_bytes(checkpoint(chain)(x).sum()) < everything / 4
    balanced = tensor(points(), device=autodiff(checkpointing="balanced")).require_grad()
    assert saved_bytes(chain(balanced).sum()) < everything


def test_a_method_and_a_closure_over_constants_keep_no_more_than_a_module():
    # The first layers of a network: what is tracked is their parameters, and no argument is.
    class Net(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(8, 64)

        def part(self, x):
            return self.linear(x).exp().exp().sum(-1)

        forward = part

    x = pyrite.ones((16, 8), device="numpy")

    def kept(of):
        found = []

        def loss(net):
            result = of(net).sum()
            found.append(pyrite.saved_bytes(result))
            return result

        pyrite.value_and_grad(loss)(Net().to("numpy"))
        return found[0]

    # Nothing of the size of a linear layer's result, which is 16 * 64 * 4 bytes.
    assert kept(lambda net: pyrite.checkpoint(net)(x)) < 16 * 64 * 4
    assert kept(lambda net: pyrite.checkpoint(net.part)(x)) < 16 * 64 * 4
    assert kept(lambda net: pyrite.checkpoint(lambda x: net.part(x))(x)) < 16 * 64 * 4
    assert kept(lambda net: net.part(x)) >= 16 * 64 * 4


def test_parameters_and_closures_get_their_gradients():
    w = Parameter(tensor(points()))

    def loss(w, x):
        outer = x * 2
        return checkpoint(lambda y: (y @ w * outer).exp())(x).sum()

    def plain(w, x):
        outer = x * 2
        return (x @ w * outer).exp().sum()

    x = tensor(points())
    for argnums in (0, 1):
        _, got = value_and_grad(loss, argnums)(w, x)
        _, want = value_and_grad(plain, argnums)(w, x)
        got, want = (g[w] if argnums == 0 else g for g in (got, want))
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_random_draws_repeat_exactly():
    def noisy(x):
        return x * (random_bits(x.shape, device=x.device).astype("float32") * 2.0**-32)

    x = full((8,), 1.0)
    with random_stream(3):
        plain = grad(lambda x: noisy(x).sum())(x).numpy()
    with random_stream(3):
        again = grad(lambda x: checkpoint(noisy)(x).sum())(x).numpy()
    np.testing.assert_array_equal(plain, again)


def test_draws_after_a_checkpoint_go_on_where_they_were():
    x = tensor([1.0])
    with random_stream(3) as stream:
        grad(lambda x: checkpoint(lambda y: y * random_bits((1,)).astype("float32"))(x).sum())(x)
        assert stream.next_draw == 1


def test_states_are_emitted_once():
    state = State(full((), 0.0))
    seen = []

    def block(x):
        seen.append(training())
        return state.emit(x.sum(), through=x * x)

    x = tensor([1.0, 2.0])
    p = Parameter(x)
    _, grads = value_and_grad(lambda p: checkpoint(block)(p).sum())(p)
    assert grads.updates[state.id].item() == 3.0
    assert len(seen) == 2
    assert seen == [True, True]


def test_the_training_mode_is_that_of_the_first_run():
    seen = []

    def block(x):
        seen.append(training())
        return x * x

    x = tensor([1.0], device=autodiff()).require_grad()
    with training_mode(False):
        loss = checkpoint(block)(x).sum()
    loss.backward()
    assert seen == [False, False]


def test_a_function_of_several_tensors_and_results():
    f = checkpoint(lambda a, b: {"sum": a + b, "product": a * b})

    def loss(a, b):
        out = f(a, b)
        return (out["sum"] * out["product"]).sum()

    a, b = tensor([1.0, 2.0]), tensor([3.0, 5.0])
    ga, gb = grad(loss, (0, 1))(a, b)
    np.testing.assert_allclose(ga.numpy(), [2 * 1 * 3 + 9, 2 * 2 * 5 + 25])
    np.testing.assert_allclose(gb.numpy(), [1 + 2 * 1 * 3, 4 + 2 * 2 * 5])


def test_outside_autodiff_it_just_calls():
    assert checkpoint(lambda x: x * 2)(tensor(4.0)).item() == pytest.approx(8.0)
