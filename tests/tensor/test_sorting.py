"""Sorting against NumPy and torch: ties, NaN, every dtype, medians and quantiles, search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, AxisError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import DTYPES, FLOATS, DType, bfloat16, float16, float32, int32

NAN, INF = float("nan"), float("inf")


def repeated(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_dtype_is_sorted_stably_both_ways(dtype: DType) -> None:
    x = repeated((3, 17), dtype)
    for axis in (0, 1, -1):
        order = tensor(x).argsort(axis)
        assert order.dtype is int32
        np.testing.assert_array_equal(order, np.argsort(x.astype(float), axis, stable=True))
        falling = tensor(x).argsort(axis, descending=True)
        np.testing.assert_array_equal(falling, np.argsort(-x.astype(float), axis, stable=True))
        values = tensor(x).sort(axis, descending=True)
        assert values.dtype is dtype
        np.testing.assert_array_equal(values, np.take_along_axis(x, falling.numpy(), axis))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_nan_is_above_infinity_and_zeros_are_equal(dtype: DType) -> None:
    x = tensor(np.array([NAN, 0.0, INF, -0.0, NAN, -INF]).astype(dtype.numpy))
    assert x.argsort().tolist() == [5, 1, 3, 2, 0, 4]
    assert x.argsort(descending=True).tolist() == [0, 4, 2, 1, 3, 5]
    assert x.argtopk(3).tolist() == [0, 4, 2]
    assert x.argtopk(2, largest=False).tolist() == [5, 1]


def test_a_sort_says_where_its_values_were() -> None:
    values, indices = tensor([3, 1, 2]).sort_with_indices(descending=True)
    assert values.tolist() == [3, 2, 1]
    assert indices.tolist() == [0, 2, 1]


def test_sorting_nothing_and_one() -> None:
    assert tensor(np.zeros((2, 0))).sort().shape == (2, 0)
    assert tensor(np.zeros((0, 2))).sort(0).shape == (0, 2)
    assert tensor([7]).argsort().tolist() == [0]
    with pytest.raises(AxisError, match="sort requires"):
        tensor(7.0).sort()


def test_the_gradient_of_a_sort_goes_back_to_where_values_were() -> None:
    weights = np.array([1.0, 2.0, 3.0])

    def weighted(x: Any) -> Any:
        return (x.sort() * tensor(weights, device=x.device)).sum()

    x = tensor(np.array([[3.0, 1.0, 2.0], [0.0, 0.0, -1.0]]))
    assert grad(weighted)(x).tolist() == [[3, 1, 2], [2, 3, 1]]


def test_the_gradient_of_topk_goes_to_those_chosen() -> None:
    x = tensor(np.array([3.0, 1.0, 4.0, 4.0]))
    assert grad(lambda x: (x.topk(2)[0] ** 2).sum())(x).tolist() == [0, 0, 8, 8]
    assert grad(lambda x: x.topk(3)[0].sum())(x).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_topk_is_that_of_torch(largest: bool, axis: int) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32)
    values, indices = tensor(x).topk(3, axis, largest=largest)
    want = torch.tensor(x).topk(3, axis, largest=largest)
    np.testing.assert_array_equal(values.numpy(), want.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), want.indices.numpy())
    np.testing.assert_array_equal(tensor(x).argtopk(3, axis, largest=largest), indices)
    assert tensor(x).topk(0)[0].shape == (4, 5, 0)


def test_more_than_there_are_cannot_be_chosen() -> None:
    x = tensor([1.0, 2.0])
    for name in ("topk", "argtopk"):
        with pytest.raises(ArgumentError, match=f"{name} requires 0 <= k <= 2, the size of axis 0"):
            getattr(x, name)(3)
    with pytest.raises(ArgumentError, match="kthvalue requires 1 <= k <= 2"):
        x.kthvalue(0)


def test_the_kth_value_counts_from_one() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(2).normal(size=(3, 5))
    for keepdims in (False, True):
        values, indices = tensor(x).kthvalue(2, 1, keepdims=keepdims)
        want = torch.tensor(x).kthvalue(2, 1, keepdim=keepdims)
        np.testing.assert_array_equal(values.numpy(), want.values.numpy())
        np.testing.assert_array_equal(indices.numpy(), want.indices.numpy())


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_the_median_is_that_of_numpy(axis: Any) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 4))
    x[0, 0, 0] = NAN
    for keepdims in (False, True):
        got = tensor(x).median(axis, keepdims=keepdims)
        np.testing.assert_allclose(got.numpy(), np.median(x, axis=axis, keepdims=keepdims))


def test_the_median_with_indices_is_the_lower_one_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([[4.0, 1.0, 3.0, 2.0], [1.0, NAN, 5.0, NAN]])
    values, indices = tensor(x).median_with_indices(1)
    want = torch.tensor(x).median(1)
    np.testing.assert_array_equal(values.numpy(), want.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), want.indices.numpy())
    assert tensor(x).median_with_indices(1, keepdims=True)[0].shape == (2, 1)


def test_medians_at_the_limits() -> None:
    assert tensor([INF, INF]).median().item() == INF
    assert tensor([1, 2]).median().dtype is float32
    assert tensor(3.0).median().item() == 3
    for dtype in (float16, bfloat16):
        big = tensor(np.array([60000, 60000, 1, 1]).astype(dtype.numpy))
        assert big.median().dtype is dtype
        assert big[:2].median().item() == big[0].item()
    with pytest.raises(ShapeError, match="median requires sizes >= 1"):
        tensor(np.zeros((0,))).median()


def test_the_middle_two_share_the_gradient_of_a_median() -> None:
    x = tensor(np.array([4.0, 1.0, 3.0, 9.0]))
    assert grad(lambda x: x.median())(x).tolist() == [0.5, 0, 0.5, 0]


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0, (0.1, 0.25, 0.9)])
def test_quantiles_are_those_of_numpy(method: Any, q: Any) -> None:
    x = np.random.default_rng(4).normal(size=(2, 3, 7))
    for axis in (None, 2, (0, 2)):
        got = tensor(x).quantile(q, axis, method=method)
        np.testing.assert_allclose(got.numpy(), np.quantile(x, q, axis=axis, method=method))
    got = tensor(x).quantile(q, (0, 2), keepdims=True, method=method)
    assert got.shape == np.quantile(x, q, axis=(0, 2), keepdims=True).shape


def test_quantiles_outside_the_unit_interval_are_refused() -> None:
    for q in (-0.1, (0.5, 1.1), NAN, ()):
        with pytest.raises(ArgumentError, match="quantile requires 0 <= q <= 1"):
            tensor([1.0]).quantile(q)
    with pytest.raises(ArgumentError, match="quantile requires a method of linear, lower"):
        tensor([1.0]).quantile(0.5, method="cubic")  # type: ignore[arg-type]


def test_the_parts_may_be_an_array() -> None:
    got = tensor([1.0, 2.0, 3.0]).quantile(np.linspace(0, 1, 3))  # type: ignore[arg-type]
    assert got.tolist() == [1, 2, 3]


def test_a_quantile_of_nan_is_nan() -> None:
    got = tensor([[1.0, NAN], [1.0, 2.0]]).quantile((0.0, 1.0), 1)
    np.testing.assert_array_equal(got.numpy(), [[NAN, 1], [NAN, 2]])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("side", ["left", "right"])
def test_search_finds_the_place_in_every_dtype(dtype: DType, side: Any) -> None:
    x, values = np.sort(repeated((6,), dtype)), repeated((2, 3), dtype, seed=1)
    got = tensor(x).searchsorted(tensor(values), side=side)
    assert got.dtype is int32
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(x, values, side))


def test_search_at_the_limits() -> None:
    x = tensor([1.0, 2.0, NAN])
    assert x.searchsorted(tensor([NAN, INF, -INF])).tolist() == [2, 2, 0]
    assert x.searchsorted(1.5).item() == 1
    assert tensor(np.zeros((0,))).searchsorted(tensor([1.0])).tolist() == [0]
    assert tensor([1, 2]).searchsorted(tensor([1.5])).tolist() == [1]
    with pytest.raises(ShapeError, match=r"searchsorted requires sorted values of shape \(N,\)"):
        tensor([[1.0]]).searchsorted(1.0)
    with pytest.raises(ArgumentError, match="side 'left' or 'right', got 'middle'"):
        x.searchsorted(1.0, side="middle")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="searchsorted requires an integer dtype that holds both"):
        tensor(np.array([1], np.uint64)).searchsorted(tensor(np.array([1], np.int64)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sorter_gives_the_order_of_values_that_are_not_sorted(side: Any) -> None:
    x = np.array([3.0, 1.0, 2.0, 2.0])
    found = tensor(x).searchsorted(tensor([2.0, 0.0]), side=side, sorter=tensor(x).argsort())
    assert found.tolist() == np.searchsorted(np.sort(x), [2.0, 0.0], side).tolist()
