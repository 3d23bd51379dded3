"""The networks of `steps.py` for its peers: each written once, over the ops of PyTorch or of JAX.

A network is a function of its parameters, a dict of the names and layouts of Pyrite's, and its
input.  What peers do better as one is one: the projections of queries, keys and values are a single
product of stacked weights (`stacked`), as in their own layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from fusion import Gpt, cnn, mlp

from pyrite import Tensor, nn
from pyrite.types import Array

Parameters = Mapping[str, Any]
WORDS, UNITS, LENGTH, BATCH = 10_000, 200, 35, 20
HEADS = 4


class Network(NamedTuple):
    """A network of ours and its peer's, what they train on, and what a step multiplies and adds."""

    ours: Callable[[], nn.Module]
    theirs: Callable[[Any, Parameters, Any], Any]
    inputs: Array
    labels: Array
    operations: float


class LanguageModel(nn.Module):
    """The small network of Zaremba et al. 2014 (arXiv:1409.2329): two layers of LSTM of 200."""

    def __init__(self) -> None:
        self.token = nn.Embedding(WORDS, UNITS)
        self.lstm = nn.LSTM(UNITS, UNITS, 2, batch_first=False)
        self.head = nn.Linear(UNITS, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        """(T, N) -> (T N, words)."""
        return self.head(self.lstm(self.token(x))[0].reshape((-1, UNITS)))


# ---- the peers' ----


def mlp_of(ops: Any, p: Parameters, x: Any) -> Any:
    """784-512-256-10."""
    for n in ("0", "2"):
        x = ops.relu(ops.linear(x, p[f"{n}.weight"], p[f"{n}.bias"]))
    return ops.linear(x, p["4.weight"], p["4.bias"])


def cnn_of(ops: Any, p: Parameters, x: Any) -> Any:
    """Three convolutions with batch norm and GELU, two linear layers."""
    for n in (0, 3, 6):
        x = ops.conv(x, p[f"{n}.weight"], p[f"{n}.bias"])
        x = ops.gelu(ops.batch_norm(x, p[f"{n + 1}.weight"], p[f"{n + 1}.bias"], str(n)))
    x = ops.gelu(ops.linear(x.reshape(x.shape[0], -1), p["10.weight"], p["10.bias"]))
    return ops.linear(x, p["12.weight"], p["12.bias"])


def gpt_of(ops: Any, p: Parameters, x: Any) -> Any:
    """Four layers of 128, normalised before."""
    h = p["token.weight"][x] + p["place.weight"]
    for n in range(4):
        layer = {k.removeprefix(f"blocks.{n}."): v for k, v in p.items() if f"blocks.{n}." in k}
        y = ops.layer_norm(h, layer["norm1.weight"], layer["norm1.bias"])
        y = ops.linear(y, layer["attention.stacked.weight"], layer["attention.stacked.bias"])
        y = ops.causal_attention(y, HEADS)
        h = h + ops.linear(y, layer["attention.output.weight"], layer["attention.output.bias"])
        y = ops.layer_norm(h, layer["norm2.weight"], layer["norm2.bias"])
        names = ("feed_forward.inner", "feed_forward.outer")
        y = ops.gelu(ops.linear(y, layer[f"{names[0]}.weight"], layer[f"{names[0]}.bias"]))
        h = h + ops.linear(y, layer[f"{names[1]}.weight"], layer[f"{names[1]}.bias"])
    h = ops.layer_norm(h, p["norm.weight"], p["norm.bias"])
    return ops.linear(h, p["head.weight"], None).reshape(-1, 256)


def language_model_of(ops: Any, p: Parameters, x: Any) -> Any:
    """Two layers of LSTM over embeddings."""
    weights = [
        [p[f"lstm.{kind}_l{n}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        for n in range(2)
    ]
    h = ops.lstm(p["token.weight"][x], weights)
    return ops.linear(h.reshape(-1, UNITS), p["head.weight"], p["head.bias"])


def stacked(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Return the parameters with those of queries, keys and values as one."""
    found = dict(parameters)
    for name in parameters:
        before, query, after = name.partition("attention.query.")
        if query:
            three = [found.pop(f"{before}attention.{kind}.{after}") for kind in THREE]
            found[f"{before}attention.stacked.{after}"] = np.concatenate(three)
    return found


THREE = ("query", "key", "value")


class TorchOps:
    """PyTorch's ops."""

    def __init__(self, parameters: Mapping[str, Array], *, is_gpu: bool) -> None:
        import torch

        self.torch, self.functional = torch, torch.nn.functional
        self.relu, self.gelu = torch.relu, torch.nn.functional.gelu
        self.linear, self.conv = torch.nn.functional.linear, torch.nn.functional.conv2d
        where = "cuda" if is_gpu else "cpu"
        self.moments = {
            name.partition(".")[0]: (torch.zeros(w.shape[0], device=where),
                                     torch.ones(w.shape[0], device=where))
            for name, w in parameters.items() if w.ndim == 4
        }  # fmt: skip

    def batch_norm(self, x: Any, weight: Any, bias: Any, name: str) -> Any:
        """Normalise by the batch, and keep the running moments."""
        return self.functional.batch_norm(x, *self.moments[name], weight, bias, training=True)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        """Normalise the last axis."""
        return self.functional.layer_norm(x, weight.shape, weight, bias)

    def causal_attention(self, x: Any, heads: int) -> Any:
        """(N, T, 3 D) -> (N, T, D)."""
        q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in x.chunk(3, -1))
        out = self.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).flatten(2)

    def lstm(self, x: Any, weights: list[list[Any]]) -> Any:
        """(T, N, H) -> (T, N, H)."""
        start = x.new_zeros(len(weights), x.shape[1], weights[0][1].shape[1])
        flat = [w for layer in weights for w in layer]
        layers = len(weights)
        return self.torch.lstm(x, (start, start), flat, True, layers, 0.0, True, False, False)[0]


class JaxOps:
    """JAX's; a batch norm keeps no running moments here, which is less work."""

    def __init__(self) -> None:
        import jax

        self.jax, self.numpy, self.relu = jax, jax.numpy, jax.nn.relu

    def gelu(self, x: Any) -> Any:
        """x times the normal distribution of x."""
        return self.jax.nn.gelu(x, approximate=False)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        """X times the transposed weight, plus bias."""
        y = x @ weight.T
        return y if bias is None else y + bias

    def conv(self, x: Any, weight: Any, bias: Any) -> Any:
        """Convolve images without padding."""
        y = self.jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID")
        return y + bias[:, None, None]

    def batch_norm(self, x: Any, weight: Any, bias: Any, name: str) -> Any:
        """Normalise by the batch."""
        mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        normed = (x - mean) * self.jax.lax.rsqrt(var + 1e-5)
        return normed * weight[:, None, None] + bias[:, None, None]

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        """Normalise the last axis."""
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(var + 1e-5) * weight + bias

    def causal_attention(self, x: Any, heads: int) -> Any:
        """(N, T, 3 D) -> (N, T, D)."""
        q, k, v = (
            y.reshape(*y.shape[:2], heads, -1) for y in self.numpy.split(x, 3, axis=-1)
        )  # fmt: skip
        out = self.jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return out.reshape(*x.shape[:2], -1)

    def lstm(self, x: Any, weights: list[list[Any]]) -> Any:
        """(T, N, H) -> (T, N, H)."""
        for weight, recurrent, bias, other in weights:
            start = self.numpy.zeros((x.shape[1], recurrent.shape[1]), x.dtype)
            given = x @ weight.T + (bias + other)

            def cell(state: Any, g: Any, recurrent: Any = recurrent) -> Any:
                h, c = state
                i, f, n, o = self.numpy.split(g + h @ recurrent.T, 4, axis=-1)
                sigmoid = self.jax.nn.sigmoid
                c = sigmoid(f) * c + sigmoid(i) * self.numpy.tanh(n)
                h = sigmoid(o) * self.numpy.tanh(c)
                return (h, c), h

            _, x = self.jax.lax.scan(cell, (start, start), given)
        return x


# ---- the table's ----


def network(name: str) -> Network:
    """Return a network by its name."""
    random = np.random.default_rng(0)
    if name == "mlp":
        x = random.standard_normal((128, 784), dtype=np.float32)
        layers = ((784, 512), (512, 256), (256, 10))
        work = sum(6.0 * 128 * i * o for i, o in layers) - 2.0 * 128 * 784 * 512
        return Network(mlp, mlp_of, x, random.integers(0, 10, 128), work)
    if name == "cnn":
        x = random.standard_normal((64, 1, 28, 28), dtype=np.float32)
        convs = ((1, 8, 26), (8, 16, 24), (16, 24, 22))
        work = sum(6.0 * 64 * 9 * i * o * n * n for i, o, n in convs) - 2.0 * 64 * 9 * 8 * 26 * 26
        work += 6.0 * 64 * (24 * 22 * 22 * 32 + 32 * 10)
        return Network(cnn, cnn_of, x, random.integers(0, 10, 64), work)
    if name == "gpt":
        tokens = random.integers(0, 256, (8, 128)).astype(np.int32)
        linear = 4 * (4 * 128 * 128 + 2 * 128 * 512) + 128 * 256
        # Causal: half of the scores.  Backward is forward's two products and five in all.
        attention = 4 * 8 * 4 * (128 * 128 / 2) * 32 * 2.0 * 7
        work = 6.0 * 1024 * linear + attention
        return Network(Gpt, gpt_of, tokens, random.integers(0, 256, 1024), work)
    tokens = random.integers(0, WORDS, (LENGTH, BATCH)).astype(np.int32)
    rows = LENGTH * BATCH
    work = 6.0 * rows * (2 * 2 * 4 * UNITS * UNITS + UNITS * WORDS)
    return Network(LanguageModel, language_model_of, tokens, random.integers(0, WORDS, rows), work)
