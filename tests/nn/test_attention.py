"""Attention layers against PyTorch's, and caches against the whole sequence."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.mask import causal_mask
from pyrite.tensor.stream import random_stream

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 8))
MEMORY = RNG.normal(size=(2, 4, 8))


def seeded(make):
    with random_stream(1):
        return make()


def torch_twin(torch, ours):
    theirs = torch.nn.MultiheadAttention(8, ours.heads, batch_first=True, dtype=torch.float64)
    projections = (ours.query, ours.key, ours.value)
    weight = np.concatenate([p.weight.numpy() for p in projections])
    bias = np.concatenate([p.bias.numpy() for p in projections])
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.tensor(weight))
        theirs.in_proj_bias.copy_(torch.tensor(bias))
        theirs.out_proj.weight.copy_(torch.tensor(ours.output.weight.numpy()))
        theirs.out_proj.bias.copy_(torch.tensor(ours.output.bias.numpy()))
    return theirs


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_values_are_pytorchs(heads):
    torch = pytest.importorskip("torch")
    ours = seeded(lambda: nn.MultiHeadAttention(8, heads, dtype="float64"))
    theirs = torch_twin(torch, ours)
    blocked = np.triu(np.ones((5, 5), bool), 1)
    want, _ = theirs(*[torch.tensor(X)] * 3, attn_mask=torch.tensor(blocked))
    np.testing.assert_allclose(
        ours(tensor(X), is_causal=True).numpy(), want.detach().numpy(), atol=1e-12
    )
    np.testing.assert_allclose(
        ours(tensor(X), mask=tensor(~blocked)).numpy(), want.detach().numpy(), atol=1e-12
    )
    crossed, _ = theirs(torch.tensor(X), torch.tensor(MEMORY), torch.tensor(MEMORY))
    np.testing.assert_allclose(
        ours(tensor(X), tensor(MEMORY)).numpy(), crossed.detach().numpy(), atol=1e-12
    )


def test_a_context_of_another_width_with_heads_of_their_own_size():
    torch = pytest.importorskip("torch")
    keys, values = RNG.normal(size=(2, 4, 6)), RNG.normal(size=(2, 4, 3))
    ours = seeded(
        lambda: nn.MultiHeadAttention(8, 2, key_features=6, value_features=3, dtype="float64")
    )
    theirs = torch.nn.MultiheadAttention(
        8, 2, kdim=6, vdim=3, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for name in ("q", "k", "v"):
            layer = {"q": ours.query, "k": ours.key, "v": ours.value}[name]
            getattr(theirs, f"{name}_proj_weight").copy_(torch.tensor(layer.weight.numpy()))
        bias = np.concatenate([p.bias.numpy() for p in (ours.query, ours.key, ours.value)])
        theirs.in_proj_bias.copy_(torch.tensor(bias))
        theirs.out_proj.weight.copy_(torch.tensor(ours.output.weight.numpy()))
        theirs.out_proj.bias.copy_(torch.tensor(ours.output.bias.numpy()))
    want, _ = theirs(torch.tensor(X), torch.tensor(keys), torch.tensor(values))
    got = ours(tensor(X), tensor(keys), tensor(values))
    np.testing.assert_allclose(got.numpy(), want.detach().numpy(), atol=1e-12)

    # A head of its own width: three heads of 5 over a query of 8 and a context of 6.
    wide = seeded(
        lambda: nn.MultiHeadAttention(8, 3, head_features=5, key_features=6, dtype="float64")
    )
    assert [p.weight.shape for p in (wide.query, wide.key, wide.value, wide.output)] == [
        (15, 8), (15, 6), (15, 6), (8, 15),
    ]  # fmt: skip
    q, k, v = (
        layer(tensor(a)).numpy().reshape(2, -1, 3, 5).swapaxes(1, 2)
        for layer, a in ((wide.query, X), (wide.key, keys), (wide.value, keys))
    )
    scores = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(5))
    mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(2, 5, 15)
    want = wide.output(tensor(mixed)).numpy()
    np.testing.assert_allclose(wide(tensor(X), tensor(keys)).numpy(), want, atol=1e-12)
    with pytest.raises(TypeError, match="kdim is key_features here; vdim is value_features here"):
        nn.MultiHeadAttention(8, 2, kdim=6, vdim=3)


def test_grouped_queries_are_repeated_keys():
    grouped = seeded(lambda: nn.MultiHeadAttention(8, 4, kv_heads=2, dtype="float64"))
    full = seeded(lambda: nn.MultiHeadAttention(8, 4, dtype="float64"))

    def repeated(linear, like):
        weight = np.repeat(linear.weight.numpy().reshape(2, 2, 8), 2, axis=0).reshape(8, 8)
        bias = np.repeat(linear.bias.numpy().reshape(2, 2), 2, axis=0).reshape(8)
        return like.replace(
            weight=like.weight.with_value(tensor(weight)), bias=like.bias.with_value(tensor(bias))
        )

    full = full.replace(
        query=grouped.query, output=grouped.output,
        key=repeated(grouped.key, full.key), value=repeated(grouped.value, full.value),
    )  # fmt: skip
    np.testing.assert_allclose(grouped(tensor(X)).numpy(), full(tensor(X)).numpy(), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"quiet": True}], ids=str)
def test_token_by_token_with_a_cache_equals_the_whole(options):
    layer = seeded(lambda: nn.MultiHeadAttention(8, 4, dtype="float64", **options))
    whole = layer(tensor(X), is_causal=True).numpy()
    first, cache = layer.decode(tensor(X[:, :3]))
    np.testing.assert_allclose(first.numpy(), whole[:, :3], atol=1e-12)
    for t in (3, 4):
        out, cache = layer.decode(tensor(X[:, t : t + 1]), cache)
        np.testing.assert_allclose(out.numpy(), whole[:, t : t + 1], atol=1e-12)
    assert cache.length == 5


def test_quiet_attention_is_softmax_with_one_more_in_the_denominator():
    layer = seeded(lambda: nn.MultiHeadAttention(8, 1, quiet=True, dtype="float64"))
    q, k, v = (np.asarray(p(tensor(X))) for p in (layer.query, layer.key, layer.value))
    scores = np.exp(q @ np.swapaxes(k, 1, 2) / np.sqrt(8))
    mixed = scores / (1 + scores.sum(-1, keepdims=True)) @ v
    want = layer.output(tensor(mixed)).numpy()
    np.testing.assert_allclose(layer(tensor(X)).numpy(), want, atol=1e-12)
    causal = layer(tensor(X), is_causal=True).numpy()
    masked = layer(tensor(X), mask=causal_mask(5)).numpy()
    np.testing.assert_allclose(causal, masked, atol=1e-12)


def test_dropout_only_in_training():
    layer = seeded(lambda: nn.MultiHeadAttention(8, 2, dropout=0.5, dtype="float64"))
    x = tensor(X)
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())
    outs = [
        value_and_grad(lambda m: (m(x).sum(), m(x)), has_aux=True)(layer)[0][1].numpy()
        for _ in range(2)
    ]
    assert np.abs(outs[0] - outs[1]).max() > 1e-3


def test_transformer_encoder_layer_is_pytorchs():
    torch = pytest.importorskip("torch")
    for norm_first, activation, eps in ((True, "gelu", 1e-5), (False, "relu", 0.1)):
        ours = seeded(
            lambda n=norm_first, a=activation, e=eps: nn.TransformerEncoderLayer(
                8, 2, 16, dropout=0.0, norm_first=n, activation=a, eps=e, dtype="float64"
            )
        )
        theirs = torch.nn.TransformerEncoderLayer(
            8, 2, 16, 0.0, activation, layer_norm_eps=eps, batch_first=True,
            norm_first=norm_first, dtype=torch.float64,
        )  # fmt: skip
        theirs.self_attn = torch_twin(torch, ours.attention)
        for name, layer in (
            ("linear1", ours.feed_forward.inner),
            ("linear2", ours.feed_forward.outer),
        ):
            getattr(theirs, name).weight.data = torch.tensor(layer.weight.numpy())
            getattr(theirs, name).bias.data = torch.tensor(layer.bias.numpy())
        want = theirs(torch.tensor(X)).detach().numpy()
        np.testing.assert_allclose(ours(tensor(X)).numpy(), want, atol=1e-10)


@pytest.mark.parametrize(
    "layer",
    [
        nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder,
        nn.TransformerDecoder, nn.Transformer,
    ],
)  # fmt: skip
def test_settings_of_a_transformer_stand_in_its_signature(layer):
    names = set(inspect.signature(layer).parameters)
    assert {"norm_first", "activation", "eps", "dropout", "kv_heads"} <= names
    sizes = (8, 2, 16) if layer.__name__.endswith("Layer") else (8, 2, 16, 1)
    made = layer(*sizes, eps=0.5, activation="relu")
    norms = [m for _, m in made.named_modules() if isinstance(m, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {0.5}
    with pytest.raises(ArgumentError, match="a name of gelu, relu, silu, tanh, got 'selu'"):
        layer(*sizes, activation="selu")


def copied(torch, theirs, ours):
    """Their layer of an encoder or decoder with the values of ours."""
    theirs.self_attn = torch_twin(torch, ours.attention)
    pairs = [
        (theirs.linear1, ours.feed_forward.inner), (theirs.linear2, ours.feed_forward.outer),
        (theirs.norm1, ours.norm1), (theirs.norm2, ours.norm2),
    ]  # fmt: skip
    if hasattr(theirs, "multihead_attn"):
        theirs.multihead_attn = torch_twin(torch, ours.cross_attention)
        pairs.append((theirs.norm3, ours.norm3))
    for there, here in pairs:
        there.weight.data = torch.tensor(here.weight.numpy())
        there.bias.data = torch.tensor(here.bias.numpy())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_is_pytorchs(norm_first):
    torch = pytest.importorskip("torch")
    ours = seeded(
        lambda: nn.Transformer(
            8, 2, 16, 2, dropout=0.0, activation="relu", norm_first=norm_first, eps=0.01,
            dtype="float64",
        )
    )  # fmt: skip
    # Norms that differ from one another, so that a swap would show.
    ours = ours.map(lambda p: p + tensor(np.linspace(0.1, 0.4, p.shape[-1])) if p.ndim == 1 else p)
    theirs = torch.nn.Transformer(
        8, 2, 2, 2, 16, 0.0, "relu", layer_norm_eps=0.01, batch_first=True, norm_first=norm_first,
        dtype=torch.float64,
    )  # fmt: skip
    for half in ("encoder", "decoder"):
        for there, here in zip(
            getattr(theirs, half).layers, getattr(ours, half).layers, strict=True
        ):
            copied(torch, there, here)
        norm = getattr(ours, half).norm
        if norm is None:
            getattr(theirs, half).norm = None  # theirs has one behind normed layers too
        else:
            getattr(theirs, half).norm.weight.data = torch.tensor(norm.weight.numpy())
            getattr(theirs, half).norm.bias.data = torch.tensor(norm.bias.numpy())
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    want = theirs(torch.tensor(MEMORY), torch.tensor(X), tgt_mask=causal).detach().numpy()
    got = ours(tensor(MEMORY), tensor(X))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-10)
    hidden = np.array([True, True, False, True])
    kept = ours(
        tensor(MEMORY), tensor(X), source_mask=tensor(hidden), memory_mask=tensor(hidden)
    ).numpy()
    want = ours(tensor(MEMORY[:, hidden]), tensor(X)).numpy()
    np.testing.assert_allclose(kept, want, atol=1e-10)
    memory, caches = ours.encoder(tensor(MEMORY)), None
    for t in range(5):
        out, caches = ours.decode(tensor(X[:, t : t + 1]), memory, caches)
        np.testing.assert_allclose(out.numpy(), got.numpy()[:, t : t + 1], atol=1e-12)


def test_an_encoder_decodes_token_by_token_as_it_encodes_causally():
    encoder = seeded(lambda: nn.TransformerEncoder(8, 2, 16, 3, dropout=0.0, dtype="float64"))
    whole = encoder(tensor(X), is_causal=True).numpy()
    caches = None
    for t in range(5):
        out, caches = encoder.decode(tensor(X[:, t : t + 1]), caches)
        np.testing.assert_allclose(out.numpy(), whole[:, t : t + 1], atol=1e-12)


def test_a_decoder_decodes_token_by_token_as_it_does_at_once():
    decoder = seeded(lambda: nn.TransformerDecoder(8, 2, 16, 2, dropout=0.0, dtype="float64"))
    mask = tensor(np.array([True, True, False, True]))
    whole = decoder(tensor(X), tensor(MEMORY), memory_mask=mask).numpy()
    caches = None
    for t in range(5):
        out, caches = decoder.decode(
            tensor(X[:, t : t + 1]), tensor(MEMORY), caches, memory_mask=mask
        )
        np.testing.assert_allclose(out.numpy(), whole[:, t : t + 1], atol=1e-12)


def test_a_padded_position_changes_nothing():
    encoder = seeded(lambda: nn.TransformerEncoder(8, 2, 16, 1, dropout=0.0, dtype="float64"))
    mask = tensor(np.array([True, True, True, False, False]))
    other = X.copy()
    other[:, 3:] += 100
    a, b = (encoder(tensor(x), mask=mask).numpy()[:, :3] for x in (X, other))
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_every_parameter_gets_a_gradient():
    decoder = seeded(lambda: nn.TransformerDecoder(8, 2, 16, 1))
    x, memory = tensor(X.astype("float32")), tensor(MEMORY.astype("float32"))
    _, grads = value_and_grad(lambda m: (m(x, memory) ** 2).sum())(decoder)
    assert all(p in grads for p in decoder.parameters())


def test_sizes_are_checked():
    with pytest.raises(ArgumentError, match="heads to divide features"):
        nn.MultiHeadAttention(8, 3)
    with pytest.raises(ArgumentError, match="kv_heads to divide"):
        nn.MultiHeadAttention(8, 4, kv_heads=3)
    with pytest.raises(ShapeError, match=r"tensors \(N, T, D\), got \(5, 8\)"):
        nn.MultiHeadAttention(8, 2)(tensor(X[0].astype("float32")))
    with pytest.raises(ShapeError, match="Linear requires"):
        nn.MultiHeadAttention(6, 2)(tensor(X.astype("float32")))
