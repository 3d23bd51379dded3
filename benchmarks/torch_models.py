"""The networks of `imported_models` in PyTorch, as others write them, exported by PyTorch.

Attention is written in single ops and its mask is added, as in most files of text encoders.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pyrite.types import Array


class Block(nn.Module):
    """Two convolutions and what goes around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.short = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride > 1 or inputs != outputs
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) -> (N, D, H / stride, W / stride)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.short is None else self.short(x))).relu()


class ResNet18(nn.Module):
    """He et al. 2015."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        sizes = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        pairs = ((Block(i, o, stride), Block(o, o, 1)) for i, o, stride in sizes)
        self.blocks = nn.Sequential(*(block for pair in pairs for block in pair))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, 3, 224, 224) -> (N, 1000)."""
        x = nn.functional.max_pool2d(self.bn(self.conv(x)).relu(), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class Layer(nn.Module):
    """Attention and feed-forward, each normalised after."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(features, features), nn.Linear(features, features)
        self.value, self.out = nn.Linear(features, features), nn.Linear(features, features)
        self.inner = nn.Linear(features, 4 * features)
        self.outer = nn.Linear(4 * features, features)
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """(N, T, features) -> (N, T, features)."""
        n, length, features = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(n, length, self.heads, features // self.heads).permute(0, 2, 1, 3)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = query @ key.transpose(-1, -2) / (features // self.heads) ** 0.5 + bias
        seen = scores.softmax(-1) @ value
        x = self.norm1(x + self.out(seen.permute(0, 2, 1, 3).reshape(n, length, features)))
        return self.norm2(x + self.outer(nn.functional.gelu(self.inner(x))))


class Bert(nn.Module):
    """Devlin et al. 2018."""

    def __init__(self, tokens: int, features: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, features), nn.Embedding(512, features)
        self.norm = nn.LayerNorm(features)
        self.layers = nn.ModuleList(Layer(features, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Tokens and which of them count, (N, T) each -> (N, T, features)."""
        bias = (1.0 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        x = self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, bias)
        return x


def write(
    model: nn.Module, arrays: Mapping[str, Array], dynamic: Mapping[str, Any], path: Path
) -> None:
    """Export a model, whose batch norms stay ops of their own, by PyTorch's exporter."""
    example = tuple(torch.from_numpy(array) for array in arrays.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(), example, path, dynamo=False, opset_version=17,
            input_names=list(arrays), dynamic_axes=dict(dynamic),
        )  # fmt: skip
