"""Rounds of a loop that nobody reads in: each is a program, and layers of a network are none."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.compiling import Worth
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.config import config

RNG = np.random.default_rng(5)
ROUNDS = 6


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root: Any = pyrite.device("cpu").backend.root
    monkeypatch.setattr(root, "round_bytes", 0)
    monkeypatch.setattr(root, "program_worth", Worth(9))
    monkeypatch.setattr(config, "ahead", False)
    yield
    gc.collect()


@pytest.fixture
def device() -> Device:
    """A device of its own, on which programs are compiled after two runs that were noted."""
    return Device(Fusion(pyrite.device("cpu").backend.root, after=2))


def counts_of(device: Device) -> RecordedCalls:
    assert isinstance(device.backend, Fusion)
    return device.backend.recorded


def some(device: Device, *shape: int) -> Tensor:
    return pyrite.tensor(RNG.standard_normal(shape, dtype=np.float32), device=device)


def scored(x: Tensor, weight: Tensor) -> Tensor:
    """Some ops, of which two of one plan follow each other."""
    h = x @ weight
    for _ in range(4):
        h = (h * 0.5 + x).tanh()
    return ((h @ weight) * 2 - 1).exp().sum()


def evaluate(batches: Sequence[Tensor], weight: Tensor) -> float:
    total = pyrite.zeros((), device=weight.device)
    for x in batches:
        total = total + scored(x, weight)
    return float((total / len(batches)).item())


def plain(values: Sequence[Tensor]) -> list[Tensor]:
    below = Device(values[0].device.backend.root)
    return [pyrite.tensor(x.numpy(), device=below) for x in values]


def test_batches_of_an_evaluation_become_programs(device: Device) -> None:
    batches, weight = [some(device, 4, 5) for _ in range(ROUNDS)], some(device, 5, 5)
    *theirs, of_theirs = plain([*batches, weight])
    wanted = evaluate(theirs, of_theirs)
    counts = counts_of(device)
    for _ in range(8):
        assert evaluate(batches, weight) == wanted
    before = counts.program_runs

    assert evaluate(batches, weight) == wanted

    assert counts.program_runs - before == ROUNDS
    assert len(counts.rounds) == 1
    assert counts.compiled <= 3, "a round, and one with what comes behind the last"


def test_other_batches_weights_and_counts_give_their_own(device: Device) -> None:
    counts = counts_of(device)
    for n in range(16):
        batches = [some(device, 4, 5) for _ in range(ROUNDS + n % 3)]
        weight = some(device, 5, 5)
        *theirs, of_theirs = plain([*batches, weight])
        assert evaluate(batches, weight) == evaluate(theirs, of_theirs)
    assert counts.program_runs > 0


def test_rounds_that_hold_what_they_made_keep_it(device: Device) -> None:
    batches, weight = [some(device, 4, 5) for _ in range(ROUNDS)], some(device, 5, 5)

    def all_of(batches: Sequence[Tensor], weight: Tensor) -> list[Any]:
        held = [scored(x, weight) * x.sum() for x in batches]
        return [x.item() for x in held]

    *theirs, of_theirs = plain([*batches, weight])
    wanted = all_of(theirs, of_theirs)
    for _ in range(10):
        assert all_of(batches, weight) == wanted
    assert counts_of(device).program_runs > 0


def test_what_goes_on_otherwise_in_a_round_is_computed(device: Device) -> None:
    batches, weight = [some(device, 4, 5) for _ in range(ROUNDS)], some(device, 5, 5)

    def run(batches: Sequence[Tensor], weight: Tensor, odd: int) -> float:
        total = pyrite.zeros((), device=weight.device)
        for n, x in enumerate(batches):
            y = scored(x, weight)
            total = total + (y.exp() if n == odd else y)
        return float(total.item())

    *theirs, of_theirs = plain([*batches, weight])
    for _ in range(6):
        run(batches, weight, -1)
    for odd in (*range(ROUNDS), *range(ROUNDS), -1):
        assert run(batches, weight, odd) == run(theirs, of_theirs, odd)


def test_layers_of_a_network_are_no_rounds(device: Device) -> None:
    with pyrite.random_stream(0):
        layers = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(8)]
        model = nn.Sequential(*layers).to(device)
    x = some(device, 4, 8)
    for _ in range(8):
        model(x).numpy()
    counts = counts_of(device)
    assert not counts.rounds
    before = counts.program_runs
    model(x).numpy()
    assert counts.program_runs == before + 1


def test_a_training_beside_an_evaluation_goes_on(device: Device) -> None:
    batches, weight = [some(device, 4, 5) for _ in range(ROUNDS)], some(device, 5, 5)
    *theirs, of_theirs = plain([*batches, weight])

    def train(weight: Tensor, x: Tensor) -> Tensor:
        _, grad = pyrite.value_and_grad(lambda w: scored(x * 0.1, w) + scored(x, w))(weight)
        return weight - 1e-3 * grad

    for _ in range(12):
        for x, its in zip(batches[:3], theirs, strict=False):
            weight, of_theirs = train(weight, x), train(of_theirs, its)
            np.testing.assert_array_equal(weight.numpy(), of_theirs.numpy())
        assert evaluate(batches, weight) == evaluate(theirs, of_theirs)


def test_rounds_of_little_run_as_their_ops(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.backend.root, "round_bytes", 1 << 20)
    batches, weight = [some(device, 4, 5) for _ in range(ROUNDS)], some(device, 5, 5)
    counts = counts_of(device)
    for _ in range(12):
        evaluate(batches, weight)
    assert (counts.program_runs, counts.compiled, len(counts.rounds)) == (0, 0, 0)
