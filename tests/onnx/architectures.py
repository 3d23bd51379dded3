"""ResNet-18 and BERT as their papers' code writes them, with random numbers in every weight."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import torch
from torch import nn


class BasicBlock(nn.Module):  # type: ignore[misc]
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        self.downsample = short if stride != 1 else None

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self.layer(64, 64, 1)
        self.layer2 = self.layer(64, 128, 2)
        self.layer3 = self.layer(128, 256, 2)
        self.layer4 = self.layer(256, 512, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, 1000)

    def layer(self, i: int, o: int, stride: int) -> Any:
        return nn.Sequential(BasicBlock(i, o, stride), BasicBlock(o, o, 1))

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Embeddings(nn.Module):  # type: ignore[misc]
    def __init__(self, words: int, d: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(words, d)
        self.position_embeddings = nn.Embedding(512, d)
        self.token_type_embeddings = nn.Embedding(2, d)
        self.LayerNorm = nn.LayerNorm(d, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(512)[None])

    def forward(self, ids: Any, types: Any) -> Any:
        places = self.position_embeddings(self.position_ids[:, : ids.shape[1]])
        return self.LayerNorm(
            self.word_embeddings(ids) + self.token_type_embeddings(types) + places
        )


class SelfAttention(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(d, d) for _ in range(3))

    def split(self, x: Any) -> Any:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Output(nn.Module):  # type: ignore[misc]
    def __init__(self, i: int, d: int) -> None:
        super().__init__()
        self.dense = nn.Linear(i, d)
        self.LayerNorm = nn.LayerNorm(d, eps=1e-12)

    def forward(self, x: Any, residual: Any) -> Any:
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.self = SelfAttention(d, heads)
        self.output = Output(d, d)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d, hidden)

    def forward(self, x: Any) -> Any:
        return nn.functional.gelu(self.dense(x))


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(d, heads)
        self.intermediate = Intermediate(d, 4 * d)
        self.output = Output(4 * d, d)

    def forward(self, x: Any, mask: Any) -> Any:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):  # type: ignore[misc]
    def __init__(self, layers: int, d: int, heads: int) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(d, heads) for _ in range(layers))

    def forward(self, x: Any, mask: Any) -> Any:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d, d)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.dense(x[:, 0]))


class Bert(nn.Module):  # type: ignore[misc]
    def __init__(self, layers: int = 12, d: int = 32, heads: int = 4, words: int = 100) -> None:
        super().__init__()
        self.embeddings = Embeddings(words, d)
        self.encoder = Encoder(layers, d, heads)
        self.pooler = Pooler(d)

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        hidden = 1.0 - attention_mask[:, None, None, :].to(torch.float32)
        mask = hidden * torch.finfo(torch.float32).min
        x = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return x, self.pooler(x)


def randomized(model: Any) -> Any:
    """The model for inference, with no two weights equal: exporters write equal ones once."""
    generator = torch.Generator().manual_seed(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.dtype.is_floating_point:
            noise = torch.rand(tensor.shape, generator=generator) * 0.1
            tensor.data += noise
    return model.eval()


def resnet18() -> tuple[bytes, list[Any]]:
    """ResNet-18's file with its batch norms, and an input."""
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    model = randomized(ResNet18())
    options = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    return exported(model, (x,), {"x": {0: "batch"}}, ["logits"], **options), [x.numpy()]


def bert() -> tuple[bytes, list[Any]]:
    """A BERT's file of 12 layers, and inputs."""
    n, t = 2, 7
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 100, (n, t), generator=generator)
    inputs = (ids, (ids > 20).long(), (ids > 50).long())
    axes = {
        name: {0: "batch", 1: "sequence"}
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    names = ["last_hidden_state", "pooled"]
    return exported(randomized(Bert()), inputs, axes, names), [x.numpy() for x in inputs]


def exported(
    model: Any, inputs: tuple[Any, ...], axes: Any, outputs: list[str], **options: Any
) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, inputs, stream, dynamo=False, input_names=list(axes), output_names=outputs,
            dynamic_axes=axes, opset_version=17, **options,
        )  # fmt: skip
    return stream.getvalue()
