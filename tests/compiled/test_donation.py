"""Steps that write over the model that they renew, and callers that still hold it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube.native_begun import NativeBegun
from pyrite.backend.cube.program_run import ProgramRun
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.errors import OutOfMemoryError
from pyrite.optim import SGD, Adam, Optimizer
from pyrite.types import Array

WIDTH = 96
Step = Callable[[Any, Tensor, Tensor], tuple[Any, Tensor]]


@pytest.fixture
def device() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


@pytest.fixture
def tails(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each end of a run how many inputs it wrote over."""
    found: list[int] = []
    launch, launch_natively = ProgramRun._launch_tail, NativeBegun._launch_tail

    def noted(self: ProgramRun) -> None:
        found.append(len(self._recording.donated))
        launch(self)

    def noted_natively(self: NativeBegun) -> None:
        found.append(len(self._donated))
        launch_natively(self)

    monkeypatch.setattr(ProgramRun, "_launch_tail", noted)
    monkeypatch.setattr(NativeBegun, "_launch_tail", noted_natively)
    return found


class Training:
    """A perceptron, its data and a step."""

    def __init__(self, device: Device, optimizer: Optimizer, width: int = WIDTH) -> None:
        rng = np.random.default_rng(0)
        with pyrite.random_stream(0):
            self.model: Any = nn.Sequential(
                nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                nn.Linear(width, 7),
            ).to(device)  # fmt: skip
        self.x = pyrite.tensor(rng.standard_normal((8, width), dtype=np.float32), device=device)
        self.y = pyrite.tensor(rng.integers(0, 7, 8), device=device)
        gradients = pyrite.value_and_grad(
            lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1)
        )

        def step(model: Any, x: Tensor, y: Tensor) -> tuple[Any, Tensor]:
            loss, found = gradients(model, x, y)
            return optimizer.step(model, found), loss

        self.step: Step = step

    def run(self, step: Step, keeps: Callable[[int], bool]) -> tuple[list[float], list[Any]]:
        """Return the losses of some steps, the models that were kept, and the last one."""
        losses, kept = [], []
        for n in range(12):
            if keeps(n):
                kept.append(self.model)
            self.model, loss = step(self.model, self.x, self.y)
            losses.append(loss)
        return [float(loss.item()) for loss in losses], [*kept, self.model]


def values(model: Any) -> list[Array]:
    return [p.numpy().copy() for p in model.parameters()]


#: In guarded mode nothing is written over: a touch past the end of either is to be found.
unguarded = pytest.mark.skipif(config.guard is not None, reason="guarded")

KEPT: dict[str, Callable[[int], bool]] = {
    "none": lambda n: False, "some": lambda n: n % 3 == 0, "all": lambda n: True,
}  # fmt: skip


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("rule", [Adam, lambda rate: SGD(rate, momentum=0.9)])
def test_old_models_keep_their_values_and_new_ones_have_theirs(
    device: Device, rule: Callable[[float], Optimizer], kept: str, tails: list[int]
) -> None:
    plain, compiled = (Training(device, rule(0.01)) for _ in range(2))
    losses, models = plain.run(plain.step, KEPT[kept])
    assert not tails
    found, others = compiled.run(pyrite.compile(compiled.step), KEPT[kept])
    assert found == losses
    assert config.guard is not None or sum(tails) >= 8 * 4, "steps wrote over what they renew"
    for one, other in zip(models, others, strict=True):
        for x, y in zip(values(one), values(other), strict=True):
            np.testing.assert_array_equal(x, y)


def test_arrays_of_the_application_are_not_written(device: Device) -> None:
    """Views that NumPy has of old values."""
    training = Training(device, Adam(0.01))
    step = pyrite.compile(training.step)
    views: list[tuple[Array, Array]] = []
    for _ in range(10):
        for p in training.model.parameters():
            views.append((p.numpy(), p.numpy().copy()))
        training.model, _ = step(training.model, training.x, training.y)
    for view, before in views:
        np.testing.assert_array_equal(view, before)


@unguarded
def test_a_step_holds_one_copy_of_what_it_renews(device: Device) -> None:
    width = 512
    training = Training(device, Adam(0.01), width)
    step = pyrite.compile(training.step)
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    weights = sum(p.numpy().nbytes for p in training.model.parameters())
    before = 0
    for n in range(12):
        training.model, loss = step(training.model, training.x, training.y)
        device.synchronize()
        live = runtime.memory_report().live
        if n < 3:
            before = live
            runtime._allocator._peak = live
    del loss
    # Parameters and two moments are there before; a step adds gradients, and small things.
    assert runtime.memory_report().peak - before <= 1.3 * weights


EVENTS: dict[str, Callable[[Training, Device, Tensor], object]] = {
    "op": lambda training, device, loss: training.x + 1,
    "read": lambda training, device, loss: loss.item(),
    "wait": lambda training, device, loss: device.synchronize(),
    "step": lambda training, device, loss: training.step(training.model, training.x, training.y),
}


@unguarded
@pytest.mark.parametrize("event", EVENTS)
def test_the_end_of_a_step_is_submitted_at_the_next_event(
    device: Device, event: str, tails: list[int]
) -> None:
    training = Training(device, Adam(0.01))
    step = pyrite.compile(training.step)
    for _ in range(5):
        training.model, loss = step(training.model, training.x, training.y)
    device.synchronize()
    assert step.replays
    before = len(tails)
    training.model, loss = step(training.model, training.x, training.y)
    assert len(tails) == before
    EVENTS[event](training, device, loss)
    assert len(tails) == before + 1


def test_another_thread_may_be_first_to_read(device: Device, tails: list[int]) -> None:
    training, plain = Training(device, Adam(0.01)), Training(device, Adam(0.01))
    step = pyrite.compile(training.step)
    for _ in range(7):
        training.model, _ = step(training.model, training.x, training.y)
        plain.model, _ = plain.step(plain.model, plain.x, plain.y)
    found: list[list[Array]] = []
    threads = [
        threading.Thread(target=lambda: found.append(values(training.model))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    for one in found:
        for x, y in zip(one, values(plain.model), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.fixture
def full(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether memory ends when an end of a run asks for some."""
    is_full: list[bool] = []
    own = ProgramRun._own

    def failing(self: ProgramRun, at: int, nbytes: int) -> None:
        if is_full and is_full.pop():
            raise OutOfMemoryError("cpu requires room")
        own(self, at, nbytes)

    monkeypatch.setattr(ProgramRun, "_own", failing)
    return is_full  # type: ignore[return-value]


@unguarded
@pytest.mark.parametrize("steps", [3, 7])
def test_an_end_that_failed_is_tried_again(device: Device, full: list[bool], steps: int) -> None:
    """After a captured step and after a replayed one."""
    training = Training(device, Adam(0.01))
    plain = Training(Device(Fusion(pyrite.device("cpu").backend.root)), Adam(0.01))
    step = pyrite.compile(training.step)
    for _ in range(steps):
        training.model, _ = step(training.model, training.x, training.y)
        plain.model, _ = plain.step(plain.model, plain.x, plain.y)
    full.append(True)
    with pytest.raises(OutOfMemoryError):
        device.synchronize()
    more = pyrite.tensor(np.ones(3, np.float32), device=device) * 2
    for x, y in zip(values(training.model), values(plain.model), strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(more.numpy(), np.full(3, 2, np.float32))


@unguarded
def test_a_runtime_knows_what_only_a_list_holds(device: Device) -> None:
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    shared = np.ones(1024, np.float32)
    held = [runtime.allocate(4096), runtime.allocate(4096), runtime.allocate(4096)]
    held += [runtime.adopt(shared), held[2].view(0, 64)]
    view = held[1].lease()
    assert [runtime.is_last_holder(held, n) for n in range(5)] == [True, False, False, False, False]
    del view
    held.pop()
    assert [runtime.is_last_holder(held, n) for n in range(4)] == [True, True, True, False]
    held.append(held[0])
    assert not runtime.is_last_holder(held, 0)
