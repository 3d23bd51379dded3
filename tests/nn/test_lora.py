"""Low-rank adapters: what they compute, what they train, how they are merged, saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import autodiff, value_and_grad
from pyrite.errors import ArgumentError, ModuleError
from pyrite.record import MatchError, load_safetensors, save_safetensors
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tree import tree_leaves

X = np.random.default_rng(0).normal(size=(2, 5, 8))
ATTENTION = ("attention.query", "attention.key", "attention.value", "attention.output")


def layer(seed: int = 0) -> nn.TransformerEncoderLayer:
    with random_stream(seed):
        return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0).astype("float64")


@pytest.fixture
def adapted() -> nn.TransformerEncoderLayer:
    """An adapted layer after some steps."""
    with random_stream(3):
        model = nn.lora(layer(), "attention.*", rank=2, alpha=4)
    optimizer = optim.SGD(0.5)
    for _ in range(3):
        _, grads = value_and_grad(lambda m: m(tensor(X)).square().mean())(model)
        model = optimizer.step(model, grads)
    return model


def test_it_begins_as_the_model_that_it_adapts():
    base = layer()
    model = nn.lora(base, "attention.*", rank=2)
    np.testing.assert_array_equal(model(tensor(X)).numpy(), base(tensor(X)).numpy())


def test_only_the_adapters_are_trained(adapted):
    trained = [path for path, p in adapted.named_parameters() if p.trainable]
    assert trained == [f"{at}.lora_{which}.weight" for at in ATTENTION for which in "AB"]
    base = dict(layer().named_parameters())
    for path, p in adapted.named_parameters():
        if not p.trainable:
            want = base[path.replace("base_layer.", "")]
            np.testing.assert_array_equal(p.numpy(), want.numpy(), err_msg=path)
    assert all(np.abs(adapted.at[path].get().numpy()).max() > 0 for path in trained)


def test_it_computes_the_base_and_alpha_over_rank_times_the_change(adapted):
    query = adapted.attention.query
    x = X.reshape(-1, 8)
    a, b = query.lora_A.weight.numpy(), query.lora_B.weight.numpy()
    w, bias = query.base_layer.weight.numpy(), query.base_layer.bias.numpy()
    want = x @ w.T + bias + 4 / 2 * (x @ a.T @ b.T)
    np.testing.assert_allclose(query(tensor(x)).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_merging_computes_the_same(adapted, dtype):
    adapted = adapted.astype(dtype)
    merged = nn.merge_lora(adapted)
    assert [path for path, _ in merged.named_parameters()] == [
        path for path, _ in layer().named_parameters()
    ]
    x = tensor(X).astype(dtype)
    close = 1e-12 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(merged(x).numpy(), adapted(x).numpy(), rtol=close, atol=close)


def test_merging_leaves_what_the_base_was_tied_to():
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.Embedding(8, 8)
            self.head = nn.Linear(8, 8, bias=False).replace(weight=self.embed.weight)

    model = nn.lora(Tied(), "head", rank=1)
    model = model.at["head.lora_B.weight"].apply(lambda w: w + 1)
    merged = nn.merge_lora(model)
    np.testing.assert_array_equal(merged.embed.weight.numpy(), model.embed.weight.numpy())
    assert np.abs(merged.head.weight.numpy() - merged.embed.weight.numpy()).max() > 0.01


def test_adapters_are_saved_alone_and_loaded(adapted, tmp_path):
    file = tmp_path / "adapter.safetensors"
    adapted.save(file, only="*.lora_*")
    saved = load_safetensors(file)
    assert set(saved) == {f"{at}.lora_{which}.weight" for at in ATTENTION for which in "AB"}
    loaded = nn.lora(layer(), "attention.*", rank=2, alpha=4).load(file, only="*.lora_*")
    np.testing.assert_array_equal(loaded(tensor(X)).numpy(), adapted(tensor(X)).numpy())
    # As PEFT calls them.
    save_safetensors(file, {f"base_model.model.{name}": a for name, a in saved.items()})
    fresh = nn.lora(layer(), "attention.*", rank=2, alpha=4)
    loaded = fresh.load(file, only="*.lora_*", rules=[(r"^base_model\.model\.", "")])
    np.testing.assert_array_equal(loaded(tensor(X)).numpy(), adapted(tensor(X)).numpy())


def test_an_incomplete_file_of_adapters_is_refused(adapted, tmp_path):
    file = tmp_path / "adapter.safetensors"
    adapted.save(file, only="attention.query.lora_*")
    with pytest.raises(MatchError, match="2 applied, 6 missing, 0 unexpected"):
        adapted.load(file, only="*.lora_*")
    with pytest.raises(ModuleError, match="only requires a path"):
        adapted.save(file, only="*.lorra_*")


def test_dropout_is_of_the_adapter_alone():
    with random_stream(0):
        model = nn.lora(layer(), "attention.*", rank=2, dropout=0.5)
    model = model.at["*.lora_B.weight"].apply(lambda w: w + 1).with_training(True)
    first, second = (model.attention.query(tensor(X)).numpy() for _ in range(2))
    assert np.abs(first - second).max() > 0
    base = model.attention.query.base_layer
    np.testing.assert_array_equal(base(tensor(X)).numpy(), base(tensor(X)).numpy())


def test_what_it_cannot_adapt_is_refused(adapted):
    with pytest.raises(ModuleError, match=r"path of an nn\.Linear, got 'norm1\.\*'"):
        nn.lora(layer(), "norm1.*", rank=2)
    with pytest.raises(ModuleError, match="merge them first"):
        nn.lora(adapted, "attention.*", rank=2)
    with pytest.raises(ArgumentError, match="patterns of paths, got none"):
        nn.lora(layer(), rank=2)
    with pytest.raises(ArgumentError, match="rank"):
        nn.lora(layer(), "attention.*", rank=0)
    with pytest.raises(ModuleError, match=r"requires an nn\.Linear, got Dropout"):
        nn.LoRA(nn.Dropout(0.1), 2)


def test_it_stays_on_the_device_of_its_model():
    model = nn.lora(layer().to(autodiff("numpy")), "attention.*", rank=2)
    assert {leaf.device for leaf in tree_leaves(model)} == {autodiff("numpy")}
    loss = model(tensor(X, device=autodiff("numpy"))).square().sum()
    assert len(loss.backward()) == 4 * 2  # one for each adapter
