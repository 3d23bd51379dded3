"""How many kernels the program of a training step has: what it may not exceed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion

RNG = np.random.default_rng(1)


class Language(nn.Module):
    """Two layers of a transformer."""

    def __init__(self) -> None:
        self.token, self.place = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.blocks = [nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0) for _ in range(2)]
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 20, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.token(x) + self.place(pyrite.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h, is_causal=True)
        return self.head(self.norm(h)).reshape((-1, 20))


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5)
    )


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6),
        nn.GELU(), nn.Flatten(), nn.Linear(6 * 4 * 4, 5),
    )  # fmt: skip


#: Networks, shapes of what they take, and the most kernels of a step on a processor.  Updates of
#: weights are in the kernels of their gradients, where these are products; one for thirteen of the
#: other parameters is the optimiser's.  Of images one more joins the parts of a weight's gradient,
#: where convolutions of other sizes came first.
STEPS = {
    "mlp": (perceptron, (9, 20), 9, 13),
    "cnn": (images, (7, 1, 8, 8), 7, 22),
    "gpt": (Language, (3, 12), 36, 96),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_training_has_no_more_kernels(name: str) -> None:
    make, shape, labels, most = STEPS[name]
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    step = training(make, shape, labels, device)
    for _ in range(3):
        step()
    with pyrite.explain() as found:
        step()
    names = " ".join(x.kernel.name for x in found.launched)
    assert len(found.launched) <= most, names
    recorded = device.backend.recorded  # type: ignore[attr-defined]
    before = recorded.compiled
    step()
    assert recorded.compiled == before


def training(
    make: Callable[[], nn.Module], shape: tuple[int, ...], labels: int, device: Device
) -> Callable[[], float]:
    """Return a step that returns its loss."""
    model = make().to(device)
    values = (
        RNG.integers(0, 20, shape).astype(np.int32) if len(shape) == 2 and labels == 36
        else RNG.standard_normal(shape, dtype=np.float32)
    )  # fmt: skip
    x = pyrite.tensor(values, device=device)
    y = pyrite.tensor(RNG.integers(0, 5, labels), device=device)
    optimizer = optim.Adam(1e-3)
    gradients = pyrite.value_and_grad(lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1))

    def step() -> float:
        nonlocal model
        loss, grads = gradients(model, x, y)
        model = optimizer.step(model, grads)
        return float(loss.item())

    return step
