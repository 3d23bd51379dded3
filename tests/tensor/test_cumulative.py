"""Scans against NumPy and torch, and their gradients where factors are zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, AxisError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTYPES, INTEGERS, DType, bfloat16, float16, int32

NAN, INF = float("nan"), float("inf")


def integers(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("include_initial", [False, True])
def test_running_sums_and_products_are_those_of_numpy(axis: int, include_initial: bool) -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    for name in ("cumulative_sum", "cumulative_prod"):
        got = getattr(tensor(x), name)(axis, include_initial=include_initial)
        want = getattr(np, name)(x, axis=axis, include_initial=include_initial)
        np.testing.assert_allclose(got.numpy(), want)
        backwards = getattr(tensor(x), name)(axis, include_initial=include_initial, reverse=True)
        want = getattr(np, name)(np.flip(x, axis), axis=axis, include_initial=include_initial)
        np.testing.assert_allclose(backwards.numpy(), np.flip(want, axis))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_narrow_integers_are_scanned_in_32_bits_and_wrap_around(dtype: DType) -> None:
    x = integers((40,), dtype)
    for name in ("cumsum", "cumprod"):
        got = getattr(tensor(x), name)()
        assert got.dtype is getattr(tensor(x), name[3:])().dtype
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, dtype=got.dtype.numpy))


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_a_running_sum_of_narrow_floats_is_kept_in_float32(dtype: DType) -> None:
    # In float16 itself a sum of ones ends at 2048, in bfloat16 at 256.
    got = tensor(np.ones(4096, dtype.numpy)).cumulative_sum()
    assert got.dtype is dtype
    assert got[-1].item() == 4096


def test_the_dtype_of_a_scan_may_be_asked_for() -> None:
    assert tensor([1, 2]).cumulative_sum(dtype="float16").dtype is float16
    with pytest.raises(DTypeError, match="cumulative_prod requires a dtype to accumulate float32"):
        tensor([1.5]).cumulative_prod(dtype="int32")


def test_only_a_row_may_go_without_an_axis() -> None:
    for shape in ((), (2, 2)):
        with pytest.raises(AxisError, match=r"cumulative_sum requires an axis for a shape"):
            tensor(np.zeros(shape)).cumulative_sum()


def test_scans_of_nothing() -> None:
    x = tensor(np.zeros((0,), np.float32))
    assert x.cumulative_sum().tolist() == []
    assert x.cumulative_prod(include_initial=True).tolist() == [1]
    assert x.cummax(0).tolist() == []
    assert grad(lambda x: x.cumulative_prod(include_initial=True).sum())(x).tolist() == []


def cumprod_gradient(data: Any, weights: Any) -> Any:
    w = np.asarray(weights, np.float64)

    def weighted(x: Tensor) -> Tensor:
        return (x.cumulative_prod() * tensor(w, device=x.device)).sum()

    return grad(weighted)(tensor(np.asarray(data, np.float64))).numpy()


@pytest.mark.parametrize("data", [[2, 3, 4, 5], [2, 0, 4, 5], [0, 3, 0, 5], [0, 0, 0, 0], [7]])
def test_the_gradient_of_a_running_product_is_right_at_zeros(data: list[float]) -> None:
    weights = np.arange(1, len(data) + 1)
    want = [
        sum(weights[k] * np.prod([*data[:i], *data[i + 1 : k + 1]]) for k in range(i, len(data)))
        for i in range(len(data))
    ]
    np.testing.assert_allclose(cumprod_gradient(data, weights), want)


def test_the_second_derivative_of_a_running_product_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    data, direction = np.array([2.0, 3.0, 4.0, 5.0]), np.array([1.0, -1.0, 0.5, 2.0])

    def slope(x: Tensor) -> Tensor:
        first = grad(lambda x: (x.cumulative_prod() ** 2).sum())(x)
        return (first * tensor(direction, device=x.device)).sum()

    t = torch.tensor(data, requires_grad=True)
    (first,) = torch.autograd.grad((t.cumprod(0) ** 2).sum(), t, create_graph=True)
    (want,) = torch.autograd.grad((first * torch.tensor(direction)).sum(), t)
    np.testing.assert_allclose(grad(slope)(tensor(data)).numpy(), want.numpy())


def test_a_recurrence_is_its_loop() -> None:
    rng = np.random.default_rng(4)
    x, links = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    want = x.copy()
    for i in range(1, 5):
        want[i] += links[i - 1] * want[i - 1]
    got = tensor(x)._linear_recurrence(tensor(links), axis=0)
    np.testing.assert_allclose(got.numpy(), want)
    with pytest.raises(ShapeError, match=r"linear_recurrence requires links of shape \(4, 2\)"):
        tensor(x)._linear_recurrence(tensor(x), axis=0)


def test_the_running_logsumexp_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([[-INF, -800.0, 900.0, 3.0], [1.0, 2.0, -INF, 0.5]])
    got = tensor(x).logcumsumexp(1).numpy()
    np.testing.assert_allclose(got, torch.tensor(x).logcumsumexp(1).numpy())
    t = torch.tensor(x[1:], requires_grad=True)
    (t.logcumsumexp(1)[:, 1:] ** 2).sum().backward()
    g = grad(lambda x: (x.logcumsumexp(1)[:, 1:] ** 2).sum())(tensor(x[1:])).numpy()
    np.testing.assert_allclose(g, t.grad.numpy(), atol=1e-12)
    assert np.isfinite(grad(lambda x: x.logcumsumexp(1)[:, 1:].sum())(tensor(x)).numpy()).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_running_extrema_are_those_of_numpy_in_every_dtype(dtype: DType) -> None:
    x = integers((3, 8), dtype, seed=3)
    for axis in (0, 1):
        np.testing.assert_array_equal(tensor(x).cummax(axis), np.maximum.accumulate(x, axis=axis))
        np.testing.assert_array_equal(tensor(x).cummin(axis), np.minimum.accumulate(x, axis=axis))
    assert tensor(x).cummax(0).dtype is dtype
    assert tensor(x).cummax_with_indices(0)[1].dtype is int32


def test_running_extrema_take_the_first_of_equals_and_keep_nan() -> None:
    x = tensor([1.0, 3.0, 3.0, NAN, 5.0, NAN])
    values, indices = x.cummax_with_indices(0)
    np.testing.assert_array_equal(values.numpy(), [1, 3, 3, NAN, NAN, NAN])
    assert indices.tolist() == [0, 1, 1, 3, 3, 3]
    values, indices = x.cummin_with_indices(0)
    np.testing.assert_array_equal(values.numpy(), [1, 1, 1, NAN, NAN, NAN])
    assert indices.tolist() == [0, 0, 0, 3, 3, 3]


def test_the_gradient_of_running_extrema_goes_to_their_positions() -> None:
    x = tensor(np.array([1.0, 3.0, 2.0, 4.0]))
    assert grad(lambda x: x.cummax(0).sum())(x).tolist() == [1, 2, 0, 1]
    assert grad(lambda x: x.cummin(0).sum())(x).tolist() == [4, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_differences_are_those_of_numpy(axis: int, n: int) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 4))
    np.testing.assert_allclose(tensor(x).diff(n, axis).numpy(), np.diff(x, n, axis))


def test_differences_count_what_is_put_before_and_behind() -> None:
    x = np.array([[1.0, 4.0], [9.0, 16.0]])
    ends = {"prepend": np.zeros((2, 1)), "append": np.full((2, 2), 5.0)}
    found = tensor(x).diff(**{name: tensor(end) for name, end in ends.items()})
    np.testing.assert_array_equal(found.numpy(), np.diff(x, **ends))


def test_differences_that_cannot_be_are_errors() -> None:
    with pytest.raises(ArgumentError, match="diff requires n >= 0, got -1"):
        tensor([1.0]).diff(-1)
    with pytest.raises(ShapeError, match="diff requires at least one axis"):
        tensor(1.0).diff()
    with pytest.raises(DTypeError, match="diff requires a number dtype, got bool"):
        tensor([True]).diff()
