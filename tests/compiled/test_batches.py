"""Compiled steps at batch sizes that come once, or again: with the bits of the step as written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube import ahead as ahead_module
from pyrite.backend.device import Device, device_problem
from pyrite.backend.fusion import Fusion, history, new_program
from pyrite.compiled import function
from pyrite.config import config
from pyrite.tensor.stream import random_stream

#: One, sizes around those of vectors, primes, and what fills tiles.
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 48, 61, 64, 97)
STEPS = 32

Model = nn.Module
Step = Callable[[Model, Tensor, Tensor], tuple[Model, Tensor]]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread compile what is new, as it does outside of tests."""
    monkeypatch.setattr(config, "ahead", True)


def device_of(name: str) -> Device:
    """Return a device of its own, whose programs are new."""
    return pyrite.fusion(name, after=2)


def require(name: str) -> None:
    """Skip a test of a device that does not work here."""
    problem = device_problem(name)
    if problem is not None:
        pytest.skip(problem)


def cube_of(device: Device) -> CubeBackend:
    assert isinstance(device.backend, Fusion)
    assert isinstance(device.backend.inner, CubeBackend)
    return device.backend.inner


def mlp() -> Model:
    return nn.Sequential(nn.Linear(36, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 5))


def cnn() -> Model:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 5),
    )  # fmt: skip


def lstm() -> Model:
    class Last(nn.Module):
        def __init__(self) -> None:
            self.lstm = nn.LSTM(6, 8)
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][:, -1])

    return Last()


SHAPES: dict[Any, tuple[int, ...]] = {mlp: (36,), cnn: (1, 6, 6), lstm: (6, 6)}


def step_of(optimizer: Any) -> Step:
    gradients = pyrite.value_and_grad(
        lambda model, x, y: model(x).cross_entropy_with_logits(y, axis=-1)
    )

    def step(model: Model, x: Tensor, y: Tensor) -> tuple[Model, Tensor]:
        loss, grads = gradients(model, x, y)
        return optimizer.step(model, grads), loss

    return step


def drawn(rng: random.Random, steps: int) -> Iterator[tuple[int, bool]]:
    """Give batch sizes, some of which come often, and whether all is compiled before the next."""
    often = rng.sample(SIZES, 3)
    for _ in range(steps):
        yield rng.choice(often if rng.random() < 0.7 else SIZES), rng.random() < 0.2


class Trained:
    """A model in training on a device, by a step."""

    def __init__(self, make: Callable[[], Model], device: Device, *, is_compiled: bool) -> None:
        with random_stream(3):
            self.model = make().to(device)
        self.device = device
        step = step_of(optim.Adam(1e-3))
        self.step: Any = pyrite.compile(step) if is_compiled else step

    def train(self, x: Any, y: Any, seed: int) -> float:
        with random_stream(seed):
            self.model, loss = self.step(
                self.model,
                pyrite.tensor(x, device=self.device),
                pyrite.tensor(y, device=self.device),
            )
        return float(loss.item())

    @property
    def values(self) -> list[Any]:
        return [t.numpy() for _, t in self.model.named_parameters()]


def run(
    make: Callable[[], Model], name: str, rng: random.Random, steps: int = STEPS
) -> tuple[int, CubeBackend, list[Any]]:
    """Train a compiled step, one as written, and one of NumPy's; return replays, and what came.

    That is the losses of each step, with its batch size, and then the parameters.
    """
    device = device_of(name)
    ours = Trained(make, device, is_compiled=True)
    plain = Trained(make, device_of(name), is_compiled=False)
    judge = Trained(make, pyrite.device("numpy"), is_compiled=False)
    numbers = np.random.default_rng(rng.getrandbits(32))
    found: list[Any] = []
    for n, (batch, is_awaited) in enumerate(drawn(rng, steps)):
        x = numbers.standard_normal((batch, *SHAPES[make])).astype(np.float32)
        y = numbers.integers(0, 5, batch).astype(np.int32)
        found.append((batch, *[t.train(x, y, n) for t in (ours, plain, judge)]))
        if is_awaited:
            cube_of(device).launcher.ahead.finish()
    found.append((0, ours.values, plain.values, judge.values))
    return ours.step.replays, cube_of(device), found


@pytest.mark.usefixtures("ahead")
@pytest.mark.filterwarnings("ignore:.*has 8 kinds of calls")
@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
def test_steps_at_drawn_batch_sizes_have_the_bits_of_steps_as_written(
    make: Any, rng: random.Random
) -> None:
    replays, cube, found = run(make, "cpu", rng)

    cube.launcher.ahead.finish()
    assert replays >= STEPS // 4
    for batch, ours, plain, judge in found[:-1]:
        assert ours == plain, batch
        np.testing.assert_allclose(ours, judge, rtol=5e-4)
    _, *values = found[-1]
    for ours, plain, judge in zip(*values, strict=True):
        np.testing.assert_array_equal(ours, plain)
        np.testing.assert_allclose(ours, judge, rtol=1e-2, atol=5e-4)


@pytest.mark.filterwarnings("ignore:.*has 8 kinds of calls")
def test_on_a_gpu_steps_at_drawn_batch_sizes_are_those_as_written(rng: random.Random) -> None:
    require("wgpu")
    _, _, found = run(cnn, "wgpu", rng, steps=12)

    for _, ours, plain, judge in found[:-1]:
        np.testing.assert_allclose(ours, plain, rtol=2e-5)
        np.testing.assert_allclose(ours, judge, rtol=5e-4)


@pytest.mark.usefixtures("ahead")
def test_a_step_at_a_batch_size_that_comes_once_waits_for_no_program() -> None:
    device = device_of("cpu")
    trained = Trained(mlp, device, is_compiled=True)
    fusion = device.backend
    assert isinstance(fusion, Fusion)

    def train(batch: int) -> None:
        trained.train(np.ones((batch, 36), np.float32), np.zeros(batch, np.int32), batch)

    # Sizes that no other test has: a device of the same options is the same one.
    for _ in range(4):
        train(40)
    compiled, ahead = fusion.recorded.compiled, cube_of(device).launcher.ahead
    for batch in (6, 10, 14):
        train(batch)
    assert fusion.recorded.compiled == compiled
    for _ in range(4):
        train(10)
    ahead.finish()
    assert fusion.recorded.compiled == compiled + 1
    runs = fusion.recorded.op_runs
    train(10)
    assert fusion.recorded.op_runs == runs


@pytest.mark.usefixtures("ahead")
@pytest.mark.filterwarnings("ignore:.*has 8 kinds of calls")
@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_gradients_at_further_batch_sizes_have_the_bits_of_their_ops(
    name: str, make: Any, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(name)
    if name == "wgpu":
        # What is compiled ahead for sizes that may come takes long without a GPU.
        monkeypatch.setattr(ahead_module, "PAUSE", 1e6)
    device = device_of(name)
    assert isinstance(device.backend, Fusion)
    below = Device(device.backend.inner)
    with random_stream(3):
        model = make()
    ours, theirs = model.to(device), model.to(below)
    value_and_grad = pyrite.value_and_grad(
        lambda model, x, y: model(x).cross_entropy_with_logits(y, axis=-1)
    )

    def gradients(model: Model, x: Tensor, y: Tensor) -> list[Tensor]:
        loss, grads = value_and_grad(model, x, y)
        return [loss, *grads.named(model).values()]

    compiled, numbers = pyrite.compile(gradients), np.random.default_rng(rng.getrandbits(32))

    def bits(function: Any, model: Model, where: Device, x: Any, y: Any) -> list[bytes]:
        with random_stream(5):
            given = [pyrite.tensor(v, device=where) for v in (x, y)]
            return [t.numpy().tobytes() for t in function(model, *given)]

    known, *others = rng.sample(SIZES, 5 if name == "cpu" else 3)
    before = 0
    for batch in (known, *others):
        x = numbers.standard_normal((batch, *SHAPES[make])).astype(np.float32)
        y = numbers.integers(0, 5, batch).astype(np.int32)
        plain = bits(gradients, theirs, below, x, y)
        for _ in range(4):
            found = bits(compiled, ours, device, x, y)
            assert batch == known or found == plain, batch
        if batch == known:
            before = device.backend.recorded.op_runs
    assert device.backend.recorded.op_runs > before
    if name == "cpu":
        cube_of(device).launcher.ahead.finish()


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("is_compiled", [True, False])
def test_on_a_gpu_no_bit_depends_on_when_the_program_of_a_batch_size_is_compiled(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    require("wgpu")
    monkeypatch.setattr(new_program, "RUNS_AS_OPS", 5)
    monkeypatch.setattr(history, "SELDOM", 3)
    inputs = np.random.default_rng(rng.getrandbits(32))
    data = [
        (inputs.standard_normal((n, 1, 6, 6)).astype(np.float32), np.zeros(n, np.int32))
        for n in (32, 21, 12)
    ]
    cube = cube_of(device_of("wgpu"))
    # A pause that never comes: what is asked for has not begun at the run that is due.
    monkeypatch.setattr(ahead_module, "PAUSE", 1e6)
    later = cube.compile_later
    found: list[Any] = []
    # The first of a process differs, as walks of gradients are noted then.
    for compile_later in (later, later, lambda job: job()):
        fusion = Fusion(cube, after=2)
        monkeypatch.setattr(cube, "compile_later", compile_later)
        trained = Trained(cnn, Device(fusion), is_compiled=is_compiled)
        losses, programs = [], []
        for n in range(32):
            losses.append(trained.train(*data[0 if n < 8 else 1 + n % 2], n))
            programs.append(fusion.recorded.program_runs - fusion.recorded.op_runs)
        assert fusion.recorded.compiled_ahead >= 2
        # Some steps at other sizes are ops, and the last ones a program.
        runs = np.diff(programs)
        assert (runs[8:] == 0).any()
        assert runs[-4:].all()
        found.append((losses, programs))
    assert found[1] == found[2]


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
def test_epochs_with_a_last_batch_and_an_evaluation_have_the_bits_of_calls_as_written(
    make: Any,
) -> None:
    device = device_of("cpu")
    numbers = np.random.default_rng(7)
    x = numbers.standard_normal((52, *SHAPES[make])).astype(np.float32)
    y = numbers.integers(0, 5, 52).astype(np.int32)

    def evaluate(model: Model, x: Tensor) -> Tensor:
        return model(x)

    found = []
    for is_compiled in (True, False):
        trained = Trained(make, device, is_compiled=is_compiled)
        evaluated: Any = pyrite.compile(evaluate) if is_compiled else evaluate
        bits = []
        for epoch in range(4):
            # Batches of 12 and a last one of 4; then an evaluation by 20 and a last one of 12.
            for n in range(0, 52, 12):
                bits.append(trained.train(x[n : n + 12], y[n : n + 12], 100 * epoch + n))
            for n in range(0, 52, 20):
                scores = evaluated(trained.model, pyrite.tensor(x[n : n + 20], device=device))
                bits.append(scores.numpy().tobytes())
        found.append(bits)
        if is_compiled:
            # Of 16 whole batches the first runs as it is, two are captured; of 4 last ones too.
            # Where caches are full of other tests' plans, a gradient is walked by other ops when
            # the 4th or 8th replay is captured again: then one call more is captured.
            most = 16 - 3 + 4 - 3
            assert most - 2 <= trained.step.replays <= most
    cube_of(device).launcher.ahead.finish()
    assert found[0] == found[1]


@pytest.mark.usefixtures("ahead")
@pytest.mark.filterwarnings("ignore:.*has 8 kinds of calls")
def test_lengths_that_grow_are_calls_as_written_and_few_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function, "MOST_KEPT", 6)
    device = device_of("cpu")
    assert isinstance(device.backend, Fusion)
    with random_stream(3):
        model = nn.TransformerEncoder(8, 2, 16, 1).to(device)
    compiled = pyrite.compile(lambda model, x: model(x, is_causal=True))
    words = np.random.default_rng(3).standard_normal((1, 16, 8)).astype(np.float32)

    def call(length: int) -> bytes:
        x = pyrite.tensor(words[:, :length], device=device)
        return compiled(model, x).numpy().tobytes()

    for _ in range(5):
        call(9)
    known = compiled.replays
    assert known > 0
    runs = device.backend.recorded.program_runs
    grown = [call(n) for n in range(1, 17) if n != 9]
    plain = Device(device.backend.inner)
    there = model.to(plain)
    for length, bits in zip([n for n in range(1, 17) if n != 9], grown, strict=True):
        x = pyrite.tensor(words[:, :length], device=plain)
        assert there(x, is_causal=True).numpy().tobytes() == bits, length
    # The kind that is a program is known still.
    call(9)
    assert compiled.replays == known + 1
    assert device.backend.recorded.program_runs == runs + 1


@pytest.mark.usefixtures("ahead")
def test_with_a_budget_a_step_at_another_batch_size_is_compiled_at_once() -> None:
    device = device_of("cpu")
    ours, plain = (Trained(mlp, device, is_compiled=c) for c in (True, False))
    assert isinstance(device.backend, Fusion)

    def losses(batch: int) -> list[float]:
        x, y = np.ones((batch, 36), np.float32), np.zeros(batch, np.int32)
        return [t.train(x, y, batch) for t in (ours, plain)]

    for _ in range(4):
        losses(42)
    before = device.backend.recorded.compiled
    with pyrite.memory_budget("1 GiB"):
        mine, other = losses(18)
    assert mine == other
    assert device.backend.recorded.compiled > before
    for _ in range(4):
        mine, other = losses(18)
        assert mine == other


def test_each_capture_of_a_step_makes_the_same_calls() -> None:
    device = device_of("cpu")
    trained, fusion = Trained(cnn, device, is_compiled=True), device.backend
    assert isinstance(fusion, Fusion)
    counts = []
    for n in range(7):
        trained.train(np.ones((6, 1, 6, 6), np.float32), np.zeros(6, np.int32), n)
        counts.append(fusion.recorded.compiled)

    assert trained.step.replays == 4
    # One program for two captures, the replays, and the one that is captured again.
    assert counts[1:] == [counts[1]] * 6
