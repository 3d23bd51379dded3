"""Reductions against NumPy and torch: dtypes, zeros, gradients, and nothing to reduce."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import AxisError, DTypeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import INTEGERS, DType, bfloat16, bool_, float16, float32, uint32

INF = float("inf")
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


def test_an_axis_outside_the_rank_is_named() -> None:
    with pytest.raises(AxisError, match=r"sum requires -2 <= axis < 2, got axis=2"):
        tensor(np.zeros((2, 2))).sum(2)
    with pytest.raises(AxisError, match=r"max requires distinct axes"):
        tensor(np.zeros((2, 2))).max((0, -2))


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


def test_a_zero_d_tensor_is_its_own_reduction() -> None:
    x = tensor(3.0)
    for name in ("sum", "prod", "mean", "max", "min", "max_abs"):
        assert getattr(x, name)().item() == 3
        assert getattr(x, name)(()).shape == ()
    assert x.argmax().item() == 0
