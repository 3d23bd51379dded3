"""Small batches, added up, are the large batch."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, GradientError
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State


def batch_gradients(problem, rows, reduce="mean"):
    x, y = tensor(problem.x[rows]), tensor(problem.y[rows])
    loss = value_and_grad(lambda m: getattr((m(x) - y).square(), reduce)())
    return loss(problem.net)[1]


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_accumulation_equals_the_large_batch(problem64, reduce):
    accumulator = optim.GradientAccumulator(4, mean=reduce == "mean")
    parts = [batch_gradients(problem64, slice(k, k + 4), reduce) for k in (0, 4, 8, 12)]
    given = [accumulator.add(part) for part in parts]
    assert given[:3] == [None] * 3
    whole = batch_gradients(problem64, slice(0, 16), reduce)
    for p in problem64.net.parameters():
        np.testing.assert_allclose(given[3][p].numpy(), whole[p].numpy(), rtol=1e-10, atol=1e-14)
    assert accumulator.count == 0
    assert accumulator.flush() is None


def test_what_is_left_at_the_end_is_the_mean_of_what_was_added(problem64):
    accumulator = optim.GradientAccumulator(4)
    for k in (0, 8):
        accumulator.add(batch_gradients(problem64, slice(k, k + 8)))
    left = accumulator.flush()
    whole = batch_gradients(problem64, slice(0, 16))
    p = problem64.net.out.weight
    np.testing.assert_allclose(left[p].numpy(), whole[p].numpy(), rtol=1e-10)


def test_the_latest_state_wins():
    class Last(nn.Module):
        def __init__(self) -> None:
            self.scale = Parameter(full((), 1.0))
            self.seen = State(full((), 0.0))

        def forward(self, x):
            return self.seen.emit(x, through=x * self.scale)

    model, accumulator = Last(), optim.GradientAccumulator(2)
    for value in (3.0, 5.0):
        _, gradients = value_and_grad(lambda m, v=value: m(tensor(v)))(model)
        total = accumulator.add(gradients)
    after = optim.SGD(1.0).step(model, total)
    assert (after.seen.item(), after.scale.item()) == (5.0, -3.0)


def test_a_step_in_between_is_an_error(problem64):
    accumulator = optim.GradientAccumulator(3)
    first = problem64.gradients(problem64.net)
    accumulator.add(first)
    after = optim.SGD(0.1).step(problem64.net, first)
    with pytest.raises(GradientError, match="before and after a step"):
        accumulator.add(problem64.gradients(after))


def test_it_takes_at_least_one():
    with pytest.raises(ArgumentError, match="GradientAccumulator requires steps >= 1, got 0"):
        optim.GradientAccumulator(0)
