"""Norms of channels, against torch and against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import float16

torch = pytest.importorskip("torch")
F = torch.nn.functional

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape)


def torch_gradients(fn: Any, *arrays: Any) -> list[Any]:
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = fn(*inputs)
    (
        out * torch.cos(torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape))
    ).sum().backward()
    return [out.detach().numpy(), *(i.grad.numpy() for i in inputs)]


def gradients(fn: Any, *arrays: Any) -> list[Any]:
    inputs = [tensor(a) for a in arrays]
    out = fn(*inputs)
    weight = tensor(np.cos(np.arange(out.size)).reshape(out.shape))
    found = grad(lambda *x: (fn(*x) * weight).sum(), range(len(arrays)))(*inputs)
    return [out.numpy(), *(g.numpy() for g in found)]


def assert_agree(ours: list[Any], theirs: list[Any]) -> None:
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 4, 3, 2)])
@pytest.mark.parametrize("num_groups", [1, 2])
def test_group_norm_and_its_gradients_are_torchs(shape: tuple[int, ...], num_groups: int) -> None:
    arrays = normal(*shape), normal(4), normal(4)
    assert_agree(
        gradients(lambda x, w, b: x.group_norm(w, b, num_groups=num_groups), *arrays),
        torch_gradients(lambda x, w, b: F.group_norm(x, num_groups, w, b), *arrays),
    )


def test_instance_norm_and_its_gradients_are_torchs() -> None:
    arrays = normal(3, 4, 5), normal(4), normal(4)
    assert_agree(
        gradients(lambda x, w, b: x.instance_norm(w, b), *arrays),
        torch_gradients(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), *arrays),
    )


@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 5), (2, 4, 3, 2)])
def test_batch_norm_and_its_gradients_are_torchs(shape: tuple[int, ...]) -> None:
    arrays = normal(*shape), normal(4), normal(4)
    assert_agree(
        gradients(lambda x, w, b: x.batch_norm(w, b)[0], *arrays),
        torch_gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), *arrays),
    )


def test_batch_norm_with_given_statistics_is_torchs() -> None:
    arrays = normal(3, 4, 5), normal(4), normal(4)
    mean, variance = normal(4), rng.uniform(0.5, 2, 4)
    ours, theirs = [[pack(mean), pack(variance)] for pack in (tensor, torch.tensor)]
    assert_agree(
        gradients(lambda x, w, b: x.batch_norm_inference(*ours, w, b), *arrays),
        torch_gradients(lambda x, w, b: F.batch_norm(x, *theirs, w, b, False), *arrays),
    )


def test_batch_norm_returns_the_mean_and_the_biased_variance() -> None:
    x = normal(3, 4, 5)
    _, mean, variance = tensor(x).batch_norm()
    np.testing.assert_allclose(mean.numpy(), x.mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(variance.numpy(), x.var((0, 2)), rtol=1e-12)


def test_gradients_flow_through_the_statistics_of_batch_norm() -> None:
    x, cosines = normal(3, 4, 5), np.cos(np.arange(4))

    def ours(x: Tensor) -> Any:
        _, mean, variance = x.batch_norm()
        return ((mean * variance + variance.exp()) * tensor(cosines)).sum()

    inside = torch.tensor(x, requires_grad=True)
    mean, variance = inside.mean((0, 2)), inside.var((0, 2), correction=0)
    ((mean * variance + variance.exp()) * torch.tensor(cosines)).sum().backward()
    np.testing.assert_allclose(grad(ours)(tensor(x)).numpy(), inside.grad.numpy(), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_local_response_norm_and_its_gradient_are_torchs(size: int) -> None:
    x = normal(2, 5, 3)
    settings = {"alpha": 0.3, "beta": 0.6, "k": 1.5}
    assert_agree(
        gradients(lambda x: x.local_response_norm(size, **settings), x),
        torch_gradients(lambda x: F.local_response_norm(x, size, **settings), x),
    )


def test_neighbours_that_no_channel_has_take_no_time() -> None:
    x = normal(2, 3, 4)
    want = x / (1e-4 / 2**40 * (x * x).sum(1, keepdims=True) + 0.5) ** 0.75
    np.testing.assert_allclose(tensor(x).local_response_norm(2**40, k=0.5).numpy(), want, 1e-6)
    assert tensor(x[:, :0]).local_response_norm(5).shape == (2, 0, 4)


def test_hessian_vector_products_of_batch_norm_are_those_of_differences() -> None:
    x, v, w = normal(4, 3, 2), normal(4, 3, 2), tensor(normal(3))

    def loss(x: Tensor) -> Any:
        out, mean, variance = x.batch_norm(w, eps=1e-3)
        return (out**3).sum() + (mean * variance * variance).sum()

    got = grad(lambda x: (grad(loss)(x) * tensor(v)).sum())(tensor(x)).numpy()
    step = 1e-5
    ahead, behind = (grad(loss)(tensor(x + s * v)).numpy() for s in (step, -step))
    np.testing.assert_allclose(got, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_a_frozen_weight_gets_no_gradient_and_changes_none() -> None:
    x, w, b = tensor(normal(3, 4, 5)), tensor(normal(4)), tensor(normal(4))

    def loss(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return (x.batch_norm(w, b)[0] ** 3).sum()

    every = grad(loss, (0, 1, 2))(x, w, b)
    for position in range(3):
        alone = grad(loss, position)(x, w, b)
        np.testing.assert_array_equal(alone.numpy(), every[position].numpy())


def test_float16_batch_norm_survives_squares_that_overflow_it() -> None:
    x = (normal(64, 2) * 300).astype(np.float16)
    out, mean, _ = tensor(x).batch_norm()
    assert out.dtype is mean.dtype is float16
    np.testing.assert_allclose(out.numpy().astype(float).std(0), [1, 1], rtol=1e-2)


def test_one_value_per_channel_gives_the_bias() -> None:
    x, b = tensor(normal(1, 3)), tensor(normal(3))
    (value, out), g = value_and_grad(
        lambda x: ((out := x.batch_norm(None, b)[0]).sum(), out), has_aux=True
    )(x)
    np.testing.assert_allclose(value.item(), b.numpy().sum())
    np.testing.assert_array_equal(out.numpy(), b.numpy()[None])
    np.testing.assert_array_equal(g.numpy(), np.zeros((1, 3)))


def test_shapes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ShapeError) as error:
        tensor(normal(2, 5)).group_norm(num_groups=2)
    assert str(error.value) == (
        "group_norm requires channels in equal groups, got 5 channels for num_groups=2"
    )
    with pytest.raises(ShapeError, match=r"batch_norm requires x of shape \(N, C, \.\.\.\), got"):
        tensor(normal(5)).batch_norm()
    with pytest.raises(ShapeError, match=r"group_norm requires x of shape \(N, C, \.\.\.\), got"):
        tensor(normal(5)).instance_norm()
    with pytest.raises(ShapeError, match=r"batch_norm requires bias\.shape == \(5,\)"):
        tensor(normal(2, 5)).batch_norm(None, tensor(normal(2)))
    with pytest.raises(ShapeError, match=r"inference requires variance\.shape == \(5,\)"):
        tensor(normal(2, 5)).batch_norm_inference(tensor(normal(5)), tensor(normal(1)))
    with pytest.raises(ArgumentError, match="local_response_norm requires size >= 1, got 0"):
        tensor(normal(2, 5)).local_response_norm(0)


def test_gradients_of_group_norm_are_refused_where_groups_are_unequal() -> None:
    x = tensor(np.ones((2, 3, 8)))

    with pytest.raises(ShapeError, match="channels in equal groups, got 3 channels"):
        x._group_norm_backward(x, None, num_groups=2, eps=0.1, argnums=(0,))
