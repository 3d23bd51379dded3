from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import DTypeError
from pyrite.tensor.comparison import where
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTYPES, FLOATS, DType, float16

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_bool], ids=str)
def test_comparisons_are_bools_and_take_numbers_on_either_side(
    compare: Callable[[Any, Any], Any], dtype: DType
) -> None:
    x, y = tensor([1, 2, 3], dtype=dtype), tensor([2, 2, 2], dtype=dtype)
    expected = [compare(v, 2) for v in (1, 2, 3)]
    for found in (compare(x, y), compare(x, 2), compare(x, tensor(2, dtype=dtype))):
        assert found.dtype.is_bool
        assert found.numpy().tolist() == expected
    assert compare(2, x).numpy().tolist() == [compare(2, v) for v in (1, 2, 3)]


def test_nan_equals_nothing_and_is_in_no_order() -> None:
    x = tensor([NAN])
    for compare in COMPARISONS:
        assert compare(x, x).item() == (compare is operator.ne)


def test_zeros_of_both_signs_are_equal() -> None:
    assert (tensor([0.0]) == tensor([-0.0])).item() is True


def test_bools_are_compared_for_equality_only() -> None:
    x, y = tensor([True, False]), tensor([True, True])
    assert (x == y).numpy().tolist() == [True, False]
    assert (x != y).numpy().tolist() == [False, True]
    with pytest.raises(DTypeError, match=r"^less requires a number dtype, got bool"):
        x < y  # noqa: B015 - it raises


def test_an_integer_beside_a_fraction_is_compared_as_a_float() -> None:
    assert (tensor([1, 2]) > 1.5).numpy().tolist() == [False, True]


def test_tensors_have_no_hash_because_equality_is_elementwise() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor([1.0]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tests_of_floats(dtype: DType) -> None:
    x = tensor([NAN, INF, -INF, -0.0, 1.0], dtype=dtype)
    assert x.isnan().numpy().tolist() == [True, False, False, False, False]
    assert x.isinf().numpy().tolist() == [False, True, True, False, False]
    assert x.isfinite().numpy().tolist() == [False, False, False, True, True]
    assert x.signbit().numpy().tolist()[1:] == [False, True, True, False]


def test_integers_are_always_finite() -> None:
    x = tensor([0, -5, 2**31 - 1])
    assert x.isfinite().numpy().all()
    assert not (x.isnan() | x.isinf()).numpy().any()
    assert x.nan_to_num(nan=7) is x


def test_isclose_is_that_of_numpy() -> None:
    values = np.array([0.0, 1e-9, 1.0, 1.00001, 1.001, INF, -INF, NAN])
    x, y = np.meshgrid(values, values)
    for options in ({}, {"rtol": 1e-2}, {"atol": 0.1, "rtol": 0.0}, {"equal_nan": True}):
        found = tensor(x).isclose(tensor(y), **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.numpy(), np.isclose(x, y, **options))


def test_nan_to_num_knows_the_finite_bounds_of_each_dtype() -> None:
    x = [NAN, INF, -INF, 2.0]
    assert tensor(x, dtype=float16).nan_to_num().numpy().tolist() == [0, 65504, -65504, 2]
    for dtype in FLOATS:
        found = tensor(x, dtype=dtype).nan_to_num()
        assert found.dtype is dtype
        assert found.isfinite().numpy().all()
    assert tensor(x).nan_to_num(1, posinf=2, neginf=-3).numpy().tolist() == [1, 2, -3, 2]
    assert grad(lambda t: t.nan_to_num().sum())(tensor(x)).numpy().tolist() == [0, 0, 0, 1]


def test_where_broadcasts_and_promotes_what_it_chooses_from() -> None:
    condition = tensor([[True], [False]])
    found = where(condition, tensor([1, 2, 3]), tensor([0.5], dtype="float16"))
    assert found.dtype is float16
    assert found.numpy().tolist() == [[1, 2, 3], [0.5, 0.5, 0.5]]
    assert where(condition, 1.0, 0).numpy().tolist() == [[1], [0]]


def test_the_method_keeps_x_where_the_condition_holds_and_mask_where_replaces_it() -> None:
    x = tensor([1.0, 2.0])
    mask = tensor([True, False])
    assert x.where(mask, 0).numpy().tolist() == [1, 0]
    assert x.mask_where(mask, 0).numpy().tolist() == [0, 2]
    assert x.mask_where(mask, x * 10).numpy().tolist() == [10, 2]


def test_where_wants_a_bool_condition() -> None:
    with pytest.raises(DTypeError, match=r"^where requires a bool condition, got int32; compare"):
        where(tensor([1, 0]), tensor([1.0, 2.0]), 0.0)


def test_no_gradient_passes_where_where_did_not_choose() -> None:
    def guarded(x: Tensor) -> Tensor:
        return where(x > 0, x.maximum(1e-3).log(), 0.0).sum()

    assert grad(guarded)(tensor([-1.0, 2.0])).numpy().tolist() == [0, 0.5]
    x, y = tensor([1.0, 2.0]), tensor([3.0])
    by_y = grad(lambda x, y: where(x > 1.5, x, y).sum(), 1)(x, y)
    assert by_y.numpy().tolist() == [1]


def test_logic_is_of_bools() -> None:
    x, y = tensor([True, True, False, False]), tensor([True, False, True, False])
    assert x.logical_and(y).numpy().tolist() == [True, False, False, False]
    assert x.logical_or(y).numpy().tolist() == [True, True, True, False]
    assert x.logical_xor(y).numpy().tolist() == [False, True, True, False]
    assert x.logical_not().numpy().tolist() == [False, False, True, True]
    assert x.logical_and(True).numpy().tolist() == x.numpy().tolist()
    with pytest.raises(DTypeError, match=r"^logical_and requires a bool dtype, got int32; cast it"):
        tensor([1]).logical_and(tensor([0]))
