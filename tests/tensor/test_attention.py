"""Attention against torch, and against a plain NumPy evaluation of its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, saved_bytes
from pyrite.autodiff.tape import autodiff
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.random import random_bits, words
from pyrite.tensor.random_word import dropout_threshold
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor
from pyrite.types import bfloat16, float16, float32, float64

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape)


def attend(q: Any, k: Any, v: Any, **options: Any) -> Any:
    return q.scaled_dot_product_attention(k, v, options.pop("mask", None), **options)


def torch_attend(q: Any, k: Any, v: Any, **options: Any) -> Any:
    options["attn_mask"] = options.pop("mask", None)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def weighted(out: Any, cos: Any) -> Any:
    return (out * cos).sum()


def assert_torch_agrees(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> None:
    """Compare the values, and the gradients of q, k, v and of a float mask."""
    arrays = [q, k, v, *([mask] if mask is not None and mask.dtype != bool else [])]
    cos = np.cos(np.arange(q.size // q.shape[-1] * v.shape[-1]))
    cos = cos.reshape(*q.shape[:-1], v.shape[-1])
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    fixed = {} if mask is None else {"mask": torch.tensor(mask)}
    want = torch_attend(
        *theirs[:3], **(fixed | dict(zip(["mask"], theirs[3:], strict=False))),
        **options, enable_gqa=q.shape[:-2] != k.shape[:-2],
    )  # fmt: skip
    weighted(want, torch.tensor(cos)).backward()

    ours = [tensor(a) for a in arrays]
    fixed = {} if mask is None else {"mask": tensor(mask)}

    def run(*inputs: Tensor) -> Any:
        with_mask = fixed | dict(zip(["mask"], inputs[3:], strict=False))
        return attend(*inputs[:3], **with_mask, **options)

    np.testing.assert_allclose(run(*ours).numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-12)
    found = grad(lambda *i: weighted(run(*i), tensor(cos)), range(len(ours)))(*ours)
    for got, expected in zip(found, theirs, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 2, 3)])
def test_attention_and_its_gradients_are_torchs(batch: tuple[int, ...]) -> None:
    assert_torch_agrees(normal(*batch, 4, 8), normal(*batch, 5, 8), normal(*batch, 5, 3))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads_of_keys_serve_groups_of_query_heads_as_in_torch(heads: int) -> None:
    q, k, v = normal(2, 4, 3, 8), normal(2, heads, 5, 8), normal(2, heads, 5, 2)
    assert_torch_agrees(q, k, v, is_causal=True, scale=0.7)


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2)])
def test_the_causal_mask_counts_from_the_first_query_and_key(queries: int, keys: int) -> None:
    q, k, v = normal(2, 3, queries, 4), normal(2, 3, keys, 4), normal(2, 3, keys, 4)
    assert_torch_agrees(q, k, v, is_causal=True)
    mask = tensor(np.tri(queries, keys, dtype=bool))
    q, k, v = map(tensor, (q, k, v))
    np.testing.assert_array_equal(
        attend(q, k, v, is_causal=True).numpy(), attend(q, k, v, mask=mask).numpy()
    )


@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (2, 1, 4, 5), (2, 3, 4, 5), (2, 1, 1, 5)])
def test_a_bool_mask_is_true_where_attention_is_allowed(shape: tuple[int, ...]) -> None:
    mask = rng.integers(0, 2, shape).astype(bool)
    mask[..., 0] = True  # torch gives NaN for a query without a key
    assert_torch_agrees(normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 2), mask)


@pytest.mark.parametrize("shape", [(4, 5), (3, 1, 5), (2, 3, 4, 5)])
def test_a_float_mask_is_added_and_gets_a_gradient(shape: tuple[int, ...]) -> None:
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 2)
    assert_torch_agrees(q, k, v, normal(*shape))


def test_a_float_mask_and_a_bias_add_up() -> None:
    q, k, v, one, two = (tensor(normal(2, 3, 3)) for _ in range(5))
    np.testing.assert_allclose(
        attend(q, k, v, mask=one, bias=two).numpy(), attend(q, k, v, bias=one + two).numpy()
    )


@pytest.mark.parametrize("blocked", ["mask", "bias"])
def test_a_query_without_a_key_gets_zeros_and_gives_zero_gradients(blocked: str) -> None:
    q, k, v = (tensor(normal(2, 3, 4)) for _ in range(3))
    allowed = np.array([[True, True, False], [False, False, False], [True, True, True]])
    if blocked == "mask":
        option = {"mask": tensor(allowed)}
    else:
        option = {"bias": tensor(np.where(allowed, 0.0, -np.inf))}
    out = attend(q, k, v, **option).numpy()
    np.testing.assert_array_equal(out[:, 1], np.zeros((2, 4)))
    assert (out[:, [0, 2]] != 0).all()

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return (attend(q, k, v, **option) ** 2).sum()

    gradients = grad(loss, (0, 1, 2))(q, k, v)
    assert all(np.isfinite(g.numpy()).all() for g in gradients)
    np.testing.assert_array_equal(gradients[0].numpy()[:, 1], np.zeros((2, 4)))
    second = grad(lambda q: (grad(loss)(q, k, v) ** 2).sum())(q).numpy()
    assert np.isfinite(second).all()


def reference(q: Any, k: Any, v: Any, *, softcap: float, bias: Any, keep: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    weights = np.exp(softcap * np.tanh(scores / softcap) + bias)
    return (weights / weights.sum(-1, keepdims=True) * keep) @ v


def test_scores_are_capped_before_the_bias_and_probabilities_dropped_last() -> None:
    q, k, v, bias = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4), normal(3, 5)
    draw = rng.integers(0, 2**32, 2, dtype=np.uint32)
    keep = (words(*draw, 0, 0, 0, shape=(2, 3, 8))[..., :5] >= 0.25 * 2**32) / 0.75
    got = attend(
        *map(tensor, (q, k, v)), bias=tensor(bias), softcap=1.5,
        dropout_p=0.25, dropout_key=tensor(draw),
    )  # fmt: skip
    want = reference(q, k, v, softcap=1.5, bias=bias, keep=keep)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)


def test_nan_in_a_key_is_not_hidden_by_the_causal_mask_of_another_query() -> None:
    k = normal(3, 4)
    k[1] = np.nan
    out = attend(tensor(normal(3, 4)), tensor(k), tensor(normal(3, 4)), is_causal=True).numpy()
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1:]).all()


def test_scores_far_beyond_the_range_of_exp_do_not_overflow() -> None:
    q = tensor(np.array([[1e4], [-1e4]], np.float32))
    out = attend(q, q, tensor(np.array([[1.0], [2.0]], np.float32)), scale=1.0)
    np.testing.assert_array_equal(out.numpy(), [[1.0], [2.0]])


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_narrow_dtypes_are_computed_in_float32(dtype: Any) -> None:
    narrow = [tensor((normal(2, 4, 8) * 4).astype(dtype.numpy)) for _ in range(3)]
    wide = [t.astype(float32) for t in narrow]
    got = attend(*narrow, is_causal=True)
    assert got.dtype is dtype
    want = attend(*wide, is_causal=True).astype(dtype)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_the_second_result_of_the_op_is_the_logsumexp_of_the_scores() -> None:
    q, k, v = normal(3, 4), normal(5, 4), normal(5, 2)
    mask = np.tri(3, 5, k=-1, dtype=bool)
    op = tensor(q)._scaled_dot_product_attention
    _, got = op(tensor(k), tensor(v), tensor(mask), None, None)
    with np.errstate(divide="ignore"):
        want = np.log((np.exp(q @ k.T / 2) * mask).sum(-1))
    assert got.numpy()[0] == -np.inf
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_gradients_flow_through_the_logsumexp() -> None:
    q, k, v = normal(3, 4), normal(5, 4), normal(5, 2)

    def ours(q: Tensor, k: Tensor) -> Any:
        out, log_sum = q._scaled_dot_product_attention(k, tensor(v), None, None, None)
        return (out.sum(-1) * log_sum).sum()

    theirs = [torch.tensor(a, requires_grad=True) for a in (q, k)]
    scores = theirs[0] @ theirs[1].T / 2
    ((scores.softmax(-1) @ torch.tensor(v)).sum(-1) * scores.logsumexp(-1)).sum().backward()
    for got, want in zip(grad(ours, (0, 1))(tensor(q), tensor(k)), theirs, strict=True):
        np.testing.assert_allclose(got.numpy(), want.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_hessian_vector_products_are_those_of_differences() -> None:
    arrays = [normal(2, 4, 3, 2), normal(2, 2, 5, 2), normal(2, 2, 5, 2)]
    directions = [normal(*a.shape) for a in arrays]
    mask = tensor(rng.integers(0, 2, (3, 5)).astype(bool))
    options = {"mask": mask, "bias": tensor(normal(4, 1, 5)), "softcap": 2.0}

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return (attend(q, k, v, **options) ** 3).sum()

    first = grad(loss, (0, 1, 2))

    def slope(*inputs: Tensor) -> Any:
        pairs = zip(first(*inputs), directions, strict=True)
        return sum((g * tensor(d)).sum() for g, d in pairs)

    got = grad(slope, (0, 1, 2))(*map(tensor, arrays))
    step = 1e-5
    ahead, behind = (
        first(*(tensor(a + s * d) for a, d in zip(arrays, directions, strict=True)))
        for s in (step, -step)
    )
    for g, a, b in zip(got, ahead, behind, strict=True):
        want = (a.numpy() - b.numpy()) / (2 * step)
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-6, atol=1e-7)


def test_no_probabilities_are_kept_for_the_backward_pass() -> None:
    length, size = 64, 2
    q, k, v = (tensor(normal(length, size), device=autodiff("numpy")) for _ in range(3))
    loss = attend(q.require_grad(), k, v, is_causal=True).sum()
    # q, k, v, the output and the logsumexp
    assert saved_bytes(loss) == (4 * length * size + length) * float64.itemsize


def test_a_replay_drops_the_same_probabilities() -> None:
    q, k, v = (tensor(normal(2, 3, 4)) for _ in range(3))

    def run(**options: Any) -> Any:
        with random_stream(3):
            return attend(q, k, v, dropout_p=0.5, **options).numpy()

    np.testing.assert_array_equal(run(), run())
    with random_stream(3):
        draw = random_bits((2,))
    np.testing.assert_array_equal(run(), run(dropout_key=draw))
    assert (run() != attend(q, k, v).numpy()).any()


def test_each_call_drops_others() -> None:
    q, k, v = (tensor(normal(2, 3, 4)) for _ in range(3))
    with random_stream(3):
        first, second = (attend(q, k, v, dropout_p=0.5).numpy() for _ in range(2))
    assert (first != second).any()


def test_dropout_keeps_the_mean_and_drops_the_share_that_is_said() -> None:
    keys, rows = 64, 256
    q, k = tensor(np.zeros((rows, 1))), tensor(np.zeros((keys, 1)))
    with random_stream(5):
        # Equal scores, and values that are unit vectors: the weights themselves.
        weights = attend(q, k, tensor(np.eye(keys)), dropout_p=0.3).numpy() * keys
    assert abs((weights == 0).mean() - 0.3) < 0.02
    np.testing.assert_allclose(weights[weights != 0], 1 / 0.7)
    # No row repeats another, and no column: what a counter that is used twice would give.
    assert len({row.tobytes() for row in weights == 0}) == rows
    assert len({column.tobytes() for column in (weights == 0).T}) == keys


def test_the_dropout_threshold_is_a_word() -> None:
    assert [dropout_threshold(p) for p in (0.0, 0.5, 1.0)] == [0, 2**31, 2**32 - 1]


def test_no_query_and_an_empty_batch_give_empty_results() -> None:
    q, k, v = tensor(normal(0, 4)), tensor(normal(3, 4)), tensor(normal(3, 2))
    assert attend(q, k, v).shape == (0, 2)
    batch = [tensor(np.zeros((0, 2, 3, 4))) for _ in range(3)]
    assert attend(*batch, is_causal=True).shape == (0, 2, 3, 4)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 3, 4), (2, 3, 5), (2, 3, 4)),
        ((2, 3, 4), (2, 3, 4), (2, 4, 4)),
        ((2, 4, 3, 4), (2, 3, 3, 4), (2, 3, 3, 4)),
        ((2, 4, 3, 4), (1, 4, 3, 4), (1, 4, 3, 4)),
        ((2, 3, 4), (3, 4), (3, 4)),
        ((4,), (4,), (4,)),
    ],
)
def test_shapes_that_do_not_fit_name_all_three(q: Any, k: Any, v: Any) -> None:
    with pytest.raises(ShapeError) as error:
        attend(*(tensor(normal(*s)) for s in (q, k, v)))
    assert str(error.value) == (
        "scaled_dot_product_attention requires query (..., H, T, D), key (..., K, S, D) and value "
        f"(..., K, S, E) where K divides H, got {q}, {k} and {v}"
    )


def test_masks_of_another_shape_or_dtype_are_errors() -> None:
    q, k, v = tensor(normal(2, 3, 4)), tensor(normal(2, 5, 4)), tensor(normal(2, 5, 4))
    with pytest.raises(ShapeError, match=r"a mask that broadcasts to \(2, 3, 5\), the scores"):
        attend(q, k, v, mask=tensor(np.ones((3, 4), bool)))
    with pytest.raises(
        ShapeError, match=r"a bias that broadcasts to \(2, 3, 5\), .* \(7, 2, 3, 5\)"
    ):
        attend(q, k, v, bias=tensor(np.ones((7, 2, 3, 5))))
    with pytest.raises(DTypeError, match="requires a bool mask, got int32; what is added"):
        attend(q, k, v, mask=tensor([1, 1, 1, 1, 0]))
    with pytest.raises(ShapeError, match="requires at least one key"):
        attend(q, tensor(normal(2, 0, 4)), tensor(normal(2, 0, 4)))


def test_arguments_out_of_range_are_errors() -> None:
    q = tensor(normal(2, 3, 4))
    with pytest.raises(ArgumentError, match=r"requires softcap > 0, got 0\.0"):
        attend(q, q, q, softcap=0.0)
    with pytest.raises(ArgumentError, match=r"requires 0 <= p <= 1, got 1\.5"):
        attend(q, q, q, dropout_p=1.5)
    with pytest.raises(ArgumentError, match=r"requires a dropout_key .*\.random_bits\(\(2,\)\)"):
        q._scaled_dot_product_attention(q, q, None, None, None, dropout_p=0.5)
    with pytest.raises(ShapeError, match=r"requires random bits uint32\[2\], got uint32\[3\]"):
        attend(q, q, q, dropout_p=0.5, dropout_key=random_bits((3,)))
