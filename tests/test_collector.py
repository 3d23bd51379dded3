"""The collector of cycles waits in passes over a model, and is as before behind them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import pyrite
from pyrite import nn, optim
from pyrite.collector import PATIENCE, patient_collector


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_the_collector_waits_in_the_block_and_not_behind_it(threshold: tuple[int, ...]) -> None:
    with patient_collector():
        assert gc.get_threshold() == (PATIENCE, *threshold[1:])
        with patient_collector():
            assert gc.get_threshold()[0] == PATIENCE
        assert gc.get_threshold()[0] == PATIENCE
    assert gc.get_threshold() == threshold


def test_an_error_leaves_it_as_it_was(threshold: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="here"), patient_collector():
        raise ValueError("here")
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("first", [0, 2 * PATIENCE])
def test_one_that_never_runs_or_waits_longer_stays(first: int) -> None:
    gc.set_threshold(first, 3, 4)
    with patient_collector():
        assert gc.get_threshold() == (first, 3, 4)
    assert gc.get_threshold() == (first, 3, 4)


def test_what_the_block_sets_stays() -> None:
    with patient_collector():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_a_gradient_and_a_step_wait_and_what_they_call_may_ask(threshold: tuple[int, ...]) -> None:
    seen: list[int] = []

    class Seen(optim.SGD):
        def update_many(self, updates, *, learning_rate):  # type: ignore[no-untyped-def]
            seen.append(gc.get_threshold()[0])
            return super().update_many(updates, learning_rate=learning_rate)

    def loss_of(model: nn.Linear) -> pyrite.Tensor:
        seen.append(gc.get_threshold()[0])
        return model(pyrite.ones((3, 2))).sum()

    model = nn.Linear(2, 1)
    _, gradients = pyrite.value_and_grad(loss_of)(model)
    assert gc.get_threshold() == threshold
    Seen(0.1).step(model, gradients)
    assert seen == [PATIENCE, PATIENCE]
    assert gc.get_threshold() == threshold
