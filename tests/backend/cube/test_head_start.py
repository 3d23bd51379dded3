"""Launches that are made before all calls are known: nobody sees them, whatever comes next."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube import head_start, native_run
from pyrite.backend.cube.head_start import HeadStart, StartedRun
from pyrite.backend.cube.native_run import NativeRun
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.errors import IndexRangeError

pytestmark = pytest.mark.skipif(config.guard is not None, reason="guarded memory has no early runs")
RNG = np.random.default_rng(5)


@pytest.fixture
def device() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


@pytest.fixture(autouse=True, params=["native", "python"])
def _small_programs_have_one(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if request.param == "python":
        monkeypatch.setattr(native_run, "_code", [])
    monkeypatch.setattr(head_start, "LEAST_WORK", 0)
    monkeypatch.setattr(head_start, "OF_A_CALL", 0)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many runs were begun early, and how many of them were finished."""
    found = {"begun": 0, "finished": 0}
    finish, run_again = StartedRun.finish, NativeRun.run

    def begins(run: Any) -> Any:
        def begun(*given: Any) -> Any:
            started = run(*given)
            found["begun"] += started is not None
            return started

        return begun

    def finished(*given: Any) -> Any:
        results = finish(*given)
        found["finished"] += results is not None
        return results

    def finished_natively(*given: Any) -> Any:
        results = run_again(*given)
        found["finished"] += given[-1] is not None and results is not None
        return results

    monkeypatch.setattr(NativeRun, "run", finished_natively)
    monkeypatch.setattr(HeadStart, "run", begins(HeadStart.run))
    monkeypatch.setattr(HeadStart, "run_known", begins(HeadStart.run_known))
    monkeypatch.setattr(StartedRun, "finish", finished)
    return found


def tensors(device: Device) -> tuple[Tensor, Tensor]:
    x, w = RNG.standard_normal((33, 20), np.float32), RNG.standard_normal((20, 7), np.float32)
    return pyrite.tensor(x, device=device), pyrite.tensor(w, device=device)


def step(x: Tensor, w: Tensor, number: float, other: Tensor | None = None) -> Tensor:
    """Some launches in a row; the number, and the other tensor, come late."""
    y = (x @ w).softmax(-1)
    z = (y.mT @ x).tanh() * number
    return (z.sum(1) if other is None else (z + other).sum(1)) + 1


def alone(*given: Any) -> np.ndarray:
    plain = Device(pyrite.device("cpu").backend.root)
    moved = [pyrite.tensor(x.numpy(), device=plain) if isinstance(x, Tensor) else x for x in given]
    return step(*moved).numpy()


def test_numbers_and_tensors_that_come_later_are_those_of_this_run(
    device: Device, counts: dict[str, int]
) -> None:
    x, w = tensors(device)
    for n in range(10):
        other = pyrite.tensor(RNG.standard_normal((7, 20), np.float32), device=device)
        given = x * 1.0 if n % 2 else x
        given.numpy()
        found = step(given, w, n + 0.5, other).numpy()
        np.testing.assert_array_equal(found, alone(given, w, n + 0.5, other))
    assert counts["begun"] == counts["finished"] > 4


def test_calls_that_go_on_otherwise_give_what_they_give(
    device: Device, counts: dict[str, int]
) -> None:
    x, w = tensors(device)
    for n in range(40):
        np.testing.assert_array_equal(step(x, w, n).numpy(), alone(x, w, n))
        if n % 8 == 7:
            # A read in the midst of it, and another op at its end.
            y = (x @ w).softmax(-1)
            np.testing.assert_allclose(y.sum(0).numpy(), y.numpy().sum(0), rtol=1e-5)
    assert counts["finished"] > 20
    assert counts["begun"] - counts["finished"] <= 4, "it begins behind where they part"


def test_another_layout_and_other_results_that_are_held(
    device: Device, counts: dict[str, int]
) -> None:
    x, w = tensors(device)
    for _ in range(5):
        step(x, w, 2.0).numpy()
    turned = pyrite.tensor(np.ascontiguousarray(x.numpy().T), device=device).mT
    turned.numpy()
    np.testing.assert_array_equal(step(turned, w, 3.0).numpy(), alone(x, w, 3.0))
    y = (x @ w).softmax(-1)
    z = (y.mT @ x).tanh() * 5.0
    found = z.sum(1) + 1
    np.testing.assert_array_equal(found.numpy(), alone(x, w, 5.0))
    assert y.numpy().shape == (33, 7)
    assert z.numpy().shape == (7, 20)


def test_an_index_outside_names_its_line_before_and_behind(
    device: Device, counts: dict[str, int]
) -> None:
    x, w = tensors(device)
    lines: set[str | None] = set()

    def looked_up(first: Tensor, last: Tensor) -> Tensor:
        y = x.take(first, 0) @ w
        z = (y.softmax(-1).mT @ x).tanh()
        return z.take(last, 0).sum(1) * 2

    right = pyrite.tensor([0] * 33, device=device)
    wrong = pyrite.tensor([40] + [0] * 32, device=device)
    for n in range(12):
        first, last = (wrong, right) if n == 9 else (right, wrong if n == 10 else right)
        found = looked_up(first, last)
        if n in (9, 10):
            with pytest.raises(IndexRangeError) as raised:
                found.numpy()
            lines.add(raised.value.location)
        else:
            assert np.isfinite(found.numpy()).all()
    device.synchronize()
    first_line = looked_up.__code__.co_firstlineno
    assert lines == {f"{__file__}:{first_line + n}" for n in (1, 3)}
    assert counts["finished"] > 4


def test_explain_and_a_budget_see_the_whole(device: Device, counts: dict[str, int]) -> None:
    x, w = tensors(device)
    for _ in range(6):
        step(x, w, 2.0).numpy()
    finished = counts["finished"]
    assert finished > 0
    with pyrite.explain() as explained:
        found = step(x, w, 3.0).numpy()
    np.testing.assert_array_equal(found, alone(x, w, 3.0))
    assert (explained.plans, explained.hits) == (0, 1)
    with pyrite.memory_budget("64 MiB"):
        found = step(x, w, 4.0).numpy()
    np.testing.assert_array_equal(found, alone(x, w, 4.0))
    assert counts["finished"] == finished
    # Begun before the block, and read in it.
    y = step(x, w, 5.0)
    with pyrite.memory_budget("64 MiB"):
        found = y.numpy()
    np.testing.assert_array_equal(found, alone(x, w, 5.0))


def test_what_was_begun_and_is_not_wanted_gives_its_memory_back(device: Device) -> None:
    x, w = tensors(device)
    for _ in range(6):
        step(x, w, 2.0).numpy()
    # What other tests left in cycles counts too.
    gc.collect()
    before = pyrite.memory_report(device).devices[0].live
    y = step(x, w, 2.0)
    del y
    device.synchronize()
    assert pyrite.memory_report(device).devices[0].live == before


def test_another_thread_may_finish_it(device: Device, counts: dict[str, int]) -> None:
    x, w = tensors(device)
    for _ in range(6):
        step(x, w, 2.0).numpy()
    y = step(x, w, 7.0)
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(y.numpy()))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], alone(x, w, 7.0))


@pytest.mark.parametrize("after", [0, 2])
def test_a_training_has_the_bits_of_its_ops(after: int, counts: dict[str, int]) -> None:
    root = pyrite.device("cpu").backend.root

    def losses(device: Device) -> list[float]:
        pyrite.seed(0)
        with pyrite.random_stream(0):
            layers = nn.Linear(12, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Dropout(0.1)
            model = nn.Sequential(*layers, nn.Linear(24, 5)).to(device)
        optimizer = pyrite.optim.Adam(lambda step: 1e-2 / (1 + step))
        train = pyrite.value_and_grad(lambda m, x, y: nn.CrossEntropyLoss()(m(x), y))
        random, found = np.random.default_rng(0), []
        for n in range(16):
            x = pyrite.tensor(random.standard_normal((16, 12), np.float32), device=device)
            y = pyrite.tensor(random.integers(0, 5, 16), device=device)
            loss, gradients = train(model, x, y)
            model = optimizer.step(model, gradients)
            found.append(float(loss.item()))
            if n % 5 == 4:
                found.append(float(model(x).sum().item()))
        return found

    assert losses(Device(Fusion(root, after=after))) == losses(Device(root))
    assert counts["finished"] > 2


@pytest.fixture(autouse=True)
def _nothing_is_left(device: Device) -> Iterator[None]:
    yield
    device.synchronize()
