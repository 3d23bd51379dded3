"""What a backward pass costs by its rules, and what it costs when it is done again.

A small GPT with 70 parameters, so small that what is measured is the host's work.  Both walk back
from the same loss, in turns; the times are medians in milliseconds.

    python benchmarks/backward_replay.py [device ...]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

import pyrite
from pyrite import nn
from pyrite.autodiff.walk import Walk

ROUNDS, VOCABULARY, LENGTH, FEATURES, LAYERS = 40, 16, 8, 12, 4


class Gpt(nn.Module):
    """A causal transformer over characters."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(VOCABULARY, FEATURES)
        self.places = nn.Embedding(LENGTH, FEATURES)
        self.layers = [
            nn.TransformerEncoderLayer(FEATURES, 2, 4 * FEATURES, dropout=0.0)
            for _ in range(LAYERS)
        ]
        self.norm, self.head = nn.LayerNorm(FEATURES), nn.Linear(FEATURES, VOCABULARY)

    def forward(self, tokens: pyrite.Tensor) -> pyrite.Tensor:
        """Return logits of the next token: (N, T) -> (N, T, vocabulary)."""
        x = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, is_causal=True)
        return self.head(self.norm(x))


def milliseconds(walk: Callable[[], object], device: pyrite.Device) -> float:
    """Return how long a backward pass takes, its kernels included."""
    start = perf_counter()
    walk()
    device.synchronize()
    return (perf_counter() - start) * 1e3


def main(names: list[str]) -> None:
    """Print both for each device."""
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (1, LENGTH)).astype(np.int32)
    for name in names:
        where = pyrite.autodiff(name)
        model, x = Gpt().to(where), pyrite.tensor(tokens, device=where)
        loss = model(x).cross_entropy_with_logits(x, axis=-1)
        walks = (
            (lambda loss=loss: Walk(loss._handle.value._backend).run(loss._handle)),
            (loss.backward),
        )
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for walk, found in zip(walks, times, strict=True):
                found.append(milliseconds(walk, where))
        rules, replay = (statistics.median(found[5:]) for found in times)
        print(
            f"{name:<10} by rules {rules:6.2f} ms   again {replay:6.2f} ms   {rules / replay:.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy", "cpu", "torch:cpu"])
