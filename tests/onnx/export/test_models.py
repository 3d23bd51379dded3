"""Whole models in onnxruntime, at the sizes of the example and at others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.nn import KeyValueCache


def floats(*shape: int, seed: int = 0) -> Tensor:
    return pyrite.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def tokens(*shape: int, most: int = 12, seed: int = 0) -> Tensor:
    return pyrite.tensor(np.random.default_rng(seed).integers(0, most, shape).astype(np.int32))


BATCH = {"x": {0: "batch"}}
IMAGES = {"x": {0: "batch", 2: "height", 3: "width"}}
SEQUENCES = {"x": {0: "batch", 1: "length"}}


def op_types(path: Any) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


class MLP(nn.Module):
    def __init__(self, sizes: Sequence[int]) -> None:
        self.layers = [nn.Linear(m, n) for m, n in pairwise(sizes)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).gelu()
        return self.layers[-1](x)


def test_an_mlp(judge: Any) -> None:
    path = judge(
        MLP((6, 16, 16, 3)), floats(4, 6), others=[floats(1, 6)], dynamic=BATCH, imports=True
    )

    assert op_types(path) == ["Gemm", "Gelu", "Gemm", "Gelu", "Gemm"]


class CNN(nn.Module):
    """A classifier of images: features, the mean over space, classes."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(1, 8, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm(8)
        self.pool = nn.MaxPool2d(2)
        self.body = nn.Conv2d(8, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.norm(self.stem(x)).relu())
        x = self.body(x).relu().mean((2, 3))
        return self.head(x).softmax(-1)


def test_a_cnn_of_any_image(judge: Any) -> None:
    others = [floats(3, 1, 12, 9), floats(1, 1, 7, 16)]

    judge(CNN(), floats(2, 1, 8, 8), others=others, dynamic=IMAGES)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm(outputs)
        self.shortcut = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm(outputs))
            if stride > 1 or inputs != outputs
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.shortcut is None else self.shortcut(x))).relu()


class ResNet(nn.Module):
    def __init__(self) -> None:
        self.conv = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm(8)
        self.blocks = [Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1)]
        self.fc = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x)).relu().max_pool2d(3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.adaptive_avg_pool2d(1).flatten(1))


def test_a_resnet(judge: Any) -> None:
    path = judge(ResNet(), floats(2, 3, 32, 32), others=[floats(1, 3, 45, 38)], dynamic=IMAGES)

    names = {node.name for node in onnx.load(path).graph.node}
    assert {"/conv/Conv", "/blocks.1/shortcut.0/Conv", "/fc/Gemm"} <= names


class UNet(nn.Module):
    """Down, up, and the skips between: sizes must be multiples of 4."""

    def __init__(self) -> None:
        self.down = [nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)]
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up = [nn.ConvTranspose2d(16, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)]
        self.join = [nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)]
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for layer in self.down:
            x = layer(x).silu()
            skips.append(x)
            x = x.max_pool2d(2)
        x = self.middle(x).silu()
        for up, join, skip in zip(self.up, self.join, reversed(skips), strict=True):
            x = join(pyrite.concat([up(x), skip], axis=1)).silu()
        return self.out(x)


def test_a_u_net_whose_sizes_are_multiples(judge: Any) -> None:
    judge(UNet(), floats(1, 1, 8, 12), others=[floats(3, 1, 16, 4)], dynamic=IMAGES)


class Encoder(nn.Module):
    """A classifier of texts, as BERT's."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(12, 8)
        self.positions = nn.Embedding(40, 8)
        self.norm = nn.LayerNorm(8)
        self.encoder = nn.TransformerEncoder(8, 2, 16, 2)
        self.classes = nn.Linear(8, 3)

    def forward(self, x: Tensor, mask: Tensor) -> dict[str, Tensor]:
        n, length = x.shape
        places = self.positions(pyrite.arange(length))
        hidden = self.norm(self.tokens(x) + places)
        hidden = self.encoder(hidden, mask=mask.reshape(n, 1, 1, length))
        return {"logits": self.classes(hidden[:, 0]), "hidden": hidden}


def test_a_transformer_encoder(judge: Any) -> None:
    def example(n: int, length: int) -> dict[str, Tensor]:
        mask = np.arange(length)[None] < np.arange(1, n + 1)[:, None] * length // n
        return {"x": tokens(n, length), "mask": pyrite.tensor(mask)}

    judge(
        Encoder(), example(2, 6), others=[example(1, 1), example(3, 11)],
        dynamic={**SEQUENCES, "mask": {0: "batch", 1: "length"}},
    )  # fmt: skip


class GPT(nn.Module):
    """One step of decoding: the tokens since, and what attention remembers."""

    def __init__(self) -> None:
        self.embedding = nn.Embedding(12, 8)
        self.decoder = nn.TransformerEncoder(8, 2, 16, 2)

    def forward(self, x: Tensor, cache: tuple[KeyValueCache, ...]) -> dict[str, Any]:
        out, cache = self.decoder.decode(self.embedding(x), cache)
        return {"logits": out @ self.embedding.weight.mT, "cache": cache}


@pytest.mark.parametrize("opset", [18, 20, 22, 24])
def test_a_transformer_in_other_opsets(opset: int, judge: Any) -> None:
    model = nn.TransformerEncoder(8, 2, 16, 1)

    path = judge(model, floats(2, 5, 8), others=[floats(1, 3, 8)], dynamic=SEQUENCES, opset=opset)

    assert ("Attention" in op_types(path)) == (opset >= 23)


def test_a_gpt_with_its_cache(judge: Any) -> None:
    def example(n: int, past: int, length: int) -> tuple[Any, ...]:
        return tokens(n, length), tuple(
            KeyValueCache(floats(n, 2, past, 4, seed=i), floats(n, 2, past, 4, seed=9 + i))
            for i in range(2)
        )

    path = judge(
        GPT(), example(2, 5, 1), others=[example(1, 9, 1), example(3, 2, 1)],
        dynamic={"x": {0: "batch"}, "cache.*": {0: "batch", 2: "past"}},
    )  # fmt: skip

    made = onnx.load(path).graph
    assert [x.name for x in made.input] == [
        "x", "cache.0.key", "cache.0.value", "cache.1.key", "cache.1.value"
    ]  # fmt: skip
    assert [x.name for x in made.output][1] == "output.cache.0.key"


class Text(nn.Module):
    """The last state of a recurrent layer, as classes."""

    def __init__(self, layer: nn.Module, features: int) -> None:
        self.embedding = nn.Embedding(12, 6)
        self.layer = layer
        self.classes = nn.Linear(features, 3)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.layer(self.embedding(x))
        return self.classes(out[:, -1])


def test_an_lstm(judge: Any) -> None:
    model = Text(nn.LSTM(6, 8, 2, direction="both"), 16)

    path = judge(model, tokens(2, 5), others=[tokens(4, 9)], dynamic=SEQUENCES)

    assert op_types(path).count("LSTM") == 4


def test_a_gru(judge: Any) -> None:
    model = Text(nn.GRU(6, 8), 8)

    path = judge(model, tokens(2, 5), others=[tokens(4, 2)], dynamic=SEQUENCES, imports=True)

    assert op_types(path).count("GRU") == 1


class ViT(nn.Module):
    def __init__(self) -> None:
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = pyrite.Parameter(floats(1, 1, 8))
        self.positions = pyrite.Parameter(floats(1, 17, 8))
        self.encoder = nn.TransformerEncoder(8, 2, 16, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).mT
        token = self.token.broadcast_to((x.shape[0], 1, 8))
        x = pyrite.concat([token, patches], axis=1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def test_a_vit(judge: Any) -> None:
    judge(ViT(), floats(2, 3, 16, 16), others=[floats(5, 3, 16, 16)], dynamic=BATCH)


class VAEDecoder(nn.Module):
    def __init__(self) -> None:
        self.dense = nn.Linear(4, 8 * 3 * 3)
        self.norm = nn.GroupNorm(2, 8)
        self.layers = [
            nn.ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1), nn.Conv2d(8, 4, 3, padding=1),
            nn.Conv2d(4, 1, 3, padding=1),
        ]  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dense(x).reshape(-1, 8, 3, 3)).silu()
        y = self.layers[0](y).silu()
        y = self.layers[1](y.interpolate(scale_factor=2, mode="bilinear")).tanh()
        return self.layers[2](y).sigmoid()


def test_the_decoder_of_a_vae(judge: Any) -> None:
    judge(VAEDecoder(), floats(2, 4), others=[floats(7, 4)], dynamic=BATCH)
