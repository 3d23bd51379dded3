"""What PyTorch exports: outputs equal onnxruntime's at several sizes, and fine-tuning PyTorch's."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

torch = pytest.importorskip("torch")
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's exporters, of themselves


def conv(i: int, o: int, size: int, stride: int = 1) -> Any:
    return torch.nn.Conv2d(i, o, size, stride, size // 2, bias=False)


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(conv(i, o, 3, stride), torch.nn.BatchNorm2d(o))
        self.second = torch.nn.Sequential(conv(o, o, 3), torch.nn.BatchNorm2d(o))
        self.short = conv(i, o, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


class ResNet(torch.nn.Module):  # type: ignore[misc]
    inputs, axes = ("x",), {"x": {0: "n"}}

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(conv(3, 8, 7, 2), torch.nn.BatchNorm2d(8))
        self.blocks = torch.nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = torch.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))

    @staticmethod
    def example(n: int, t: int) -> tuple[Any, ...]:
        return (torch.randn(n, 3, 32, 32),)


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    inputs, axes = ("i",), {"i": {0: "n", 1: "t"}}

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 8)
        self.lstm = torch.nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(24, 5)

    def forward(self, i: Any) -> Any:
        return self.head(self.lstm(self.embedding(i))[0])

    @staticmethod
    def example(n: int, t: int) -> tuple[Any, ...]:
        return (torch.randint(0, 20, (n, t)),)


class Attention(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: Any, past_k: Any, past_v: Any) -> Any:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, 4).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        seen = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(n, t, d)), k, v


class Gpt(torch.nn.Module):  # type: ignore[misc]
    inputs = ("i", "past_k", "past_v")
    axes = {"i": {0: "n", 1: "t"}, "past_k": {0: "n", 2: "s"}, "past_v": {0: "n", 2: "s"}}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 16)
        self.attention, self.norm = Attention(), torch.nn.LayerNorm(16)
        gelu = torch.nn.GELU(approximate="tanh")
        self.mlp = torch.nn.Sequential(torch.nn.Linear(16, 32), gelu, torch.nn.Linear(32, 16))
        self.head = torch.nn.Linear(16, 20, bias=False)

    def forward(self, i: Any, past_k: Any, past_v: Any) -> Any:
        x = self.embedding(i)
        y, k, v = self.attention(self.norm(x), past_k, past_v)
        x = x + y
        return self.head(x + self.mlp(self.norm(x))), k, v

    @staticmethod
    def example(n: int, t: int) -> tuple[Any, ...]:
        past = (torch.randn(n, 4, 2 * t, 4), torch.randn(n, 4, 2 * t, 4))
        return (torch.randint(0, 20, (n, t)), *past)


class UNet(torch.nn.Module):  # type: ignore[misc]
    inputs, axes = ("x",), {"x": {0: "n", 2: "h", 3: "w"}}

    def __init__(self) -> None:
        super().__init__()
        self.down = conv(1, 4, 3)
        self.deep = torch.nn.Sequential(conv(4, 8, 3, 2), torch.nn.GroupNorm(2, 8))
        self.side = conv(8, 4, 1)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = conv(8, 1, 1)

    def forward(self, x: Any) -> Any:
        silu, resize = torch.nn.functional.silu, torch.nn.functional.interpolate
        a = silu(self.down(x))
        b = silu(self.deep(a))
        c = resize(self.side(b), size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.out(torch.cat([a, self.up(b) + c], 1))

    @staticmethod
    def example(n: int, t: int) -> tuple[Any, ...]:
        return (torch.randn(n, 1, 2 * t, 4 * t),)


class ViT(torch.nn.Module):  # type: ignore[misc]
    inputs, axes = ("x",), {"x": {0: "n"}}

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 16, 4, 4)
        self.token = torch.nn.Parameter(torch.zeros(1, 1, 16))
        self.positions = torch.nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        layer = torch.nn.TransformerEncoderLayer(
            16, 4, 32, batch_first=True, norm_first=True, dropout=0.0
        )
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.layers(x)[:, 0])

    @staticmethod
    def example(n: int, t: int) -> tuple[Any, ...]:
        return (torch.randn(n, 3, 16, 16),)


MODELS = (ResNet, Recurrent, Gpt, UNet, ViT)


def exported(model: Any, example: tuple[Any, ...], *, dynamo: bool) -> bytes:
    """The model's file, by PyTorch's exporter with onnxscript, or by the one before it."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            dynamic = tuple(
                dict.fromkeys(model.axes[name], torch.export.Dim.AUTO) for name in model.inputs
            )
            program = torch.onnx.export(
                model, example, dynamo=True, input_names=list(model.inputs),
                dynamic_shapes=dynamic, verbose=False,
            )  # fmt: skip
            program.save(stream)
        else:
            torch.onnx.export(
                model, example, stream, dynamo=False, input_names=list(model.inputs),
                dynamic_axes=model.axes, opset_version=17,
            )  # fmt: skip
    return stream.getvalue()


@pytest.mark.sample(3, varies=True, by="dynamo")
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_an_exported_model_agrees_with_onnxruntime_at_several_sizes(
    kind: Any, dynamo: bool, full: bool
) -> None:
    if dynamo and not full:
        pytest.skip("its exporter is slow; --full runs it")
    torch.manual_seed(0)
    content = exported(kind().eval(), kind.example(2, 4), dynamo=dynamo)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    model = load_with(content, inspect_here, device="cpu")

    for n, t in ((2, 4), (3, 6)):
        arrays = [x.numpy() for x in kind.example(n, t)]
        names = [given.name for given in session.get_inputs()]
        expected = session.run(None, dict(zip(names, arrays, strict=True)))
        inputs = [pyrite.tensor(array, device="cpu") for array in arrays]
        with pyrite.no_sync():
            made = model(*inputs)
        found = [made] if len(model.outputs) == 1 else list(made)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-5)


def test_fine_tuning_lowers_the_loss_as_it_does_in_pytorch() -> None:
    torch.manual_seed(0)
    net = Gpt()
    example = Gpt.example(4, 3)
    targets = torch.randint(0, 20, (4, 3))
    model = load_with(exported(net, example, dynamo=False), inspect_here, device="cpu")
    inputs = [pyrite.tensor(x.numpy(), device="cpu") for x in example]
    wanted = pyrite.tensor(targets.numpy().astype(np.int32), device="cpu")
    sgd = pyrite.optim.SGD(learning_rate=0.5)
    step = torch.optim.SGD(net.parameters(), lr=0.5)

    def loss_of(model: Any) -> Any:
        return model(*inputs)[0].cross_entropy_with_logits(wanted, axis=-1)

    for _ in range(5):
        theirs = torch.nn.functional.cross_entropy(
            net(*example)[0].flatten(0, 1), targets.flatten()
        )
        step.zero_grad()
        theirs.backward()
        step.step()
        ours, gradients = pyrite.value_and_grad(loss_of)(model)
        model = sgd.step(model, gradients)
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-4)
    assert theirs.item() < 2.5
