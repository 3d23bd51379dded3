"""Norms, angles and cross products against torch; gradients where a norm has none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, AxisError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import float16, float32, int8, int32

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


ORDERS = [0, 0.5, 1, 2, 3, -1, -2.5, math.inf, -math.inf]


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("axis", [None, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_and_their_gradients_are_torchs(ord: float, axis: Any, keepdims: bool) -> None:
    torch = pytest.importorskip("torch")
    x = floats(2, 3, 4)
    leaf = torch.tensor(x, requires_grad=True)
    expected = torch.linalg.vector_norm(leaf, ord, dim=axis, keepdim=keepdims)
    arguments: Any = {"axis": axis, "keepdims": keepdims, "ord": ord}
    np.testing.assert_allclose(
        tensor(x).vector_norm(**arguments).numpy(), expected.detach().numpy()
    )
    g = grad(lambda x: (x.vector_norm(**arguments) ** 2).sum())(tensor(x))
    (expected.square().sum() + 0 * leaf.sum()).backward()
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("ord", ORDERS)
def test_the_gradient_at_zero_is_zero(ord: float) -> None:
    g = grad(lambda x: x.vector_norm(-1, ord=ord).sum())(tensor([[0.0, 0.0], [0.0, 3.0]]))
    assert np.isfinite(g.numpy()).all()
    assert g.numpy()[0].tolist() == [0.0, 0.0]


def test_the_second_derivative_of_the_euclidean_norm_is_finite_at_zero() -> None:
    norm = grad(lambda x: (x.vector_norm(-1)).sum())
    second = grad(lambda x: norm(x).sum())(tensor([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(second.numpy(), [[0, 0], [4 / 125, -3 / 125]], atol=1e-7)


def test_equal_extremes_share_the_gradient() -> None:
    g = grad(lambda x: x.vector_norm(ord=math.inf))(tensor([2.0, -2.0, 1.0]))
    assert g.numpy().tolist() == [0.5, -0.5, 0.0]


def test_a_norm_in_half_precision_does_not_overflow_in_between() -> None:
    norm = tensor([300.0, 400.0], dtype="float16").vector_norm()
    assert norm.dtype is float16
    assert norm.item() == 500.0


def test_a_norm_over_nothing_is_zero_unless_it_is_an_extreme() -> None:
    assert tensor(np.zeros((2, 0))).vector_norm(-1).numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ShapeError, match=r"vector_norm with ord=inf requires sizes >= 1"):
        tensor(np.zeros((2, 0))).vector_norm(-1, ord=math.inf)


def test_norms_have_burns_names_too() -> None:
    x = tensor([[3.0, 0.0, -4.0]])
    norms = [x.l0_norm(1), x.l1_norm(1), x.l2_norm(1), x.max_abs_norm(1), x.min_abs_norm(1)]
    assert [n.item() for n in norms] == [2.0, 7.0, 5.0, 4.0, 0.0]
    assert x.lp_norm(2, 1, keepdims=True).shape == (1, 1)


def test_integers_have_a_float_norm() -> None:
    norm = tensor([3, -4]).vector_norm()
    assert (norm.item(), norm.dtype) == (5.0, float32)


def test_a_norm_of_no_number_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"vector_norm requires a number as ord, got nan"):
        tensor([1.0]).vector_norm(ord=math.nan)
    with pytest.raises(AxisError, match=r"vector_norm requires -1 <= axis < 1, got axis=1"):
        tensor([1.0]).vector_norm(1)


def test_vector_normalize_is_torchs_and_leaves_zeros() -> None:
    torch = pytest.importorskip("torch")
    x = floats(3, 4)
    x[0] = 0
    expected = torch.nn.functional.normalize(torch.tensor(x), p=3.0, dim=-1)
    np.testing.assert_allclose(tensor(x).vector_normalize(3).numpy(), expected.numpy())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cosine_similarity_and_its_gradient_are_torchs(axis: int) -> None:
    torch = pytest.importorskip("torch")
    x, y = floats(3, 4), floats(3, 4)
    tx, ty = (torch.tensor(a, requires_grad=True) for a in (x, y))
    expected = torch.nn.functional.cosine_similarity(tx, ty, dim=axis)
    expected.square().sum().backward()
    out = tensor(x).cosine_similarity(tensor(y), axis)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy())
    gx, gy = grad(lambda x, y: (x.cosine_similarity(y, axis) ** 2).sum(), (0, 1))(
        tensor(x), tensor(y)
    )
    np.testing.assert_allclose(gx.numpy(), tx.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(gy.numpy(), ty.grad.numpy(), atol=1e-12)


def test_the_cosine_of_a_vector_of_zeros_is_zero_with_a_finite_gradient() -> None:
    zeros, ones = tensor([0.0, 0.0]), tensor([1.0, 1.0])
    assert zeros.cosine_similarity(ones).item() == 0.0
    assert np.isfinite(grad(lambda x: x.cosine_similarity(ones))(zeros).numpy()).all()


def test_pairwise_distance_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    x, y = floats(5, 3), floats(5, 3)
    expected = torch.nn.functional.pairwise_distance(torch.tensor(x), torch.tensor(y), p=1.0)
    np.testing.assert_allclose(tensor(x).pairwise_distance(tensor(y), 1).numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("x", "y", "axis"), [((3,), (3,), -1), ((4, 3), (3,), -1), ((3, 1), (2, 3, 2), 1)]
)
def test_cross_is_numpys(x: Any, y: Any, axis: int) -> None:
    a, b = floats(*x), floats(*y)
    from_end = axis if axis < 0 else axis - max(len(x), len(y))
    expected = np.cross(a, b, axisa=from_end, axisb=from_end, axisc=from_end)
    np.testing.assert_allclose(tensor(a).cross(tensor(b), axis).numpy(), expected, atol=1e-15)


def test_cross_is_of_vectors_of_three() -> None:
    with pytest.raises(ShapeError, match=r"cross requires size 3 along its axis, got \(2,\)"):
        tensor(floats(2)).cross(tensor(floats(2)))
    with pytest.raises(ShapeError, match=r"equal sizes along axis -1, got \(3,\) and \(4,\)"):
        tensor(floats(3)).cross(tensor(floats(4)))
    with pytest.raises(ShapeError, match=r"equal sizes along axis 0, got \(3, 3\) and \(3,\)"):
        tensor(floats(3, 3)).cross(tensor(floats(3)), axis=0)


def test_trace_sums_a_diagonal_in_the_dtype_of_the_matrix() -> None:
    x = floats(2, 3, 4)
    for offset in (0, 1, -2, 7):
        expected = np.trace(x, offset, 1, 2)
        np.testing.assert_allclose(tensor(x).trace(offset=offset).numpy(), expected)
    assert tensor([[1, 2], [3, 4]], dtype="int8").trace().dtype is int8
    assert tensor([[1, 2], [3, 4]]).trace().dtype is int32
    with pytest.raises(ShapeError, match=r"trace requires at least two axes, got \(3,\)"):
        tensor(floats(3)).trace()
