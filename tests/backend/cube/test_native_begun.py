"""A program that writes over inputs does by machine code what it does by Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube import native_run
from pyrite.backend.cube.native_begun import NativeBegin, NativeBegun
from pyrite.backend.cube.native_run import NativeLaunches
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.errors import IndexRangeError

pytestmark = pytest.mark.skipif(config.guard is not None, reason="guarded memory has no such runs")


@pytest.fixture
def device() -> Device:
    made = Device(Fusion(pyrite.device("cpu").backend.root))
    if not native_run._code:
        pytest.skip("objects are not to be read here")
    return made


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run was begun by machine code that was asked for it."""
    found: list[bool] = []
    begin = NativeBegin.begin

    def noted(*given: Any) -> Any:
        begun = begin(*given)
        found.append(begun is not None)
        return begun

    monkeypatch.setattr(NativeBegin, "begin", noted)
    return found


class Training:
    """Steps of a small network, compiled, on numbers that are the same each time."""

    def __init__(self, device: Device, *, size: int = 16) -> None:
        self.device = device
        pyrite.seed(0)
        with pyrite.random_stream(0):
            layers = nn.Embedding(11, 8), nn.Linear(8, size), nn.GELU(), nn.Linear(size, 5)
            self.model: Any = nn.Sequential(*layers).to(device)
        self.optimizer = pyrite.optim.Adam(lambda step: 1e-2 / (1 + step))
        loss_of = pyrite.value_and_grad(lambda m, x, y: nn.CrossEntropyLoss()(m(x), y))

        def train(model: Any, x: Tensor, y: Tensor) -> tuple[Any, Tensor]:
            loss, gradients = loss_of(model, x, y)
            return self.optimizer.step(model, gradients), loss

        self._train = pyrite.compile(train)
        self._random = np.random.default_rng(0)

    def step(self, *, wrong: bool = False) -> Tensor:
        x = self._random.integers(0, 11, 16)
        y = self._random.integers(0, 5, 16)
        if wrong:
            x[3] = 40
        given = [pyrite.tensor(v, device=self.device) for v in (x, y)]
        self.model, loss = self._train(self.model, *given)
        return loss

    def parameters(self) -> list[np.ndarray]:
        return [p.numpy().copy() for p in self.model.parameters()]


def test_a_training_has_the_bits_that_python_gives(
    device: Device, runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained() -> list[Any]:
        training = Training(Device(Fusion(device.backend.root)))  # type: ignore[attr-defined]
        losses = [training.step().item() for _ in range(14)]
        return [losses, [p.tolist() for p in training.parameters()]]

    found = trained()
    assert runs.count(True) >= 4
    with monkeypatch.context() as patched:
        patched.setattr(native_run, "_code", [])
        before = len(runs)
        assert trained() == found
        assert len(runs) == before


@pytest.mark.parametrize("how", ["model", "parameter", "view", "array"])
def test_who_holds_what_is_written_over_reads_what_it_was(
    device: Device, runs: list[bool], how: str
) -> None:
    plain, training = Training(device), Training(Device(Fusion(device.backend.root)))  # type: ignore[attr-defined]
    for n in range(18):
        held: Any = None
        before = [p.numpy().copy() for p in training.model.parameters()] if n % 3 else []
        if n % 3:
            parameters = [*training.model.parameters()]
            if how == "model":
                held = training.model
            elif how == "parameter":
                held = parameters[-2]
            elif how == "view":
                held = parameters[-2].detach()[1:]
            else:
                held = np.from_dlpack(parameters[-2].detach())
            del parameters
        assert training.step().item() == plain.step().item()
        if how == "model" and held is not None:
            for one, old in zip(held.parameters(), before, strict=True):
                np.testing.assert_array_equal(one.numpy(), old)
        elif held is not None:
            old = before[-2][1:] if how == "view" else before[-2]
            found = held.numpy() if isinstance(held, Tensor) else held
            np.testing.assert_array_equal(found, old)
    for one, other in zip(training.parameters(), plain.parameters(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert runs.count(True) >= 8


def test_memory_is_what_it_was(device: Device, runs: list[bool]) -> None:
    training = Training(device, size=64)
    # The 16th replay is compared with the function, and so is the 32nd.
    for _ in range(22):
        training.step().item()

    def live() -> int:
        device.synchronize()
        return pyrite.memory_report(device).devices[0].live

    one = live()
    for _ in range(9):
        training.step().item()
        assert live() == one
    assert runs.count(True) > 12


def test_an_index_outside_is_raised(device: Device, runs: list[bool]) -> None:
    training = Training(device)
    for _ in range(10):
        training.step().item()
    loss = training.step(wrong=True)
    with pytest.raises(IndexRangeError):
        loss.numpy()
    with pytest.raises(IndexRangeError):
        training.parameters()
    assert runs[-1]


def test_an_end_that_raises_is_tried_again(
    device: Device, runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, training = Training(device), Training(Device(Fusion(device.backend.root)))  # type: ignore[attr-defined]
    for _ in range(9):
        assert training.step().item() == plain.step().item()
    loss, other = training.step(), plain.step()
    device.synchronize()

    launch = NativeLaunches.launch

    def interrupted(self: Any, found: Any, buffers: Any, words: Any, bundle: int = 0) -> None:
        if bundle:
            raise KeyboardInterrupt
        launch(self, found, buffers, words, bundle)

    with monkeypatch.context() as patched:
        patched.setattr(NativeLaunches, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loss.item()
    assert loss.item() == other.item()
    for one, expected in zip(training.parameters(), plain.parameters(), strict=True):
        np.testing.assert_array_equal(one, expected)
    assert runs[-1]
    assert NativeBegun.finish is not None


def test_explain_sees_the_whole(device: Device, runs: list[bool]) -> None:
    plain, training = Training(device), Training(Device(Fusion(device.backend.root)))  # type: ignore[attr-defined]
    for _ in range(9):
        assert training.step().item() == plain.step().item()
    before = runs.count(True)
    with pyrite.explain() as explained:
        found = training.step().item()
    assert explained.kernels
    assert runs.count(True) == before
    assert found == plain.step().item()
    assert training.step().item() == plain.step().item()
