"""What a training step costs through Pyrite on PyTorch, beside the same step in plain PyTorch.

A small CNN and a small GPT, each with AdamW.  Both sides start from the same weights and take
turns; the times are medians in milliseconds.  The goal is a ratio of at most 1.3.

    python benchmarks/torch_overhead.py [cpu | cuda]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn as tnn
from torch.nn import functional

import pyrite
from pyrite import nn

ROUNDS, STEPS = 12, 5
VOCABULARY, LENGTH, FEATURES, HEADS, LAYERS = 256, 128, 192, 6, 4

Step = Callable[[], Any]


# ---- the networks, twice ----


class Cnn(nn.Module):
    """Two convolutions and two linear layers, on images of 28 x 28."""

    def __init__(self) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.hidden, self.head = nn.Linear(64 * 7 * 7, 128), nn.Linear(128, 10)

    def forward(self, x: pyrite.Tensor) -> pyrite.Tensor:
        """Return logits: (N, 1, 28, 28) -> (N, 10)."""
        x = self.norm1(self.conv1(x)).relu().max_pool2d(2)
        x = self.norm2(self.conv2(x)).relu().max_pool2d(2)
        return self.head(self.hidden(x.flatten(1)).relu())


class TorchCnn(tnn.Module):
    """The same in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = tnn.Conv2d(1, 32, 3, padding=1), tnn.BatchNorm2d(32)
        self.conv2, self.norm2 = tnn.Conv2d(32, 64, 3, padding=1), tnn.BatchNorm2d(64)
        self.hidden, self.head = tnn.Linear(64 * 7 * 7, 128), tnn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        x = functional.max_pool2d(functional.relu(self.norm1(self.conv1(x))), 2)
        x = functional.max_pool2d(functional.relu(self.norm2(self.conv2(x))), 2)
        return self.head(functional.relu(self.hidden(x.flatten(1))))


class Gpt(nn.Module):
    """A causal transformer over characters."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(VOCABULARY, FEATURES)
        self.places = nn.Embedding(LENGTH, FEATURES)
        self.layers = [
            nn.TransformerEncoderLayer(FEATURES, HEADS, 4 * FEATURES, dropout=0.0)
            for _ in range(LAYERS)
        ]
        self.norm, self.head = nn.LayerNorm(FEATURES), nn.Linear(FEATURES, VOCABULARY)

    def forward(self, tokens: pyrite.Tensor) -> pyrite.Tensor:
        """Return logits of the next token: (N, T) -> (N, T, vocabulary)."""
        x = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, is_causal=True)
        return self.head(self.norm(x))


class TorchAttention(tnn.Module):
    """Attention with projections of its own for query, key, value and output."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = tnn.Linear(FEATURES, FEATURES), tnn.Linear(FEATURES, FEATURES)
        self.value, self.output = tnn.Linear(FEATURES, FEATURES), tnn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each position attends to."""
        q, k, v = (
            f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(out.transpose(1, 2).flatten(2))


class TorchFeedForward(tnn.Module):
    """Two linear layers on each position."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tnn.Linear(FEATURES, 4 * FEATURES)
        self.outer = tnn.Linear(4 * FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> Any:
        """Return the output of every position."""
        return self.outer(functional.gelu(self.inner(x)))


class TorchLayer(tnn.Module):
    """Attention and feed-forward, each normalised before and added after."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = TorchAttention(), TorchFeedForward()
        self.norm1, self.norm2 = tnn.LayerNorm(FEATURES), tnn.LayerNorm(FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the encoded positions."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class TorchGpt(tnn.Module):
    """The same in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = tnn.Embedding(VOCABULARY, FEATURES)
        self.places = tnn.Embedding(LENGTH, FEATURES)
        self.layers = tnn.ModuleList(TorchLayer() for _ in range(LAYERS))
        self.norm, self.head = tnn.LayerNorm(FEATURES), tnn.Linear(FEATURES, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits of the next token."""
        x = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# ---- a step of each ----


def pyrite_step(model: Any, x: Any, y: Any, device: str) -> Step:
    """Return a function that makes one step and returns the loss, unread."""
    model = model.to(device)
    inputs, targets = pyrite.tensor(x, device=device), pyrite.tensor(y, device=device)
    optimizer = pyrite.optim.AdamW(1e-3)
    loss_and_grads = pyrite.value_and_grad(
        lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1)
    )

    def step() -> Any:
        nonlocal model
        loss, grads = loss_and_grads(model, inputs, targets)
        model = optimizer.step(model, grads)
        return loss

    return step


def torch_step(model: tnn.Module, x: Any, y: Any, device: str) -> Step:
    """Return the same for PyTorch."""
    model = model.to(device).train()
    inputs, targets = torch.from_numpy(x).to(device), torch.from_numpy(y).long().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def with_weights_of(model: Any, of: Any) -> Any:
    """Return the Pyrite model with the weights of the PyTorch model, whose paths are the same."""
    for name, parameter in of.named_parameters():
        own = dict(model.named_parameters())[name]
        model = model.map(
            lambda t, own=own, new=parameter: (
                t.with_value(pyrite.tensor(new.detach().cpu().numpy()))
                if getattr(t, "id", None) == own.id
                else t
            )
        )
    return model


def milliseconds(step: Step, device: str) -> float:
    """Return how long a step takes, from the mean of a few that are waited for together."""
    start = perf_counter()
    for _ in range(STEPS):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (perf_counter() - start) / STEPS * 1e3


def compare(name: str, ours: Step, theirs: Step, device: str) -> None:
    """Print the medians of both, taken in turns, and their ratio."""
    first = ours().item(), theirs().item()
    assert abs(first[0] - first[1]) < 1e-3, f"{name}: losses {first} are not those of one network"
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 1):
        for step, found in zip((ours, theirs), times, strict=True):
            found.append(milliseconds(step, device))
    pyrite_ms, torch_ms = (statistics.median(found[1:]) for found in times)
    print(
        f"{name:<4} pyrite {pyrite_ms:7.2f} ms   torch {torch_ms:7.2f} ms   "
        f"{pyrite_ms / torch_ms:.2f} times torch, goal 1.3"
    )


def main(device: str) -> None:
    """Print both comparisons."""
    rng = np.random.default_rng(0)
    # Both sides without TF32, which Pyrite allows when it is asked to.
    torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__} on {device}, {torch.get_num_threads()} threads")
    images = rng.standard_normal((64, 1, 28, 28)).astype(np.float32)
    tokens = rng.integers(0, VOCABULARY, (8, LENGTH)).astype(np.int32)
    labels = rng.integers(0, 10, 64).astype(np.int32)
    cases: list[tuple[str, Any, Any, Any, Any]] = [
        ("CNN", Cnn(), TorchCnn(), images, labels),
        ("GPT", Gpt(), TorchGpt(), tokens, np.roll(tokens, -1, 1)),
    ]
    for name, mine, torchs, x, y in cases:
        mine = with_weights_of(mine, torchs)
        ours = pyrite_step(mine, x, y, f"torch:{device}")
        compare(name, ours, torch_step(torchs, x, y, device), device)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
