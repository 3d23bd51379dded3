"""Bisection is judged by devices with one op that is wrong on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.backend.numpy import NumPy
from pyrite.errors import ArgumentError
from pyrite.op import Handle, Op, Plan


class Faulty(NumPy):
    """NumPy, but one op's results are off by a factor."""

    def __init__(self, op: str, factor: float = 1.01) -> None:
        super().__init__()
        self.name = "faulty"
        self.op, self.factor = op, factor

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        results = super().execute(op, inputs, plan)
        if op.name != self.op or results is None:
            return results
        return [np.asarray(r * self.factor, r.dtype) for r in results]


class Choosy(NumPy):
    """NumPy, but mish, a composite, is kept whole for handles of its own, and is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "choosy"
        self.uploaded: list[Handle] = []

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        return op.name == "mish" and any(inputs[0] is mine for mine in self.uploaded)

    def upload(self, array: Any) -> Handle:
        self.uploaded.append(super().upload(array))
        return self.uploaded[-1]

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        if op.name == "mish" and self.keeps(op, inputs):
            return inputs
        return super().execute(op, inputs, plan)


class Net(nn.Module):
    def __init__(self) -> None:
        self.hidden = nn.Linear(4, 8)
        self.act = nn.GELU()
        self.out = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.act(self.hidden(x)))


@pytest.fixture
def net() -> Net:
    pyrite.seed(0)
    return Net()


X = pyrite.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


def test_the_first_op_that_diverges_is_named_with_its_layer_and_line(net: Net) -> None:
    found = pyrite.bisect(net, X, a=Faulty("gelu"))

    assert found.first is not None
    assert found.first.op == "gelu"
    assert found.first.error == pytest.approx(0.01, rel=1e-3)
    assert found.first.module_path == "Net 'act': GELU()"
    assert found.first.location.startswith(f"{__file__}:")
    assert found.output_error > 1e-4
    assert "the first: gelu(float32[3, 8]) differs by 0.01" in str(found)


def test_an_op_is_not_blamed_for_the_error_of_its_inputs(net: Net) -> None:
    found = pyrite.bisect(net, X, a=Faulty("gelu"))

    assert [d.op for d in found.divergences] == ["gelu"]


def test_devices_that_agree_have_no_divergence(net: Net) -> None:
    found = pyrite.bisect(net, X, a=Faulty("no such op"))

    assert found.first is None
    assert found.output_error == 0
    assert found.ops >= 3
    assert "0 diverge" in str(found)


def test_the_backward_pass_is_judged_too(net: Net) -> None:
    def loss(net: Net, x: Any) -> Any:
        return (net(x) ** 2).mean()

    wrong = Faulty("gelu_backward")
    found = pyrite.bisect(pyrite.value_and_grad(loss), (net, X), a=wrong)

    assert found.first is not None
    assert found.first.op == "gelu_backward"
    assert found.first.module_path is None


def test_the_error_of_gradients_is_told(net: Net) -> None:
    def loss(net: Net, x: Any) -> Any:
        return (net(x) ** 2).mean()

    found = pyrite.bisect(pyrite.value_and_grad(loss), (net, X), a=Faulty("gelu_backward", 3.0))

    # The loss itself is right.
    assert found.output_error > 0.5


def test_each_run_draws_the_same_random_numbers() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5))

    def loss(net: Any, x: Any) -> Any:
        return net(x).sum()

    assert pyrite.bisect(pyrite.value_and_grad(loss), (net, X), a=Faulty("")).output_error == 0


def test_a_sum_near_0_may_differ_by_what_its_terms_were_rounded() -> None:
    x = pyrite.tensor([1.0, -1.0, 3e-6])

    assert pyrite.bisect(lambda x: x.sum(), x, a=Faulty("sum")).first is None
    assert pyrite.bisect(lambda x: x.abs().sum(), x, a=Faulty("sum")).first is not None


def test_rounding_is_no_excuse_for_an_elementwise_op() -> None:
    x = pyrite.tensor([1.0, 2.0])

    assert pyrite.bisect(lambda x: x.floor(), x, a=Faulty("floor")).first is not None


def test_a_composite_is_judged_as_the_suspect_would_run_it() -> None:
    found = pyrite.bisect(nn.Mish(), X, a=Choosy())

    assert [d.op for d in found.divergences] == ["mish"]


def test_batch_norm_is_judged_on_a_device_that_looks_at_its_inputs() -> None:
    x = pyrite.tensor(np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 3, 2, 4))

    found = pyrite.bisect(nn.BatchNorm2d(3), x, a="cpu")

    assert found.first is None


def test_what_a_wrong_index_breaks_later_does_not_hide_it() -> None:
    x = pyrite.tensor([3.0, 1.0, 2.0])

    found = pyrite.bisect(lambda x: x.take(x.argsort(axis=0), axis=0), x, a=Faulty("argsort", 7.0))

    assert found.first is not None
    assert found.first.op == "argsort"
    assert found.output_error == float("inf")


def test_a_nan_on_one_device_only_is_an_infinite_error() -> None:
    found = pyrite.bisect(lambda x: x.exp(), X, a=Faulty("exp", float("nan")))

    assert found.first is not None
    assert found.first.error == float("inf")


def test_integers_must_be_equal() -> None:
    x = pyrite.tensor([1000, 2000])

    found = pyrite.bisect(lambda x: x + 1, x, a=Faulty("add", 1.001))

    assert found.first is not None
    assert found.first.error == pytest.approx(0.001, rel=0.1)


def test_a_tolerance_is_what_is_allowed(net: Net) -> None:
    assert pyrite.bisect(net, X, a=Faulty("gelu"), tolerance=0.1).first is None


def test_one_device_against_itself_is_an_error(net: Net) -> None:
    with pytest.raises(ArgumentError, match=r"requires two devices, got numpy twice"):
        pyrite.bisect(net, X, a="numpy")
