"""Norms over given axes, against torch and against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, saved_bytes, value_and_grad
from pyrite.autodiff.tape import autodiff
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import ArgumentError, AxisError, ShapeError
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.tensor import Tensor
from pyrite.types import bfloat16, float16, float32

torch = pytest.importorskip("torch")
F = torch.nn.functional

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape)


def torch_gradients(fn: Any, *arrays: Any) -> tuple[Any, list[Any]]:
    """The value of fn(...) weighted by cosines, and the gradients of that by each array."""
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = fn(*inputs)
    (
        out * torch.cos(torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape))
    ).sum().backward()
    return out.detach().numpy(), [i.grad.numpy() for i in inputs]


def gradients(fn: Any, *arrays: Any) -> tuple[Any, list[Any]]:
    inputs = [tensor(a) for a in arrays]
    out = fn(*inputs)
    weight = tensor(np.cos(np.arange(out.size)).reshape(out.shape))
    found = grad(lambda *x: (fn(*x) * weight).sum(), range(len(arrays)))(*inputs)
    return out.numpy(), [g.numpy() for g in found]


def assert_agree(ours: tuple[Any, list[Any]], theirs: tuple[Any, list[Any]]) -> None:
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-10, atol=1e-12)
    for got, want in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2])
def test_layer_norm_and_its_gradients_are_torchs(count: int) -> None:
    x = normal(3, 4, 5)
    w, b = normal(*x.shape[-count:]), normal(*x.shape[-count:])
    axes = tuple(range(-count, 0))
    assert_agree(
        gradients(lambda x, w, b: x.layer_norm(w, b, axes, eps=1e-3), x, w, b),
        torch_gradients(lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-3), x, w, b),
    )


def test_rms_norm_and_its_gradients_are_torchs() -> None:
    x, w = normal(3, 4, 5), normal(5)
    assert_agree(
        gradients(lambda x, w: x.rms_norm(w, eps=1e-3), x, w),
        torch_gradients(lambda x, w: F.rms_norm(x, (5,), w, 1e-3), x, w),
    )


def test_layer_norm_over_leading_axes_is_that_of_the_permuted_tensor() -> None:
    x, w, b = tensor(normal(3, 4, 5)), tensor(normal(3, 4)), tensor(normal(3, 4))
    moved = x.permute_dims((2, 0, 1)).layer_norm(w, b, (-2, -1)).permute_dims((1, 2, 0))
    np.testing.assert_allclose(x.layer_norm(w, b, (1, 0)).numpy(), moved.numpy(), rtol=1e-12)


def test_a_mean_far_larger_than_the_deviation_does_no_harm() -> None:
    x = (normal(2, 256) + 1e4).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(tensor(x).layer_norm(eps=0.0).numpy(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_narrow_dtypes_are_computed_in_float32(dtype: Any) -> None:
    x = (normal(4, 64) * 300).astype(dtype.numpy)  # whose squares overflow float16
    w = normal(64).astype(dtype.numpy)
    for ours in ("layer_norm", "rms_norm"):
        got = getattr(tensor(x), ours)(tensor(w))
        exact = getattr(tensor(x).astype(float32), ours)(tensor(w).astype(float32))
        assert got.dtype is dtype
        np.testing.assert_array_equal(got.numpy(), exact.astype(dtype).numpy())


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_gradients_of_narrow_dtypes_are_narrow_and_rounded_once(dtype: Any) -> None:
    x, w = normal(4, 8).astype(dtype.numpy), normal(8).astype(dtype.numpy)
    g = normal(4, 8).astype(dtype.numpy)
    attrs = {"axis": -1, "eps": 1e-5, "argnums": (0, 1, 2)}
    found = tensor(g)._layer_norm_backward(tensor(x), tensor(w), **attrs)
    inputs = [tensor(a).astype(float32) for a in (g, x, w)]
    exact = inputs[0]._layer_norm_backward(*inputs[1:], **attrs)
    for got, want in zip(found, exact, strict=True):
        assert got.dtype is dtype
        np.testing.assert_array_equal(got.numpy(), want.astype(dtype).numpy())


def test_a_float32_weight_makes_the_result_float32() -> None:
    x, w = tensor(normal(2, 4).astype(np.float16)), tensor(normal(4).astype(np.float32))
    assert x.layer_norm(w).dtype is float32
    _, g = value_and_grad(lambda x: x.layer_norm(w).sum())(x)
    assert g.dtype is float16


def test_integers_are_lifted_to_float32() -> None:
    got = tensor([[1, 3]]).layer_norm(eps=0.0)
    assert got.dtype is float32
    np.testing.assert_array_equal(got.numpy(), [[-1.0, 1.0]])


def test_no_rows_give_no_rows_and_zero_gradients_of_the_weight() -> None:
    x, w = tensor(np.zeros((0, 3))), tensor(np.ones(3))
    assert x.layer_norm(w).shape == (0, 3)
    np.testing.assert_array_equal(grad(lambda w: x.layer_norm(w).sum())(w).numpy(), np.zeros(3))


def test_nan_and_infinity_spoil_their_row_only() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 1.0], [1.0, 3.0]])
    got = tensor(x).layer_norm(eps=0.0).numpy()
    assert np.isnan(got[:2]).all()
    np.testing.assert_array_equal(got[2], [-1.0, 1.0])


def test_a_constant_row_gives_zeros_and_a_finite_gradient() -> None:
    x = tensor(np.full((1, 4), 3.0))
    value, g = value_and_grad(lambda x: (x.layer_norm() ** 2).sum())(x)
    assert value.item() == 0.0
    np.testing.assert_array_equal(g.numpy(), np.zeros((1, 4)))


def test_hessian_vector_products_of_layer_norm_are_those_of_differences() -> None:
    x, v, w = normal(3, 5), normal(3, 5), tensor(normal(5))

    def loss(x: Tensor) -> Any:
        return (x.layer_norm(w, eps=1e-3) ** 3).sum()

    got = grad(lambda x: (grad(loss)(x) * tensor(v)).sum())(tensor(x)).numpy()
    step = 1e-5
    ahead, behind = (grad(loss)(tensor(x + s * v)).numpy() for s in (step, -step))
    np.testing.assert_allclose(got, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_only_the_input_is_kept_for_the_backward_pass() -> None:
    x = tensor(normal(8, 16), device=autodiff("numpy")).require_grad()
    w = tensor(normal(16))
    # x, the weight, and nothing of the sum
    assert saved_bytes(x.layer_norm(w).sum()) == (8 * 16 + 16) * 8


def test_a_weight_of_another_size_is_a_shape_error() -> None:
    with pytest.raises(ShapeError) as error:
        tensor(normal(2, 4)).layer_norm(tensor(normal(3)))
    assert str(error.value) == (
        "layer_norm requires weight.shape == (4,) for x of shape (2, 4), got (3,)"
    )
    with pytest.raises(ShapeError, match=r"rms_norm requires weight\.shape == \(2, 4\)"):
        tensor(normal(2, 4)).rms_norm(tensor(normal(4)), (0, 1))


def test_an_axis_outside_the_rank_and_a_negative_eps_are_errors() -> None:
    with pytest.raises(AxisError, match="layer_norm requires -2 <= axis < 2, got axis=2"):
        tensor(normal(2, 4)).layer_norm(None, None, 2)
    with pytest.raises(ArgumentError, match=r"rms_norm requires eps >= 0, got -1\.0"):
        tensor(normal(2, 4)).rms_norm(eps=-1.0)


def test_a_cotangent_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"requires g.shape == \(2, 3\) .* got \(1, 3\)"):
        zeros((1, 3))._layer_norm_backward(zeros((2, 3)), None, axis=-1, eps=0.1, argnums=(0,))


@pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")
@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "group_norm", "instance_norm", "var"])
@pytest.mark.parametrize("name", [n for n in device_names() if device_problem(n) is None])
def test_a_norm_keeps_nan_and_infinity_to_their_rows(name: str, norm: str, width: int) -> None:
    data = np.ones((4, width), np.float32)
    data[0, 0], data[2, -1] = np.nan, np.inf
    x = tensor(data, device=name)
    found = {
        "layer_norm": lambda: x.layer_norm(),
        "rms_norm": lambda: x.rms_norm(),
        "group_norm": lambda: x.expand_dims(1).group_norm(num_groups=1)[:, 0],
        "instance_norm": lambda: x.expand_dims(1).instance_norm()[:, 0],
        "var": lambda: x.var(-1),
    }[norm]()
    is_nan = np.isnan(found.numpy()).reshape(4, -1).any(1)
    np.testing.assert_array_equal(is_nan, [True, False, True, False])
