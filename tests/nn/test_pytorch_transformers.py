"""State dicts of PyTorch's attention and transformers load, and give PyTorch's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.errors import RecordError

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X, MEMORY = RNG.normal(size=(3, 5, 8)), RNG.normal(size=(3, 4, 8))


def saved(module: Any, path: Path) -> Path:
    """Write a state dict whose numbers are all drawn: norms and biases are none of a fresh one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(RNG.normal(size=tuple(parameter.shape)) * 0.3))
    torch.save(module.state_dict(), path / "model.pt")
    return path / "model.pt"


def of(module: Any, *inputs: np.ndarray, **options: Any) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(*map(torch.tensor, inputs), **options).numpy()


def agrees(ours: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(ours.numpy(), want, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 6, "vdim": 3}])
def test_attention_loads(tmp_path: Path, bias: bool, widths: dict[str, int]) -> None:
    theirs = torch.nn.MultiheadAttention(
        8, 2, bias=bias, batch_first=True, dtype=torch.float64, **widths
    )
    keys, values = (RNG.normal(size=(3, 4, widths.get(side, 8))) for side in ("kdim", "vdim"))
    ours = nn.MultiHeadAttention(
        8, 2, bias=bias, key_features=keys.shape[2], value_features=values.shape[2],
        dtype="float64",
    ).load(saved(theirs, tmp_path))  # fmt: skip
    with torch.no_grad():
        want = theirs(*map(torch.tensor, (X, keys, values)))[0].numpy()
    agrees(ours(*map(pyrite.tensor, (X, keys, values))), want)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_encoders_load(tmp_path: Path, norm_first: bool, final_norm: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu", norm_first=norm_first, batch_first=True, dtype=torch.float64
    )
    norm = torch.nn.LayerNorm(8, dtype=torch.float64) if final_norm else None
    theirs = torch.nn.TransformerEncoder(layer, 3, norm)
    ours = nn.TransformerEncoder(
        8, 2, 16, 3, norm_first=norm_first, final_norm=final_norm, dtype="float64"
    )
    agrees(ours.load(saved(theirs, tmp_path))(pyrite.tensor(X)), of(theirs, X))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_whole_transformers_load(tmp_path: Path, norm_first: bool) -> None:
    """PyTorch's has a norm after each half, wherever its layers normalise."""
    theirs = torch.nn.Transformer(
        8, 2, 2, 2, 16, norm_first=norm_first, batch_first=True, dtype=torch.float64
    )
    ours = nn.Transformer(
        8, 2, 16, 2, activation="relu", norm_first=norm_first, final_norm=True, dtype="float64"
    ).load(saved(theirs, tmp_path))
    source, target = map(pyrite.tensor, (MEMORY, X))
    agrees(ours(source, target, is_causal=False), of(theirs, MEMORY, X))


class Tagger(nn.Module):
    """A model with PyTorch's parts under names of its own, and a layer with a part of its own."""

    def __init__(self) -> None:
        self.self_attn = nn.MultiHeadAttention(8, 2, dtype="float64")
        self.blocks = (Gated(8, 2, 16, dtype="float64"),)

    def forward(self, x: pyrite.Tensor) -> pyrite.Tensor:
        return self.blocks[0](self.self_attn(x))


class Gated(nn.TransformerEncoderLayer):
    """A layer that has a ``linear1``, which stays its own."""

    def __init__(self, features: int, *sizes: int, **options: Any) -> None:
        super().__init__(features, *sizes, **options)
        self.linear1 = nn.Linear(features, 3, dtype=options["dtype"])


def test_parts_load_wherever_they_are(tmp_path: Path) -> None:
    theirs = torch.nn.Module()
    theirs.self_attn = torch.nn.MultiheadAttention(8, 2, dtype=torch.float64)
    theirs.blocks = torch.nn.ModuleList(
        [torch.nn.TransformerEncoderLayer(8, 2, 16, dtype=torch.float64)]
    )
    inner = theirs.blocks[0].linear1
    theirs.blocks[0].feed_forward = torch.nn.Module()
    theirs.blocks[0].feed_forward.inner = inner
    theirs.blocks[0].linear1 = torch.nn.Linear(8, 3, dtype=torch.float64)
    ours = Tagger().load(saved(theirs, tmp_path))
    np.testing.assert_array_equal(
        ours.self_attn.key.weight.numpy(), theirs.self_attn.in_proj_weight[8:16].detach().numpy()
    )
    np.testing.assert_array_equal(
        ours.blocks[0].linear1.weight.numpy(), theirs.blocks[0].linear1.weight.detach().numpy()
    )
    np.testing.assert_array_equal(
        ours.blocks[0].feed_forward.inner.weight.numpy(), inner.weight.detach().numpy()
    )


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True)
    with pytest.raises(RecordError, match="bias_k"):
        nn.MultiHeadAttention(8, 2).load(saved(theirs, tmp_path))
    theirs = torch.nn.MultiheadAttention(8, 2)
    with pytest.raises(RecordError, match=r"key\.weight"):
        nn.MultiHeadAttention(8, 2, kv_heads=1).load(saved(theirs, tmp_path))
