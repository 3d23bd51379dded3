"""Layers with weights: what dtypes they are called with."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.errors import DTypeError

#: Each layer that holds weights, and what it is called with: floats by shape, integers as they are.
LAYERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Linear": (nn.Linear(4, 3), ((2, 4),)),
    "LoRA": (nn.LoRA(nn.Linear(4, 3), 2), ((2, 4),)),
    "PReLU": (nn.PReLU(4), ((2, 4),)),
    "SwiGLU": (nn.SwiGLU(4, 3), ((2, 4),)),
    "Conv1d": (nn.Conv1d(4, 2, 3), ((2, 4, 5),)),
    "Conv2d": (nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"), ((2, 4, 5, 5),)),
    "Conv3d": (nn.Conv3d(4, 2, 1), ((2, 4, 2, 2, 2),)),
    "ConvTranspose1d": (nn.ConvTranspose1d(4, 2, 3), ((2, 4, 5),)),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 2, 3), ((2, 4, 5, 5),)),
    "ConvTranspose3d": (nn.ConvTranspose3d(4, 2, 1), ((2, 4, 2, 2, 2),)),
    "BatchNorm": (nn.BatchNorm(4), ((2, 4, 5),)),
    "BatchNorm-states": (nn.BatchNorm(4, affine=False), ((2, 4, 5),)),
    "GroupNorm": (nn.GroupNorm(2, 4), ((2, 4, 5),)),
    "InstanceNorm": (nn.InstanceNorm(4, affine=True), ((2, 4, 5),)),
    "LayerNorm": (nn.LayerNorm(4), ((2, 4),)),
    "LayerNorm-no-bias": (nn.LayerNorm(4, bias=False), ((2, 4),)),
    "RMSNorm": (nn.RMSNorm(4), ((2, 4),)),
    "RNN": (nn.RNN(4, 3), ((2, 5, 4), (1, 2, 3))),
    "LSTM": (nn.LSTM(4, 3, direction="both"), ((2, 5, 4), ((2, 2, 3), (2, 2, 3)))),
    "LSTM-clip": (nn.LSTM(4, 3, clip=1.0), ((2, 5, 4),)),
    "GRU": (nn.GRU(4, 3), ((2, 5, 4), (1, 2, 3))),
    "MultiHeadAttention": (nn.MultiHeadAttention(4, 2), ((2, 5, 4), (2, 3, 4), (2, 3, 4))),
    "PositionWiseFeedForward": (nn.PositionWiseFeedForward(4, 8), ((2, 5, 4),)),
    "TransformerEncoderLayer": (nn.TransformerEncoderLayer(4, 2, 8), ((2, 5, 4),)),
    "TransformerDecoderLayer": (nn.TransformerDecoderLayer(4, 2, 8), ((2, 5, 4), (2, 3, 4))),
    "TransformerEncoder": (nn.TransformerEncoder(4, 2, 8, 1), ((2, 5, 4),)),
    "TransformerDecoder": (nn.TransformerDecoder(4, 2, 8, 1), ((2, 5, 4), (2, 3, 4))),
    "Transformer": (nn.Transformer(4, 2, 8, 1), ((2, 5, 4), (2, 3, 4))),
    "Embedding": (nn.Embedding(4, 3), (np.array([1, 2]),)),
    "EmbeddingBag": (
        nn.EmbeddingBag(4, 3, mode="sum"), (np.array([[1, 2]]), np.array([0]), (1, 2)),
    ),
}  # fmt: skip

#: Layers whose tables are cast to what they meet.
CAST = {"PositionalEncoding", "RotaryEncoding"}


def arguments(given: Any, dtype: Any) -> Any:
    if isinstance(given, np.ndarray):
        return pyrite.tensor(given)
    if isinstance(given[0], int):
        values = np.random.default_rng(0).standard_normal(given)
        return pyrite.tensor(values.astype(dtype))
    return tuple(arguments(part, dtype) for part in given)


def called(layer: nn.Module, given: Any, dtype: Any) -> Any:
    if type(layer) is nn.EmbeddingBag:
        words, _, weights = given
        return layer(arguments(words, dtype), per_sample_weights=arguments(weights, dtype))
    return layer(*arguments(given, dtype))


def dtypes(out: Any) -> set[Any]:
    if isinstance(out, pyrite.Tensor):
        return {out.dtype}
    return set().union(*(dtypes(part) for part in out))


def test_the_table_has_each_layer_that_takes_a_dtype() -> None:
    found = {
        value.__name__
        for name in nn.__all__
        if inspect.isclass(value := getattr(nn, name))
        and issubclass(value, nn.Module)
        and "dtype" in inspect.signature(value).parameters
    }
    assert found - {name.partition("-")[0] for name in LAYERS} == CAST


@pytest.mark.parametrize("name", LAYERS)
def test_a_wider_float_is_refused_and_a_narrower_one_meets_the_weights(name: str) -> None:
    layer, given = LAYERS[name]
    assert dtypes(called(layer, given, np.float16)) == {pyrite.float32}
    has_floats = name != "Embedding"
    for own, wide, meet in (
        ("float32", np.float64, "float64"),
        ("float16", np.float32, "float32"),
        ("float16", ml_dtypes.bfloat16, "float32"),
    ):
        narrow = layer.astype(own)
        if not has_floats:
            assert dtypes(called(narrow, given, wide)) == {getattr(pyrite, own)}
            continue
        message = (
            rf"requires (\w+) of {own}, as its weights are, or narrower, got {np.dtype(wide).name};"
            rf" write \1.astype\('{own}'\) or model.astype\('{meet}'\)\nin "
        )
        with pytest.raises(DTypeError, match=message) as caught:
            called(narrow, given, wide)
        assert caught.value.location.startswith(__file__)
        if wide is not ml_dtypes.bfloat16:
            assert dtypes(called(narrow.astype(meet), given, wide)) == {getattr(pyrite, meet)}


def test_the_state_of_a_layer_is_an_input_too() -> None:
    x = pyrite.zeros((1, 2, 4))
    wide = pyrite.zeros((1, 1, 3), dtype="float64")
    with pytest.raises(DTypeError, match=r"^LSTM requires state of float32, .* got float64"):
        nn.LSTM(4, 3)(x, (pyrite.zeros((1, 1, 3)), wide))
    with pytest.raises(DTypeError, match=r"^GRU requires state of float32, .* got float64"):
        nn.GRU(4, 3)(x, state=wide)


def test_a_bfloat16_layer_with_float32_statistics_takes_what_these_hold() -> None:
    """As models in bfloat16 are kept whose norms are not."""
    layer = nn.BatchNorm(4).astype("bfloat16")
    wide = layer.replace(running_var=pyrite.State(pyrite.ones(4)))
    with pytest.raises(DTypeError, match="BatchNorm requires x of bfloat16"):
        layer(pyrite.ones((2, 4)))
    with pytest.raises(DTypeError, match="BatchNorm requires x of bfloat16"):
        wide(pyrite.ones((2, 4)))
    mixed = nn.LayerNorm(4).replace(bias=pyrite.Parameter(pyrite.zeros(4, dtype="bfloat16")))
    assert mixed(pyrite.ones((2, 4))).dtype == pyrite.float32


def test_integers_bools_and_a_module_of_ones_own_are_as_before() -> None:
    """What a user's forward pass makes of wide floats is its own affair."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.scale = pyrite.Parameter(pyrite.ones(()))

        def forward(self, x: pyrite.Tensor) -> pyrite.Tensor:
            return x * self.scale

    assert Scaled()(pyrite.ones(3, dtype="float64")).dtype == pyrite.float64
    assert nn.Linear(4, 3)(pyrite.ones((2, 4), dtype="int64")).dtype == pyrite.float32
    assert nn.Linear(4, 3)(pyrite.ones((2, 4)) > 0).dtype == pyrite.float32
