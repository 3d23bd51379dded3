from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import GradientError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import FLOATS, DType, float32

NAN, INF = float("nan"), float("inf")

# name, then an interval inside its domain
FUNCTIONS: dict[str, tuple[float, float]] = {
    "exp": (-3, 3), "exp2": (-3, 3), "expm1": (-3, 3), "log": (0.1, 9), "log2": (0.1, 9),
    "log10": (0.1, 9), "log1p": (-0.9, 9), "sin": (-9, 9), "cos": (-9, 9), "tan": (-1.4, 1.4),
    "asin": (-0.99, 0.99), "acos": (-0.99, 0.99), "atan": (-9, 9), "sinh": (-3, 3),
    "cosh": (-3, 3), "tanh": (-3, 3), "asinh": (-9, 9), "acosh": (1.01, 9), "atanh": (-0.99, 0.99),
    "erf": (-3, 3), "erfinv": (-0.99, 0.99), "ndtr": (-3, 3), "lgamma": (0.1, 9),
    "digamma": (0.1, 9), "deg2rad": (-360, 360), "rad2deg": (-7, 7),
}  # fmt: skip
OF_TWO = ("logaddexp", "xlogy", "hypot", "atan2")


def gradients(fn: Callable[..., Any], *arrays: Any) -> list[Any]:
    tensors = [tensor(np.asarray(a)) for a in arrays]
    found = grad(lambda *x: fn(*x).sum(), range(len(tensors)))(*tensors)
    return [g.numpy() for g in found]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_of_one_argument_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.linspace(*FUNCTIONS[name], 101)
    theirs = torch.tensor(x, requires_grad=True)
    out = getattr(torch.special if name == "ndtr" else torch, name)(theirs)
    out.sum().backward()
    np.testing.assert_allclose(
        getattr(tensor(x), name)().numpy(), out.detach().numpy(), rtol=1e-13, atol=1e-14
    )
    (found,) = gradients(getattr(Tensor, name), x)
    # PyTorch's trigamma has nine digits; ours is judged in tests/backend/numpy/test_special.py.
    rtol = 1e-9 if name == "digamma" else 1e-12
    np.testing.assert_allclose(found, theirs.grad.numpy(), rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("name", OF_TWO)
def test_values_and_gradients_of_two_arguments_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 3, (4, 3)), rng.uniform(0.1, 3, (3,))]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(torch, name)(*theirs)
    out.sum().backward()
    found = getattr(Tensor, name)(*map(tensor, arrays))
    np.testing.assert_allclose(found.numpy(), out.detach().numpy(), rtol=1e-14)
    for ours, leaf in zip(gradients(getattr(Tensor, name), *arrays), theirs, strict=True):
        np.testing.assert_allclose(ours, leaf.grad.numpy(), rtol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_become_the_default_float(name: str) -> None:
    assert getattr(tensor([1]), name)().dtype is float32


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.compute is not d], ids=str)
def test_narrow_floats_are_the_rounded_results_of_float32(name: str, dtype: DType) -> None:
    x = tensor(np.linspace(*FUNCTIONS[name], 50)).astype(dtype)
    wide = getattr(x.astype(float32), name)().astype(dtype)
    found = getattr(x, name)()
    assert found.dtype is dtype
    np.testing.assert_array_equal(found.numpy(), wide.numpy())


@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("exp", [-INF, INF, NAN, 1e3], [0, INF, NAN, INF]),
        ("log", [0.0, -1.0, INF], [-INF, NAN, INF]),
        ("log1p", [-1.0, -2.0, 1e-20], [-INF, NAN, 1e-20]),
        ("expm1", [-INF, 1e-20], [-1, 1e-20]),
        ("tanh", [-INF, 1e3], [-1, 1]),
        ("asin", [2.0], [NAN]),
        ("acosh", [0.5, 1.0], [NAN, 0]),
        ("atanh", [1.0, -1.0, 2.0], [INF, -INF, NAN]),
        ("erf", [INF, NAN], [1, NAN]),
        ("erfinv", [1.0, -1.0, 1.5], [INF, -INF, NAN]),
        ("ndtr", [INF, -INF, -60.0, NAN], [1, 0, 0, NAN]),
        ("lgamma", [0.0, -3.0, INF], [INF, INF, INF]),
        ("digamma", [0.0, -0.0, -1.0], [-INF, INF, NAN]),
    ],
)
def test_the_ends_of_domains(name: str, points: list[float], expected: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        found = getattr(tensor(np.array(points, dtype)), name)().numpy()
        np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_logaddexp_neither_overflows_nor_loses_infinities() -> None:
    x = np.array([1000.0, -1000.0, INF, -INF, INF, NAN])
    y = np.array([1000.0, -2000.0, INF, -INF, -INF, 0.0])
    expected = [1000 + math.log(2), -1000, INF, -INF, INF, NAN]
    np.testing.assert_array_equal(tensor(x).logaddexp(tensor(y)).numpy(), expected)
    by_x, by_y = gradients(Tensor.logaddexp, x[:5], y[:5])
    assert by_x.tolist() == [0.5, 1, 0.5, 0.5, 1]
    assert by_y.tolist() == [0.5, 0, 0.5, 0.5, 0]


def test_xlogy_of_zero_is_zero_unless_y_is_nan() -> None:
    x, y = tensor([0.0, 0.0, 0.0, 2.0]), tensor([0.0, INF, NAN, 0.0])
    np.testing.assert_array_equal(x.xlogy(y).numpy(), [0, 0, NAN, -INF])
    by_x, by_y = gradients(Tensor.xlogy, [0.0], [0.0])
    assert by_x.tolist() == [0]
    assert np.isnan(by_y).all()


def test_hypot_and_atan2_have_gradient_zero_at_the_origin_and_do_not_overflow() -> None:
    for fn in (Tensor.hypot, Tensor.atan2):
        assert [g.tolist() for g in gradients(fn, [0.0], [0.0])] == [[0], [0]]
    assert tensor([3e30]).hypot(4e30).item() == pytest.approx(5e30)


def test_atan2_knows_the_signs_of_zero() -> None:
    y, x = tensor([0.0, -0.0, 0.0, -0.0]), tensor([0.0, 0.0, -0.0, -0.0])
    np.testing.assert_array_equal(y.atan2(x).numpy(), np.arctan2(y.numpy(), x.numpy()))


def test_a_number_may_stand_for_either_argument() -> None:
    x = tensor(np.array([0.5, 2.0]))
    assert x.hypot(1.0).numpy() == pytest.approx(np.hypot([0.5, 2], 1))
    assert gradients(lambda t: t.xlogy(3.0), [0.5])[0] == pytest.approx([math.log(3)])
    assert gradients(lambda t: t.atan2(2.0), [1.0])[0] == pytest.approx([2 / 5])
    assert gradients(lambda t: t.logaddexp(0.0), [0.0])[0] == pytest.approx([0.5])


def test_lgamma_may_be_differentiated_twice_and_a_third_time_says_no() -> None:
    twice = grad(grad(lambda x: x.lgamma()))
    assert twice(tensor(np.array(1.0))).item() == pytest.approx(math.pi**2 / 6)
    with pytest.raises(GradientError, match=r"^trigamma requires a derivative rule"):
        grad(twice)(tensor(np.array(1.0)))


def test_sinc_is_numpys_and_smooth_at_zero() -> None:
    x = np.array([0.0, 1e-9, 0.5, -1.3, 2.0])
    np.testing.assert_allclose(tensor(x).sinc().numpy(), np.sinc(x), atol=1e-15)
    assert grad(lambda x: x.sinc())(tensor(np.array(0.0))).item() == 0.0


def test_derivatives_of_logaddexp_where_operands_are_equal_or_far_apart() -> None:
    x, y = tensor([1.0, -1e30, 0.0, 700.0, math.inf]), tensor([1.0, 0.5, -1e30, -700.0, math.inf])
    first = lambda x: grad(lambda x: x.logaddexp(y).sum())(x)  # noqa: E731
    assert first(x).tolist() == [0.5, 0.0, 1.0, 1.0, 0.5]
    assert grad(lambda x: first(x).sum())(x).tolist() == [0.25, 0.0, 0.0, 0.0, 0.0]
