"""A module pickles: values, ties and settings arrive, with ids of their own."""

from __future__ import annotations

import multiprocessing
import pickle  # noqa: TID251 - to see what is sent to another process
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn, optim
from pyrite.autodiff import autodiff, value_and_grad
from pyrite.errors import ModuleError, RecordError
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream


@dataclass(frozen=True)
class Scale:
    by: pyrite.Tensor
    name: str


class Net(nn.Module):
    """Ties, a state, constants in containers, a function, a frozen part, settings."""

    def __init__(self) -> None:
        self.embed = nn.Embedding(5, 4)
        self.layers = [nn.Sequential(nn.Linear(4, 4), pyrite.Tensor.gelu), nn.BatchNorm(4)]
        self.head = nn.Linear(4, 5, bias=False).replace(weight=self.embed.weight)
        self.table = {"scale": Scale(tensor([1.0, 2.0, 3.0, 4.0]), "by"), "size": (2, 3)}
        self.half = tensor([0.5], dtype="bfloat16")

    def forward(self, tokens):
        x = self.embed(tokens) * self.table["scale"].by
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


TOKENS = np.arange(5, dtype=np.int32)


def copied(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


def answered(module: nn.Module) -> np.ndarray:
    return module(tensor(TOKENS)).numpy()


@pytest.fixture
def net() -> Net:
    with random_stream(0):
        made = Net().freeze("layers.1.*")
    _, grads = value_and_grad(lambda m: m(tensor(TOKENS)).square().mean())(made)
    return optim.SGD(0.1).step(made, grads)


def test_what_arrives_computes_the_same(net):
    got = copied(net)
    np.testing.assert_array_equal(answered(got), answered(net))
    assert repr(got) == repr(net)
    assert got.table["size"] == (2, 3)
    assert (got.half.dtype.name, got.half.tolist()) == ("bfloat16", [0.5])


def test_ids_are_fresh_ties_and_frozen_parts_stay(net):
    got = copied(net)
    before = {p.id for p in (*net.parameters(), *(s for _, s in net.named_states()))}
    after = {p.id for p in (*got.parameters(), *(s for _, s in got.named_states()))}
    assert not before & after
    assert got.head.weight is got.embed.weight
    assert [path for path, _ in got.named_parameters()] == [p for p, _ in net.named_parameters()]
    assert [p.trainable for p in got.parameters()] == [p.trainable for p in net.parameters()]
    with pytest.raises(ModuleError, match="stay as __init__ left them"):
        got.head = None


def test_a_tie_of_two_modules_that_are_sent_together_stays():
    first = nn.Linear(2, 2)
    second = nn.Linear(2, 2).replace(weight=first.weight)
    a, b = copied((first, second))
    assert a.weight is b.weight


def test_what_arrives_is_trained_apart(net):
    got = copied(net)
    _, grads = value_and_grad(lambda m: m(tensor(TOKENS)).square().mean())(got)
    after = optim.SGD(0.1).step(got, grads)
    assert after.head.weight is after.embed.weight
    assert np.abs(answered(after) - answered(net)).max() > 0
    np.testing.assert_array_equal(answered(got), answered(net))


def test_a_model_that_was_never_run_draws_its_values_to_be_sent():
    with random_stream(0):
        model = nn.Linear(3, 3)
    np.testing.assert_array_equal(copied(model).weight.numpy(), model.weight.numpy())


def test_a_tracked_model_arrives_on_the_plain_device(net):
    got = copied(net.to(autodiff("numpy")))
    assert {p.device.level for p in got.parameters()} == {0}
    np.testing.assert_array_equal(got.head.weight.numpy(), net.head.weight.numpy())


def test_a_spawned_process_has_the_model(net):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(answered, (net,)), answered(net))


def test_a_tensor_by_itself_is_still_refused():
    with pytest.raises(RecordError, match="save a module, or send"):
        pickle.dumps(tensor([1.0]))
