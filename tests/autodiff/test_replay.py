"""Backward passes that are done again give what the rules would give."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, autodiff, custom_op, nn, tensor, value_and_grad
from pyrite.autodiff import replay
from pyrite.autodiff.node import Variable
from pyrite.autodiff.walk import Walk
from pyrite.backend.device import device
from pyrite.errors import GradientError
from pyrite.op import Derivative
from pyrite.tensor.parameter import Parameter
from pyrite.testing.examples import Example, examples
from pyrite.types import float32, float64

Gradient = Callable[[Variable], Any]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ops whose rules ran."""
    names: list[str] = []
    rule = Derivative.__call__

    def noted(self: Derivative, op: Any, *rest: Any) -> Any:
        names.append(op.name)
        return rule(self, op, *rest)

    monkeypatch.setattr(Derivative, "__call__", noted)
    replay._forms.clear()
    yield names
    replay._forms.clear()


def by_rules(loss: Tensor, leaves: list[Tensor]) -> list[Any]:
    """The gradients of leaves by a walk that is neither recorded nor replayed."""
    found = Walk(loss._handle.value._backend).run(loss._handle)
    return [None if (g := found.get(leaf)) is None else g.numpy() for leaf in leaves]


def assert_alike(loss: Tensor, leaves: list[Tensor]) -> None:
    got = loss.backward()
    for leaf, want in zip(leaves, by_rules(loss, leaves), strict=True):
        have = got.get(leaf)
        assert (have is None) == (want is None)
        if have is not None:
            np.testing.assert_array_equal(have.numpy(), want)


# ---- every op ----


def differentiable() -> list[Example]:
    return [e for e in examples() if e.op.derivative is not None and not e.op.sync]


@pytest.mark.sample(1, by="example.op")
@pytest.mark.parametrize("example", differentiable(), ids=lambda e: e.id)
def test_the_gradients_of_every_op_are_replayed_as_its_rules_give_them(
    example: Example, ran: list[str]
) -> None:
    dtype = float64 if device(None).backend.supports(tensor(0.0)._type) else float32
    where = autodiff()
    for turn in range(4):
        # Other values each time, of the same shapes.
        arrays = [
            a[::-1].copy() if turn % 2 and isinstance(a, np.ndarray) and a.ndim else a
            for a in example.arrays(dtype)
        ]
        inputs = [tensor(a, device=where) if isinstance(a, np.ndarray) else a for a in arrays]
        inputs = [
            i.require_grad() if isinstance(i, Tensor) and i.dtype.is_float else i for i in inputs
        ]
        leaves = [i for i in inputs if isinstance(i, Tensor) and i.is_tracked]
        results = [r for r in example.call(inputs, where) if r.is_tracked]
        if not results:
            return
        loss = sum((r * r).sum() for r in results)
        assert_alike(loss, leaves)
    del ran[:]
    loss.backward()
    assert not ran, "the pass of a known form runs no rule"


# ---- random graphs ----


UNARY = [Tensor.exp, Tensor.sin, Tensor.relu, Tensor.tanh, Tensor.abs, lambda x: x * 2]
BINARY = [Tensor.add, Tensor.multiply, Tensor.subtract, Tensor.maximum]


def drawn(seed: int, leaves: list[Tensor], constants: list[Tensor]) -> Tensor:
    """A random graph: values used several times or never, broadcast, and constants among them."""
    choose = random.Random(seed)
    values = [*leaves, *constants]
    for _ in range(12):
        if choose.random() < 0.4:
            made = choose.choice(UNARY)(choose.choice(values))
        else:
            made = choose.choice(BINARY)(choose.choice(values), choose.choice(values))
        values.append(made / 2)
    return sum(v.sum() for v in values[-3:]) + leaves[0].mean()


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_are_replayed(seed: int, ran: list[str]) -> None:
    rng = np.random.default_rng(seed)
    where = autodiff()
    for _ in range(4):
        leaves = [
            tensor(rng.standard_normal(shape).astype("f"), device=where).require_grad()
            for shape in ((2, 3), (3,), (2, 1), ())
        ]
        constants = [tensor(rng.standard_normal((2, 3)).astype("f"), device=where)]
        loss = drawn(seed, leaves, constants)
        if not loss.is_tracked:
            return
        assert_alike(loss, leaves)
    del ran[:]
    loss.backward()
    assert not ran, "the pass of a known form runs no rule"


# ---- what a form is ----


def test_one_tensor_twice_is_not_two_tensors() -> None:
    c, d = tensor([3.0], device=autodiff()), tensor([5.0], device=autodiff())
    for second, want in ((c, 9.0), (c, 9.0), (c, 9.0), (d, 15.0)):
        x = tensor([2.0], device=autodiff()).require_grad()
        assert (x * c * second).sum().backward()[x].item() == want


def test_numbers_belong_to_the_form() -> None:
    def slope(by: float) -> float:
        x = tensor(2.0, device=autodiff()).require_grad()
        found: float = (x * by).backward()[x].item()
        return found

    assert [slope(by) for by in (3.0, 3.0, 3.0, 4.0, 3.0, 0.0, -0.0)] == [3, 3, 3, 4, 3, 0, 0]
    assert np.copysign(1.0, slope(-0.0)) == -1.0


def test_which_values_are_wanted_belongs_to_the_form() -> None:
    for tracked in ((True, True), (True, True), (True, True), (False, True), (True, False)):
        x, y = (tensor([v], device=autodiff()) for v in (2.0, 3.0))
        if tracked[0]:
            x = x.require_grad()
        if tracked[1]:
            y = y.require_grad()
        grads = (x * y).sum().backward()
        assert [x in grads, y in grads] == list(tracked)


def test_the_order_of_branches_belongs_to_the_form() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((3, 50)).astype("f")
    for turn in range(6):
        x = tensor(data, device=autodiff()).require_grad()
        parts = [x * 1e-3, x * 1e3, x * x]
        if turn % 2:
            parts = [x * x, x * 1e3, x * 1e-3]
        assert_alike(sum(p.exp().tanh().sum() for p in parts), [x])


# ---- what is not replayed ----


def test_the_rule_of_an_application_runs_every_time(ran: list[str]) -> None:
    scale = [1.0]

    @custom_op(infer=lambda x: x, body=lambda x: x + 0, vjp=(lambda g, _out, _x: g * scale[0],))
    def scaled(x: Tensor, /) -> Tensor: ...

    for turn in range(4):
        scale[0] = float(turn)
        x = tensor([1.0], device=autodiff()).require_grad()
        assert scaled(x).sum().backward()[x].item() == turn


def test_checkpoints_run_again_every_time() -> None:
    calls = []

    @pyrite.checkpoint
    def block(x: Tensor) -> Tensor:
        calls.append(1)
        return x.exp()

    for turn in range(1, 5):
        x = tensor([0.0], device=autodiff()).require_grad()
        assert block(x).sum().backward()[x].item() == 1.0
        assert len(calls) == 2 * turn


def test_what_is_recomputed_is_recomputed_every_time() -> None:
    for _ in range(4):
        x = tensor([0.0], device=autodiff(checkpointing="balanced")).require_grad()
        assert x.exp().exp().sum().backward()[x].item() == pytest.approx(np.e)
        x = tensor([0.0], device=autodiff()).require_grad()
        assert x.exp().exp().sum().backward()[x].item() == pytest.approx(np.e)


def test_second_derivatives_are_those_of_the_rules() -> None:
    cube = pyrite.grad(pyrite.grad(lambda x: (x * x * x).sum()))
    for value in (1.0, 2.0, 3.0, 4.0):
        assert cube(tensor(value)).item() == 6 * value


# ---- what a replay does besides ----


def test_states_are_renewed_by_each_replay(ran: list[str]) -> None:
    model = nn.BatchNorm1d(2, momentum=0.5)
    loss = value_and_grad(lambda m, x: m(x).sum())
    x = tensor([[1.0, 2.0], [3.0, 6.0]])
    optimizer = pyrite.optim.SGD(0.1)
    means = []
    for _ in range(4):
        _, grads = loss(model, x)
        model = optimizer.step(model, grads)
        means.append(model.running_mean.tolist())
    np.testing.assert_allclose(means, [[1, 2], [1.5, 3], [1.75, 3.5], [1.875, 3.75]])


def test_a_leaf_from_outside_is_an_error_of_a_replay_too() -> None:
    outside = tensor([2.0], device=autodiff()).require_grad()
    for _ in range(4):
        with pytest.raises(GradientError, match="requires the tracked tensors of its own level"):
            value_and_grad(lambda x: (x * outside).sum())(tensor([1.0]))


def test_a_parameter_of_two_leaves_gets_the_sum() -> None:
    weight = Parameter(tensor([2.0]))
    for _ in range(4):
        _, grads = value_and_grad(lambda pair: (pair[0] * pair[1]).sum())([weight, weight])
        assert grads[weight].item() == 4.0


def test_a_step_runs_no_rule_from_the_third_time_on(ran: list[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    step = value_and_grad(lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1))
    x, y = pyrite.ones((5, 4)), tensor([0, 1, 2, 0, 1])
    counts = []
    for _ in range(4):
        step(model, x, y)
        counts.append(len(ran))
        del ran[:]
    assert counts[0] == counts[1] > 0
    assert counts[2:] == [0, 0]
