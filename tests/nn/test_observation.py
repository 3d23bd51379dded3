"""What layers put out is kept by path, where hooks would be elsewhere."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import pyrite
from pyrite import nn, optim
from pyrite.autodiff import value_and_grad
from pyrite.errors import ModuleError
from pyrite.tensor.creation import ones, tensor
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        shared = nn.Linear(4, 4)
        self.blocks = [nn.Sequential(shared, nn.ReLU()), nn.Sequential(nn.Linear(4, 4), nn.Tanh())]
        self.again = shared
        self.split = nn.Lambda(lambda x: (x, {"twice": x * 2}))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.split(self.again(x))[0]


X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def net() -> Net:
    with random_stream(0):
        return Net()


def test_outputs_are_kept_by_path(net):
    with pyrite.activations(net, "blocks.*") as seen:
        out = net(tensor(X))
    first = net.blocks[0](tensor(X))
    assert list(seen) == ["blocks.0.0", "blocks.0.1", "blocks.0", "blocks.1.0", "blocks.1.1",
                          "blocks.1"]  # fmt: skip
    np.testing.assert_array_equal(seen["blocks.0"].numpy(), first.numpy())
    np.testing.assert_array_equal(seen["blocks.1"].numpy(), net.blocks[1](first).numpy())
    assert out.shape == (3, 4)
    with pytest.raises(KeyError, match="'split', which was not called; called were blocks"):
        seen["split"]


def test_a_layer_with_two_paths_has_the_first_and_all_its_calls(net):
    with pyrite.activations(net) as seen:
        net(tensor(X))
    assert "again" not in seen
    first, second = seen.calls("blocks.0.0")
    assert second is seen["blocks.0.0"]
    np.testing.assert_array_equal(first.numpy(), net.again(tensor(X)).numpy())
    np.testing.assert_array_equal(second.numpy(), net.again(seen["blocks.1"]).numpy())
    assert set(seen["split"][1]) == {"twice"}


def test_nothing_is_kept_outside_the_block_or_of_another_model(net):
    with random_stream(0):
        other = Net()
    with pyrite.activations(net, "again") as seen:
        other(tensor(X))
        assert len(seen) == 0
    net(tensor(X))
    assert len(seen) == 0


def test_a_model_that_is_called_by_another_is_seen(net):
    with pyrite.activations(net, "blocks.1") as seen:
        nn.Sequential(nn.Identity(), net)(tensor(X))
    assert seen["blocks.1"].shape == (3, 4)


def test_what_a_step_saw_is_plain_and_its_models_are_let_go(net):
    models: list[weakref.ref[Net]] = []

    def loss(model, x):
        models.append(weakref.ref(model))
        return model(x).square().mean()

    optimizer = optim.SGD(0.1)
    with pyrite.activations(net, "blocks.0") as seen:
        for _ in range(3):
            want = net.blocks[0](tensor(X)).numpy()
            _, grads = value_and_grad(loss)(net, tensor(X))
            net = optimizer.step(net, grads)
    assert not seen["blocks.0"].is_tracked
    assert seen["blocks.0"]._backend.level == 0
    assert len(seen.calls("blocks.0")) == 3  # of the layer called by itself none is kept
    np.testing.assert_array_equal(seen.calls("blocks.0")[-1].numpy(), want)
    gc.collect()
    assert [ref() for ref in models[:2]] == [None, None]


def test_gradients_flow_through_what_is_kept_inside_a_loss(net):
    def loss(model, x):
        with pyrite.activations(model, "blocks.0") as seen:
            model(x)
        return seen["blocks.0"].square().sum()

    def plain(model, x):
        return model.blocks[0](x).square().sum()

    _, grads = value_and_grad(loss)(net, tensor(X))
    _, want = value_and_grad(plain)(net, tensor(X))
    weight = net.blocks[0][0].weight
    np.testing.assert_array_equal(grads[weight].numpy(), want[weight].numpy())


def test_a_module_without_parameters_is_known_by_itself():
    first, second = (nn.Sequential(nn.ReLU(), nn.Tanh()) for _ in range(2))
    with pyrite.activations(first, "0") as seen:
        second(ones((2,)))
        assert len(seen) == 0
        first(ones((2,)))
    assert isinstance(seen["0"], Tensor)


def test_other_threads_are_not_seen(net):
    with pyrite.activations(net, "again") as seen:
        thread = threading.Thread(target=lambda: net(tensor(X)))
        thread.start()
        thread.join()
    assert len(seen) == 0


def test_blocks_nest(net):
    with pyrite.activations(net, "blocks.0") as outer:
        with pyrite.activations(net, "blocks.1") as inner:
            net(tensor(X))
        net(tensor(X))
    assert (list(outer), len(outer.calls("blocks.0"))) == (["blocks.0"], 2)
    assert (list(inner), len(inner.calls("blocks.1"))) == (["blocks.1"], 1)


def test_a_pattern_without_a_module_is_an_error_at_once(net):
    with pytest.raises(ModuleError, match=r"got 'blocks\.\*\.mlp'; it has blocks\.0"):
        with pyrite.activations(net, "blocks.*.mlp"):
            pass
