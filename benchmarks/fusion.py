"""Steps of training with Fusion, and compiled, beside the same device without: time and kernels.

An MLP (784-512-256-10, batch 128), a CNN (1x28x28, batch 64, 8/16/24 channels with batch norm and
GELU) and a GPT (4 layers of 128, 4 heads, 128 long, batch 8), each with Adam.  They take turns of
some steps, as in a training the same ones follow each other; the loss is read each step.
"host" is what the caller's thread spends until the step returns.  Times are processor seconds of
this process by default, which hold on a busy machine too; ``--clock wall`` is for a quiet one.
Beside them: how many kernels a step launches, and what the first steps took; and a GELU of a user's
own, with an addition of as many elements for its limit.

    python benchmarks/fusion.py [mlp cnn gpt gelu record] [--rounds 20] [--clock wall]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube.recording import Recording
from pyrite.backend.device import Device, DeviceLike
from pyrite.backend.fusion import Fusion
from pyrite.optim import Adam
from pyrite.types import Array

#: Steps of a turn that are timed, and steps before these.
TURN, WARM = 10, 5
#: The rate at which Adam learns.
RATE = 1e-3

Step = Callable[[], float]
Training = Callable[[], Tensor]


class Gpt(nn.Module):
    """A small transformer over bytes."""

    def __init__(self) -> None:
        self.token, self.place = nn.Embedding(256, 128), nn.Embedding(128, 128)
        self.blocks = [nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0) for _ in range(4)]
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 256, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each next byte."""
        places = pyrite.arange(x.shape[1], device=x.device)
        h = self.token(x) + self.place(places)
        for block in self.blocks:
            h = block(h, is_causal=True)
        return self.head(self.norm(h)).reshape((-1, 256))


def mlp() -> nn.Module:
    """Return the MLP."""
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def cnn() -> nn.Module:
    """Return the CNN."""
    layers: list[Any] = []
    for before, after in ((1, 8), (8, 16), (16, 24)):
        layers += [nn.Conv2d(before, after, 3), nn.BatchNorm2d(after), nn.GELU()]
    dense = [nn.Flatten(), nn.Linear(24 * 22 * 22, 32), nn.GELU(), nn.Linear(32, 10)]
    return nn.Sequential(*layers, *dense)


def training(name: str, device: Device, *, is_compiled: bool = False) -> Training:
    """Return a step of a network that returns its loss."""
    random = np.random.default_rng(0)
    x: Array
    with pyrite.random_stream(0):
        if name == "mlp":
            model, x = mlp(), random.standard_normal((128, 784), dtype=np.float32)
            y = random.integers(0, 10, 128)
        elif name == "cnn":
            model, x = cnn(), random.standard_normal((64, 1, 28, 28), dtype=np.float32)
            y = random.integers(0, 10, 64)
        else:
            model, x = Gpt(), random.integers(0, 256, (8, 128)).astype(np.int32)
            y = random.integers(0, 256, 1024)
    return step_of(model, x, y, device, is_compiled=is_compiled)


def step_of(
    model: nn.Module, x: Array, y: Array, device: DeviceLike, *, is_compiled: bool
) -> Training:
    """Return a step of Adam on the cross-entropy of a model's scores, written as anyone would.

    It returns the loss, which may not be computed yet.
    """
    model = model.to(device)
    inputs, labels = (pyrite.tensor(v, device=device) for v in (x, y))
    optimizer = Adam(RATE)
    gradients = pyrite.value_and_grad(lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1))

    def train(model: nn.Module, x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
        loss, grads = gradients(model, x, y)
        return optimizer.step(model, grads), loss

    whole = pyrite.compile(train) if is_compiled else train

    def step() -> Tensor:
        nonlocal model
        model, loss = whole(model, inputs, labels)
        return loss

    return step


class Launches:
    """Counts the kernels that recordings start."""

    def __init__(self) -> None:
        self.count = 0
        prepare = Recording.prepare

        def counted(recording: Recording, *given: Any) -> Any:
            self.count += len(recording.steps)
            return prepare(recording, *given)

        Recording.prepare = counted  # type: ignore[method-assign, assignment]

    def of(self, step: Step) -> int:
        """Return how many kernels a step starts."""
        before = self.count
        step()
        return self.count - before


def compare(name: str, devices: dict[str, Device], rounds: int, clock: Step) -> None:
    """Print what a step takes on each device."""
    launches = Launches()
    trained = {which: training(name, device) for which, device in devices.items()}
    trained["compiled"] = training(name, devices["fused"], is_compiled=True)
    hosts: dict[str, list[float]] = {which: [] for which in trained}

    def read(which: str) -> Step:
        def step() -> float:
            start = time.thread_time()
            loss = trained[which]()
            hosts[which].append(time.thread_time() - start)
            return float(loss.item())

        return step

    steps = {which: read(which) for which in trained}
    first = {which: [_seconds(step, clock) for _ in range(5)] for which, step in steps.items()}
    times: dict[str, list[float]] = {which: [] for which in steps}
    for _ in range(-(-rounds // TURN)):
        for which, step in steps.items():
            for _ in range(WARM):
                step()
            times[which] += [_seconds(step, clock) for _ in range(TURN)]
    for which, step in steps.items():
        begin = ", ".join(f"{t:.2f}" for t in first[which])
        print(
            f"{name:4} {which:8} {statistics.median(times[which]) * 1e3:8.2f} ms "
            f"host {statistics.median(hosts[which][-rounds:]) * 1e3:6.3f} ms "
            f"{launches.of(step):4} kernels   first steps {begin} s"
        )
    for which in ("fused", "compiled"):
        ratios = [f / p for f, p in zip(times[which], times["plain"], strict=True)]
        print(f"{name:4} {which} / plain {statistics.median(ratios):.3f}")


def gelu(devices: dict[str, Device], rounds: int, clock: Step) -> None:
    """Print what a GELU by its formula takes beside a copy."""
    for count in (1 << 16, 1 << 24):
        line = [f"gelu of {count >> 10} Ki"]
        for which, device in devices.items():
            x = pyrite.tensor(np.ones(count, np.float32), device=device)

            def run(x: Tensor = x, device: Device = device) -> float:
                y = 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())
                device.synchronize()
                return float(y.ndim)

            def copy(x: Tensor = x, device: Device = device) -> float:
                y = x + 0.0
                device.synchronize()
                return float(y.ndim)

            pairs = [(_seconds(run, clock), _seconds(copy, clock)) for _ in range(rounds)]
            made, copied = (statistics.median(t) for t in zip(*pairs, strict=True))
            line.append(f"{which} {made * 1e6:.0f} µs, {made / copied:.2f} of an addition")
        print("   ".join(line))


def record(devices: dict[str, Device], rounds: int, clock: Step) -> None:
    """Print what a call takes until it returns."""
    for which, device in devices.items():
        x = pyrite.tensor(np.ones((4, 4), np.float32), device=device)

        def chain(x: Tensor = x) -> float:
            y = x
            for _ in range(400):
                y = y + x
            return float(y.ndim)

        times = []
        for _ in range(rounds):
            times.append(_seconds(chain, clock) / 400)
            device.synchronize()
        print(f"a call of x + y, {which}: {min(times) * 1e6:.2f} µs")


def _seconds(step: Step, clock: Step) -> float:
    start = clock()
    step()
    return clock() - start


def main() -> None:
    """Print all, or what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", choices=["mlp", "cnn", "gpt", "gelu", "record", []])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clock", choices=["process", "wall"], default="process")
    given = parser.parse_args()
    clock = time.process_time if given.clock == "process" else time.perf_counter
    plain = pyrite.device(given.device).backend.root
    devices = {"plain": Device(plain), "fused": Device(Fusion(plain))}
    for name in given.only or ["record", "gelu", "mlp", "cnn", "gpt"]:
        if name == "record":
            record(devices, given.rounds, clock)
        elif name == "gelu":
            gelu(devices, given.rounds, clock)
        else:
            compare(name, devices, given.rounds, clock)


if __name__ == "__main__":
    main()
