"""Every layer of nn, in onnxruntime, at the sizes of the example and at others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn

#: The size of an axis that varies, and what it is at the example and at others.
SIZES: Mapping[str, tuple[int, ...]] = {
    "N": (2, 1, 5), "T": (6, 3, 11), "S": (5, 8, 2), "H": (9, 12, 7), "W": (8, 10, 13),
}  # fmt: skip

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Case:
    """A layer and the shapes of its inputs; a letter is an axis that varies."""

    make: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    #: How inputs are drawn: floats in -2 to 2 unless said.
    draw: tuple[str, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self, number: int) -> tuple[Tensor, ...]:
        rng = np.random.default_rng(number)
        kinds = (*self.draw, *["float"] * (len(self.shapes) - len(self.draw)))
        found = []
        for shape, kind in zip(self.shapes, kinds, strict=True):
            sizes = tuple(SIZES[n][number] if isinstance(n, str) else n for n in shape)
            found.append(pyrite.tensor(_drawn(rng, sizes, kind)))
        return tuple(found)

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(n, str) for shape in self.shapes for n in shape)

    def dynamic(self, names: list[str]) -> dict[str, dict[int, str]]:
        return {
            name: {axis: n for axis, n in enumerate(shape) if isinstance(n, str)}
            for name, shape in zip(names, self.shapes, strict=False)
        }


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    if kind == "index":
        return rng.integers(0, 4, shape).astype(np.int32)
    if kind == "mask":
        mask = rng.random(shape) < 0.7
        mask[..., 0] = True
        return mask
    if kind == "sign":
        return np.where(rng.random(shape) < 0.5, -1, 1).astype(np.float32)
    low, high = {"float": (-2, 2), "share": (0.05, 0.95), "positive": (0.1, 2)}[kind]
    values = rng.uniform(low, high, shape).astype(np.float32)
    return values / values.sum(1, keepdims=True) if kind == "share" and len(shape) > 1 else values


def pair(make: Callable[[], nn.Module], *draw: str, shape: Shape = ("N", 4)) -> Case:
    return Case(make, (shape, shape), draw)


def plain(*names: str, shape: Shape = ("N", "T", 4)) -> dict[str, Case]:
    return {name: Case(getattr(nn, name), (shape,)) for name in names}


IMAGE: Shape = ("N", 4, "H", "W")
SEQUENCE: Shape = ("N", "T", 8)

CASES: dict[str, Case] = {
    **plain(
        "CELU", "ELU", "GELU", "GLU", "HardShrink", "HardSigmoid", "HardSwish", "Hardtanh",
        "Identity", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU",
        "ReLU6", "SELU", "Shrink", "SiLU", "Sigmoid", "SoftShrink", "Softmax", "Softplus",
        "Softsign", "Tanh", "Tanhshrink", "ThresholdedReLU", "Dropout", "Flatten",
        "AlphaDropout", "FeatureAlphaDropout", "Dropout1d",
    ),
    "Activation": Case(lambda: nn.Activation("gelu"), (SEQUENCE,)),
    "GELU-tanh": Case(lambda: nn.GELU("tanh"), (SEQUENCE,)),
    "PReLU-channels": Case(lambda: nn.PReLU(4), (IMAGE,)),
    "Softplus-beta": Case(lambda: nn.Softplus(2.0), (SEQUENCE,)),
    "Threshold": Case(lambda: nn.Threshold(0.3, -1.0), (SEQUENCE,)),
    "SwiGLU": Case(lambda: nn.SwiGLU(8, 6), (SEQUENCE,)),
    "GaussianNoise": Case(lambda: nn.GaussianNoise(0.5), (SEQUENCE,)),
    "Lambda": Case(lambda: nn.Lambda(lambda x: x * 2 + x.shape[1]), (SEQUENCE,)),
    "Sequential": Case(
        lambda: nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)), (("N", 8),)
    ),
    # Linear and embedding.
    "Linear": Case(lambda: nn.Linear(8, 3), (("N", 8),)),
    "Linear-sequence": Case(lambda: nn.Linear(8, 3, bias=False), (SEQUENCE,)),
    **plain("Dropout2d", shape=IMAGE),
    **plain("Dropout3d", shape=("N", 2, 3, 4, 5)),
    "Embedding": Case(lambda: nn.Embedding(5, 3), (("N", "T"),), ("index",)),
    "EmbeddingBag": Case(lambda: nn.EmbeddingBag(5, 3), (("N", 4),), ("index",)),
    # Convolutions.
    "Conv1d": Case(lambda: nn.Conv1d(4, 6, 3, padding=1), (("N", 4, "T"),)),
    "Conv2d": Case(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2), (IMAGE,)),
    "Conv2d-same": Case(lambda: nn.Conv2d(4, 4, 3, 2, padding="same", groups=2), (IMAGE,)),
    "Conv3d": Case(lambda: nn.Conv3d(2, 3, (3, 2, 1)), (("N", 2, "H", 3, "W"),)),
    "ConvTranspose1d": Case(lambda: nn.ConvTranspose1d(4, 3, 3, stride=2), (("N", 4, "T"),)),
    "ConvTranspose2d": Case(
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (IMAGE,)
    ),
    "ConvTranspose3d": Case(lambda: nn.ConvTranspose3d(2, 3, 2), (("N", 2, "H", 3, 2),)),
    # Pools.
    "MaxPool1d": Case(lambda: nn.MaxPool1d(3, 2, 1), (("N", 4, "T"),)),
    "MaxPool2d": Case(lambda: nn.MaxPool2d(2), (IMAGE,)),
    "MaxPool2d-ceil": Case(lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), (IMAGE,)),
    "MaxPool3d": Case(lambda: nn.MaxPool3d(2), (("N", 2, "H", 4, "W"),)),
    "AvgPool1d": Case(lambda: nn.AvgPool1d(3, 2, 1), (("N", 4, "T"),)),
    "AvgPool2d": Case(lambda: nn.AvgPool2d(2, padding=1, count_include_pad=False), (IMAGE,)),
    "AvgPool2d-ceil": Case(lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (("N", 4, 9, 8),)),
    "AvgPool3d": Case(lambda: nn.AvgPool3d(2), (("N", 2, "H", 4, "W"),)),
    "AdaptiveAvgPool1d": Case(lambda: nn.AdaptiveAvgPool1d(4), (("N", 3, 10),)),
    "AdaptiveAvgPool2d": Case(lambda: nn.AdaptiveAvgPool2d(1), (IMAGE,)),
    "AdaptiveAvgPool2d-even": Case(lambda: nn.AdaptiveAvgPool2d((3, 2)), (("N", 3, 9, 8),)),
    "AdaptiveAvgPool3d": Case(lambda: nn.AdaptiveAvgPool3d((2, 1, 3)), (("N", 2, 5, 4, 7),)),
    "AdaptiveMaxPool1d": Case(lambda: nn.AdaptiveMaxPool1d(4), (("N", 3, 8),)),
    "AdaptiveMaxPool1d-uneven": Case(lambda: nn.AdaptiveMaxPool1d(4), (("N", 3, 10),)),
    "AdaptiveMaxPool2d": Case(lambda: nn.AdaptiveMaxPool2d(1), (IMAGE,)),
    "AdaptiveMaxPool3d": Case(lambda: nn.AdaptiveMaxPool3d((2, 1, 3)), (("N", 2, 4, 4, 6),)),
    # Norms.
    "BatchNorm": Case(lambda: nn.BatchNorm(4), (IMAGE,)),
    "BatchNorm-features": Case(lambda: nn.BatchNorm(8, affine=False), (("N", 8),)),
    "BatchNorm-of-the-batch": Case(
        lambda: nn.BatchNorm(4, track_running_stats=False), (IMAGE,)
    ),
    "LayerNorm": Case(lambda: nn.LayerNorm(8), (SEQUENCE,)),
    "LayerNorm-plain": Case(lambda: nn.LayerNorm((6, 8), elementwise_affine=False), (("N", 6, 8),)),
    "RMSNorm": Case(lambda: nn.RMSNorm(8), (SEQUENCE,)),
    "GroupNorm": Case(lambda: nn.GroupNorm(2, 4), (IMAGE,)),
    "InstanceNorm": Case(lambda: nn.InstanceNorm(4, affine=True), (IMAGE,)),
    "LocalResponseNorm": Case(lambda: nn.LocalResponseNorm(3), (IMAGE,)),
    "Normalization": Case(lambda: nn.Normalization("layer", 8), (SEQUENCE,)),
    # Images.
    "Interpolate1d": Case(lambda: nn.Interpolate1d(7, mode="linear"), (("N", 4, "T"),)),
    "Interpolate2d": Case(lambda: nn.Interpolate2d(scale_factor=2), (IMAGE,)),
    "Interpolate2d-corners": Case(
        lambda: nn.Interpolate2d((5, 7), mode="bilinear", align_corners=True), (IMAGE,)
    ),
    "Interpolate2d-cubic": Case(lambda: nn.Interpolate2d(scale_factor=2, mode="cubic"), (IMAGE,)),
    "Interpolate3d": Case(lambda: nn.Interpolate3d((3, 4, 5)), (("N", 2, 4, "H", "W"),)),
    "Upsample": Case(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (IMAGE,)),
    "PixelShuffle": Case(lambda: nn.PixelShuffle(2), (IMAGE,)),
    "PixelUnshuffle": Case(lambda: nn.PixelUnshuffle(2), (("N", 4, 6, 8),)),
    "Unfold": Case(lambda: nn.Unfold(3, padding=1), (IMAGE,)),
    "Unfold4d": Case(lambda: nn.Unfold4d((2, 3), stride=2), (IMAGE,)),
    "Fold": Case(lambda: nn.Fold((4, 5), 2), (("N", 8, 12),)),
    "Fold4d": Case(lambda: nn.Fold4d((4, 5), 2, stride=2, padding=(0, 1)), (("N", 8, 6),)),
    # Sequences.
    "PositionalEncoding": Case(lambda: nn.PositionalEncoding(8, 64), (SEQUENCE,)),
    "RotaryEncoding": Case(lambda: nn.RotaryEncoding(64, 8), (("N", 2, "T", 8),)),
    "RotaryEncoding-halves": Case(
        lambda: nn.RotaryEncoding(64, 8, pairs="halves"), (("N", 2, "T", 8),)
    ),
    "MultiHeadAttention": Case(lambda: nn.MultiHeadAttention(8, 2), (SEQUENCE,)),
    "MultiHeadAttention-grouped": Case(
        lambda: nn.MultiHeadAttention(8, 4, kv_heads=2), (SEQUENCE, ("N", "S", 8))
    ),
    "MultiHeadAttention-causal": Case(
        lambda: nn.MultiHeadAttention(8, 2), (SEQUENCE,), named={"is_causal": True}
    ),
    "MultiHeadAttention-quiet": Case(lambda: nn.MultiHeadAttention(8, 2, quiet=True), (SEQUENCE,)),
    "MultiHeadAttention-softcap": Case(
        lambda: nn.MultiHeadAttention(8, 2, softcap=5.0), (SEQUENCE,)
    ),
    "PositionWiseFeedForward": Case(lambda: nn.PositionWiseFeedForward(8, 16), (SEQUENCE,)),
    "TransformerEncoderLayer": Case(lambda: nn.TransformerEncoderLayer(8, 2, 16), (SEQUENCE,)),
    "TransformerEncoder": Case(
        lambda: nn.TransformerEncoder(8, 2, 16, 2), (SEQUENCE,), named={"is_causal": True}
    ),
    "TransformerDecoderLayer": Case(
        lambda: nn.TransformerDecoderLayer(8, 2, 16), (SEQUENCE, ("N", "S", 8))
    ),
    "TransformerDecoder": Case(
        lambda: nn.TransformerDecoder(8, 2, 16, 2), (SEQUENCE, ("N", "S", 8))
    ),
    "Transformer": Case(
        lambda: nn.Transformer(8, heads=2, hidden_features=16, layers=1),
        (SEQUENCE, ("N", "S", 8)),
    ),
    "RNN": Case(lambda: nn.RNN(8, 6, 2), (SEQUENCE,)),
    "LSTM": Case(lambda: nn.LSTM(8, 6, 2, direction="both"), (SEQUENCE,)),
    "LSTM-coupled": Case(lambda: nn.LSTM(8, 6, input_forget=True), (("N", 4, 8),)),
    "GRU": Case(lambda: nn.GRU(8, 6, direction="reverse", bias=False), (SEQUENCE,)),
    "GRU-before": Case(lambda: nn.GRU(8, 6, reset_after=False), (("N", 4, 8),)),
    "LoRA": Case(
        lambda: nn.LoRA(nn.Linear(8, 6), 2).at["lora_B.weight"].apply(lambda w: w + 1), (("N", 8),)
    ),
    # Distances and losses.
    "CosineSimilarity": pair(nn.CosineSimilarity),
    "PairwiseDistance": pair(nn.PairwiseDistance),
    "MSELoss": pair(nn.MSELoss),
    "L1Loss": pair(nn.L1Loss),
    "LpLoss": pair(lambda: nn.LpLoss(3.0)),
    "HuberLoss": pair(nn.HuberLoss),
    "SmoothL1Loss": pair(nn.SmoothL1Loss),
    "KLDivLoss": pair(nn.KLDivLoss, "float", "share"),
    "PoissonNLLLoss": pair(nn.PoissonNLLLoss, "float", "positive"),
    "SoftMarginLoss": pair(nn.SoftMarginLoss, "float", "sign"),
    "HingeEmbeddingLoss": pair(nn.HingeEmbeddingLoss, "float", "sign"),
    "BCELoss": pair(nn.BCELoss, "share", "share"),
    "BCEWithLogitsLoss": pair(nn.BCEWithLogitsLoss, "float", "share"),
    "BinaryCrossEntropyLoss": pair(nn.BinaryCrossEntropyLoss, "share", "share"),
    "FocalLoss": pair(nn.FocalLoss, "float", "share"),
    "CrossEntropyLoss": Case(nn.CrossEntropyLoss, (("N", 4), ("N",)), ("float", "index")),
    "NLLLoss": Case(nn.NLLLoss, (("N", 4), ("N",)), ("float", "index")),
    "MultiMarginLoss": Case(nn.MultiMarginLoss, (("N", 4), ("N",)), ("float", "index")),
    "MultiLabelMarginLoss": pair(nn.MultiLabelMarginLoss, "float", "index"),
    "CTCLoss": Case(
        nn.CTCLoss, ((4, 2, 4), (2, 2)), ("float", "index"),
        {"input_lengths": [4, 3], "target_lengths": [2, 1]},
    ),
    "RNNTLoss": Case(
        nn.RNNTLoss, ((2, 4, 3, 4), (2, 2)), ("float", "index"),
        {"input_lengths": [4, 3], "target_lengths": [2, 1]},
    ),
    "GaussianNLLLoss": Case(nn.GaussianNLLLoss, (("N", 4),) * 3, ("float", "float", "positive")),
    "CosineEmbeddingLoss": Case(
        nn.CosineEmbeddingLoss, (("N", 4), ("N", 4), ("N",)), ("float", "float", "sign")
    ),
    "MarginRankingLoss": Case(nn.MarginRankingLoss, (("N",),) * 3, ("float", "float", "sign")),
    "TripletMarginLoss": Case(nn.TripletMarginLoss, (("N", 4),) * 3),
}  # fmt: skip


@pytest.mark.sample(70)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_in_onnxruntime_what_it_is_here_at_all_sizes(name: str, judge: Any) -> None:
    judge_case(CASES[name], judge)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_that_is_loaded_again_is_what_it_was(name: str, judge: Any) -> None:
    judge_case(CASES[name], judge, imports=True)


def judge_case(case: Case, judge: Any, **options: Any) -> None:
    model = case.make()
    names = list(inspect.signature(model.forward).parameters)
    if names == ["args", "kwargs"]:
        names = ["args_0"]

    def example(number: int) -> Any:
        inputs = case.inputs(number)
        return {**dict(zip(names, inputs, strict=False)), **case.named} if case.named else inputs

    others = [example(1), example(2)] if case.is_dynamic else []
    judge(model, example(0), others=others, dynamic=case.dynamic(names), **options)


def test_every_layer_is_judged() -> None:
    """Aliases are other names of one class."""
    judged = {getattr(nn, name.partition("-")[0]) for name in CASES}
    layers = {
        value
        for name in nn.__all__
        if inspect.isclass(value := getattr(nn, name)) and issubclass(value, nn.Module)
    }

    assert layers - judged == {nn.Module}
