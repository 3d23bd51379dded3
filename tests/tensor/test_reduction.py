"""Reductions against NumPy and torch: every dtype, NaN, zeros, ties, and nothing to reduce."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import AxisError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTYPES, INTEGERS, DType, bfloat16, bool_, float16, float32, int32, uint32

NAN, INF = float("nan"), float("inf")
ALL_AXES = [None, 0, -1, (0, 2), (), (2, 1)]


def values(shape: tuple[int, ...], dtype: DType = float32, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0 if dtype.kind in ("uint", "bool") else -9, 10, shape).astype(dtype.numpy)


def gradient(fn: Any, data: Any) -> Any:
    return grad(fn)(tensor(np.asarray(data, np.float64))).numpy().tolist()


@pytest.mark.parametrize("axis", ALL_AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "any", "all"])
def test_every_reduction_agrees_with_numpy_on_every_axis(
    name: str, axis: Any, keepdims: bool
) -> None:
    x = values((2, 3, 4)).astype(np.float32)
    got = getattr(tensor(x), name)(axis, keepdims=keepdims)
    want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_extrema_keep_every_dtype(dtype: DType) -> None:
    x = values((3, 4), dtype)
    for name in ("max", "min"):
        got = getattr(tensor(x), name)(1)
        assert got.dtype is dtype
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, axis=1))
    position = tensor(x).argmax(1)
    assert position.dtype is int32
    np.testing.assert_array_equal(position.numpy(), x.astype(np.float64).argmax(1))


@pytest.mark.parametrize("dtype", [*INTEGERS, bool_], ids=lambda d: d.name)
def test_narrow_integers_are_summed_in_32_bits(dtype: DType) -> None:
    x = tensor(np.full(300, dtype.highest, dtype.numpy))
    wide = {"int64": "int64", "uint64": "uint64"}.get(dtype.name)
    wanted = wide or ("uint32" if dtype.kind == "uint" else "int32")
    assert x.sum().dtype.name == x.prod().dtype.name == wanted
    assert x.sum().item() == np.full(300, dtype.highest, dtype.numpy).sum(dtype=wanted)


def test_a_sum_is_made_in_the_dtype_that_is_asked_for() -> None:
    x = tensor(np.full(3, 60000, np.float16))
    assert x.sum().item() == INF
    assert x.sum(dtype="float32").item() == 180000
    assert tensor([1, 2]).sum(dtype="float16").dtype is float16
    assert tensor(np.array([True])).sum(dtype=uint32).dtype is uint32
    with pytest.raises(DTypeError, match=r"sum requires a dtype to accumulate float32 in, got"):
        tensor([1.5]).sum(dtype="int32")
    assert gradient(lambda x: x.sum(dtype="float32") * 2, [1, 2]) == [2, 2]


def test_a_gradient_comes_back_in_the_dtype_of_the_input() -> None:
    x = tensor(np.ones((2, 2), np.float16))
    for fn in (lambda x: x.sum(dtype="float32"), lambda x: x.prod(dtype="float32")):
        assert grad(fn)(x).dtype is float16


def test_the_mean_of_narrow_floats_does_not_overflow() -> None:
    for dtype in (float16, bfloat16):
        x = tensor(np.full(1000, 60000).astype(dtype.numpy))
        assert x.mean().dtype is dtype
        assert x.mean().item() == x[0].item()


def test_integers_have_a_float_mean() -> None:
    assert tensor([1, 2]).mean().dtype is float32
    assert tensor([1, 2]).mean().item() == 1.5


def test_over_nothing_a_sum_is_zero_a_product_one_and_a_mean_nan() -> None:
    x = tensor(np.zeros((2, 0), np.float32))
    assert x.sum(1).tolist() == [0, 0]
    assert x.prod(1).tolist() == [1, 1]
    assert np.isnan(x.mean(1).numpy()).all()
    assert x.any(1).tolist() == [False, False]
    assert x.all(1).tolist() == [True, True]
    assert x.max(0).shape == (0,)
    assert gradient(lambda x: x.prod(1).sum(), np.zeros((2, 0))) == [[], []]


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_has_no_extremum(name: str) -> None:
    x = tensor(np.zeros((2, 0), np.float32))
    with pytest.raises(ShapeError, match=rf"{name} requires sizes >= 1 on the reduced axes \(1,\)"):
        getattr(x, name)(1)


def test_an_axis_outside_the_rank_is_named() -> None:
    with pytest.raises(AxisError, match=r"sum requires -2 <= axis < 2, got axis=2"):
        tensor(np.zeros((2, 2))).sum(2)
    with pytest.raises(AxisError, match=r"max requires distinct axes"):
        tensor(np.zeros((2, 2))).max((0, -2))


def test_nan_wins_every_extremum() -> None:
    x = tensor([[1.0, NAN, 3.0], [1.0, 2.0, -INF]])
    assert np.isnan(x.max(1).numpy()).tolist() == [True, False]
    assert np.isnan(x.min(1).numpy()).tolist() == [True, False]
    assert x.argmax(1).tolist() == [1, 1]
    assert x.argmin(1).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "greatest", "least"),
    [([0.0, -0.0], "0.0", "-0.0"), ([-0.0, -1.0], "-0.0", "-1.0"), ([-0.0, 1.0], "1.0", "-0.0")],
)
def test_zero_is_above_minus_zero(data: list[float], greatest: str, least: str) -> None:
    for order in (data, data[::-1]):
        assert str(tensor(order).max().item()) == greatest
        assert str(tensor(order).min().item()) == least


def test_the_first_of_equals_has_the_position() -> None:
    x = tensor([[2.0, 2.0], [0.0, -0.0]])
    assert x.argmax(1).tolist() == [0, 0]
    assert x.argmin(1).tolist() == [0, 0]
    assert x.argmax().item() == 0
    assert x.argmax(0, keepdims=True).tolist() == [[0, 0]]


def test_ties_share_the_gradient_of_an_extremum() -> None:
    assert gradient(lambda x: x.max(), [3, 1, 3, 3]) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert gradient(lambda x: x.min(1).sum(), [[1, 1], [2, 3]]) == [[0.5, 0.5], [1, 0]]


def test_the_gradient_of_an_extremum_goes_to_nan() -> None:
    assert gradient(lambda x: x.max(), [3, NAN, 5]) == [0, 1, 0]


def test_with_indices_the_first_of_equals_gets_the_whole_gradient() -> None:
    assert gradient(lambda x: x.max_with_indices(0)[0], [3, 1, 3]) == [1, 0, 0]
    assert gradient(lambda x: x.min_with_indices(0)[0], [3, 1, 1]) == [0, 1, 0]


def test_extrema_come_with_their_indices_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            for name in ("max", "min"):
                got = getattr(tensor(x), f"{name}_with_indices")(axis, keepdims=keepdims)
                want = getattr(torch.tensor(x), name)(axis, keepdim=keepdims)
                np.testing.assert_array_equal(got[0].numpy(), want.values.numpy())
                np.testing.assert_array_equal(got[1].numpy(), want.indices.numpy())


@pytest.mark.parametrize(
    ("data", "expected"),
    [([2, 3, 4], [12, 8, 6]), ([2, 0, 4], [0, 8, 0]), ([0, 0, 4], [0, 0, 0]), ([5], [1])],
)
def test_the_gradient_of_a_product_is_right_at_zeros(data: Any, expected: Any) -> None:
    assert gradient(lambda x: x.prod(), data) == expected


def test_the_second_derivative_of_a_product_is_right_at_zeros() -> None:
    def mixed(x: Tensor) -> Tensor:
        return grad(lambda x: x.prod())(x)[0]

    # d2/dx0 dxj of x0 x1 x2 x3 is the product of the other two.
    assert gradient(mixed, [5, 0, 3, 2]) == [0, 6, 0, 0]
    assert gradient(mixed, [5, 0, 0, 2]) == [0, 0, 0, 0]
    assert gradient(mixed, [0, 2, 3, 4]) == [0, 12, 8, 6]


def test_the_gradient_of_a_product_over_several_axes_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = values((2, 3, 4), float32, seed=5).astype(np.float64)
    got = grad(lambda x: (x.prod((0, 2)) ** 2).sum())(tensor(x)).numpy()
    t = torch.tensor(x, requires_grad=True)
    (t.prod(2).prod(0) ** 2).sum().backward()
    np.testing.assert_allclose(got, t.grad.numpy())


def test_nan_is_not_zero_and_minus_zero_is() -> None:
    x = tensor([NAN, -0.0])
    assert x.any().item() is True
    assert x.all().item() is False
    assert x.count_nonzero().item() == 1
    assert x.count_nonzero().dtype is int32
    assert tensor([-0.0]).any().item() is False


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_counting_takes_every_dtype(dtype: DType) -> None:
    x = values((3, 4), dtype)
    got = tensor(x).count_nonzero(0)
    np.testing.assert_array_equal(got.numpy(), np.count_nonzero(x, axis=0))


def test_the_greatest_absolute_value() -> None:
    assert tensor([[1.0, -5.0], [2.0, 0.0]]).max_abs(1).tolist() == [5, 2]
    assert gradient(lambda x: x.max_abs(), [1, -5]) == [0, -1]


def test_closeness_and_nan_are_found() -> None:
    x = tensor([1.0, NAN])
    assert x.contains_nan().item() is True
    assert tensor([1, 2]).contains_nan().item() is False
    assert x.allclose(x).item() is False
    assert x.allclose(x, equal_nan=True).item() is True
    assert tensor([1.0]).all_close(1.0 + 1e-7).item() is True


def test_a_zero_d_tensor_is_its_own_reduction() -> None:
    x = tensor(3.0)
    for name in ("sum", "prod", "mean", "max", "min", "max_abs"):
        assert getattr(x, name)().item() == 3
        assert getattr(x, name)(()).shape == ()
    assert x.argmax().item() == 0
