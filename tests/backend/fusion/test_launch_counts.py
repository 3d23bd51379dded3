"""How many kernels the program of a training step has: what it may not exceed."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime

RNG = np.random.default_rng(1)
STEP_OF = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "fusion.py"))["step_of"]


class Language(nn.Module):
    """A transformer of some layers."""

    def __init__(self, layers: int, width: int, heads: int, length: int, words: int) -> None:
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = [
            nn.TransformerEncoderLayer(width, heads, (2 if width < 64 else 4) * width, dropout=0.0)
            for _ in range(layers)
        ]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.token(x) + self.place(pyrite.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h, is_causal=True)
        scores = self.head(self.norm(h))
        return scores.reshape((-1, scores.shape[-1]))


def perceptron(*sizes: int) -> nn.Module:
    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutions(*channels: int) -> list[Any]:
    layers: list[Any] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3), nn.BatchNorm2d(after), nn.GELU()]
    return [*layers, nn.Flatten()]


def images() -> nn.Module:
    return nn.Sequential(*convolutions(1, 4, 6), nn.Linear(6 * 4 * 4, 5))


def digits() -> nn.Module:
    last = nn.Linear(24 * 22 * 22, 32), nn.GELU(), nn.Linear(32, 10)
    return nn.Sequential(*convolutions(1, 8, 16, 24), *last)


class Case(NamedTuple):
    """A network, the shape of what it takes, its labels and classes, and the most kernels."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    labels: int
    classes: int
    most: int


#: The most kernels of a step on a processor.  Updates of weights are in the kernels of their
#: gradients, where these are products; one for thirteen of the other parameters is the optimiser's.
#: Of images one more joins the parts of a weight's gradient, where convolutions of other sizes came
#: first.
SMALL = {
    "mlp": Case(lambda: perceptron(20, 16, 12, 5), (9, 20), 9, 5, 13),
    "cnn": Case(images, (7, 1, 8, 8), 7, 5, 22),
    "gpt": Case(lambda: Language(2, 16, 2, 12, 20), (3, 12), 36, 20, 78),
}
#: The networks of `benchmarks/fusion.py`; some processors with AVX-512 join one more sum.
LARGE = {
    "mlp": Case(lambda: perceptron(784, 512, 256, 10), (128, 784), 128, 10, 14),
    "cnn": Case(digits, (64, 1, 28, 28), 64, 10, 33),
    "gpt": Case(lambda: Language(4, 128, 4, 128, 256), (8, 128), 1024, 256, 149),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_step_of_training_has_no_more_kernels(name: str) -> None:
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    for is_compiled in (False, True):
        _require_few(SMALL[name], device, is_compiled=is_compiled)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LARGE)
def test_a_compiled_step_of_a_network_of_the_benchmark_has_no_more_kernels(name: str) -> None:
    """With two threads: more of them share a long fold, whose states are joined by one more."""
    runtime = pytest.importorskip("pyrite.runtime.cpu.runtime").CpuRuntime(threads=2)
    _require_few(LARGE[name], Device(Fusion(CubeBackend(runtime))), is_compiled=True)


def test_updates_on_a_gpu_are_in_the_kernels_of_their_gradients() -> None:
    """But for those of embeddings, which are one launch."""
    machine = Machine.gpu(workgroups=8, buffers=32)
    device = Device(Fusion(CubeBackend(InterpreterRuntime(machine))))
    case = Case(lambda: Language(1, 8, 2, 3, 7), (2, 3), 6, 7, 60)
    names = _require_few(case, device, is_compiled=True)
    assert names.count("adam_update") == 1, names


def _require_few(case: Case, device: Device, *, is_compiled: bool) -> list[str]:
    """Return the names of the kernels of a step, which are few."""
    step = training(case, device, is_compiled=is_compiled)
    for _ in range(3):
        step().item()
    with pyrite.explain() as found:
        step().item()
        device.synchronize()
    names = [x.kernel.name for x in found.launched]
    assert 5 < len(found.launched) <= case.most, names
    recorded = device.backend.recorded  # type: ignore[attr-defined]
    before = recorded.compiled
    step().item()
    assert recorded.compiled == before
    return names


def training(case: Case, device: Device, *, is_compiled: bool) -> Callable[[], Tensor]:
    """Return a step that returns its loss."""
    x = (
        RNG.standard_normal(case.shape, dtype=np.float32) if case.labels == case.shape[0]
        else RNG.integers(0, case.classes, case.shape).astype(np.int32)
    )  # fmt: skip
    y = RNG.integers(0, case.classes, case.labels)
    step: Callable[[], Tensor] = STEP_OF(case.make(), x, y, device, is_compiled=is_compiled)
    return step


def test_what_is_made_of_sums_that_share_nothing_is_one_kernel() -> None:
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    pairs = [
        [
            pyrite.tensor(RNG.standard_normal(shape, dtype=np.float32), device=device)
            for shape in ((9, n), (n,))
        ]
        for n in (5, 6, 7)
    ]
    with pyrite.explain() as found:
        kept = [p - 0.1 * x.sum(axis=0) for x, p in pairs]
        device.synchronize()
    names = [x.kernel.name for x in found.launched]
    assert sum("subtract" in name for name in names) == 1, names
    assert len(names) <= 4, names
    for (x, p), got in zip(pairs, kept, strict=True):
        want = p.numpy() - np.float32(0.1) * x.numpy().sum(axis=0)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
