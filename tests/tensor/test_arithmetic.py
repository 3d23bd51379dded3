from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTYPES, FLOATS, INTEGERS, DType, bfloat16, float16, float32, int8, uint64


def slope(fn: Callable[..., Tensor], *at: Any, of: int = 0) -> list[float]:
    """Return the gradient of the sum of ``fn`` by one of its arguments."""
    tensors = [tensor(np.array(a, np.float64)) for a in at]
    found: list[float] = grad(lambda *x: fn(*x).sum(), of)(*tensors).numpy().tolist()
    return found


def expected_dtype(x: DType, y: DType) -> str:
    """Return what NumPy says within a kind; across kinds the float's dtype, bools giving way."""
    if {x, y} == {float16, bfloat16}:
        return "float32"
    if x.is_float != y.is_float:
        return x.name if x.is_float else y.name
    if bfloat16 in (x, y):
        return max(x, y, key=lambda d: d.itemsize).name
    return str(np.result_type(x.numpy, y.numpy))


PAIRS = [p for p in itertools.product(DTYPES, DTYPES) if not p[0].is_bool or not p[1].is_bool]
UNPROMOTABLE = [p for p in PAIRS if uint64 in p and "int" in (p[0].kind, p[1].kind)]


@pytest.mark.parametrize(("x", "y"), [p for p in PAIRS if p not in UNPROMOTABLE], ids=str)
def test_two_dtypes_meet_as_in_numpy_but_a_float_beside_an_integer_stays(
    x: DType, y: DType
) -> None:
    total = tensor([0, 1], dtype=x) + tensor([1, 1], dtype=y)
    assert total.dtype.name == expected_dtype(x, y)
    assert total.numpy().astype(float).tolist() == [1, 2]


@pytest.mark.parametrize(("x", "y"), UNPROMOTABLE, ids=str)
def test_uint64_and_a_signed_integer_are_an_error(x: DType, y: DType) -> None:
    with pytest.raises(DTypeError, match=r"^add requires an integer dtype that holds both, got"):
        tensor(1, dtype=x) + tensor(1, dtype=y)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_bool], ids=str)
def test_a_python_number_takes_the_dtype_of_the_tensor(dtype: DType) -> None:
    x = tensor([1, 2], dtype=dtype)
    for found in (
        x + 1,
        1 + x,
        x * 2,
        3 - x,
        x**2,
        2**x,
        x // 2,
        5 % x,
        x.maximum(1),
        x.clip(0, 1),
    ):
        assert found.dtype is dtype
    assert (x + 0.5).dtype is (dtype if dtype.is_float else float32)
    assert (1 / x).dtype is (dtype if dtype.is_float else float32)


@pytest.mark.parametrize(
    "symbol",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
        operator.mod, operator.pow,
    ],
)  # fmt: skip
def test_operators_take_numbers_on_either_side(symbol: Callable[[Any, Any], Any]) -> None:
    values = np.array([1.0, 2.5, 4.0])
    x = tensor(values)
    np.testing.assert_allclose(symbol(x, 3).numpy(), symbol(values, 3), rtol=1e-15)
    np.testing.assert_allclose(symbol(3, x).numpy(), symbol(3, values), rtol=1e-15)
    np.testing.assert_allclose(symbol(x, x).numpy(), symbol(values, values), rtol=1e-15)


def test_unary_operators_and_rounding() -> None:
    x = tensor([-1.5, 2.5])
    assert (-x).numpy().tolist() == [1.5, -2.5]
    assert (+x).numpy().tolist() == [-1.5, 2.5]
    assert abs(x).numpy().tolist() == [1.5, 2.5]
    assert round(x).numpy().tolist() == [-2, 2]
    assert round(tensor([1.234, -56.78]), 1).numpy().tolist() == pytest.approx([1.2, -56.8])
    assert tensor([1234.0]).round(-2).numpy().tolist() == [1200]


def test_augmented_assignment_rebinds_and_leaves_the_old_tensor_alone() -> None:
    x = old = tensor([1.0])
    x += 1
    assert (x.item(), old.item()) == (2.0, 1.0)


def test_integers_are_not_rounded_to_decimals() -> None:
    assert tensor([7]).round().numpy().tolist() == [7]
    expected = "^round requires decimals=0 for an integer dtype, got decimals=1; cast it"
    with pytest.raises(ArgumentError, match=expected):
        tensor([7]).round(1)


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        ([300.7, -300.7, np.nan, np.inf], "int8", [127, -128, 0, 127]),
        ([300.7, -1.0, np.nan, -np.inf], "uint8", [255, 0, 0, 0]),
        ([1.9, -1.9, 3e9, -3e9], "int32", [1, -1, 2**31 - 1, -(2**31)]),
        ([0.0, np.nan, 0.1, -2.0], "bool", [False, True, True, True]),
    ],
)
def test_floats_saturate_when_cast(x: list[float], dtype: str, expected: list[object]) -> None:
    for source in FLOATS:
        assert tensor(np.array(x)).astype(source).astype(dtype).numpy().tolist() == expected


def test_a_narrow_float_is_computed_in_float32_and_rounded_once() -> None:
    x = tensor([60000.0], dtype="float16")
    # lerp is one op: x + 0.5 * (x - -x) would overflow between the steps.
    assert tensor([-60000.0], dtype="float16").lerp(x, 0.5).item() == 0.0
    assert (x * x).item() == float("inf")
    third = tensor([1.0], dtype=bfloat16) / 3
    assert third.dtype is bfloat16
    assert third.item() == float(np.array(1 / 3, bfloat16.numpy))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_overflow_wraps_around(dtype: DType) -> None:
    most = tensor([int(dtype.highest)], dtype=dtype)
    assert (most + 1).item() == dtype.lowest
    assert (-tensor([int(dtype.lowest)], dtype=dtype)).item() == dtype.lowest
    assert tensor([int(dtype.lowest)], dtype=dtype).abs().item() == dtype.lowest


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_divided_by_zero_are_infinite_or_nan(dtype: DType) -> None:
    x, zero = tensor([1.0, -1.0, 0.0], dtype=dtype), tensor([0.0], dtype=dtype)
    for found in ((x / zero).numpy(), x.reciprocal().numpy()[2:]):
        assert not np.isfinite(found.astype(float)).any()
    assert np.isnan((x % zero).numpy().astype(float)).all()
    assert np.isnan(x.fmod(zero).numpy().astype(float)).all()
    assert (x // zero).numpy().astype(float)[:2].tolist() == [np.inf, -np.inf]


def test_floor_division_is_of_the_exact_quotient() -> None:
    x = tensor(np.array([1.0, -1.0, 7.5]))
    assert (x // 0.1).numpy().tolist() == [9, -10, 74]
    assert (x % -2).numpy().tolist() == [-1, -1, -0.5]
    assert x.fmod(-2).numpy().tolist() == [1, -1, 1.5]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extrema_and_clip_propagate_nan(dtype: DType) -> None:
    x = tensor([np.nan, 1.0], dtype=dtype)
    for found in (x.maximum(0), x.minimum(0), x.clip(0, 1), x.clip(max=5), (x * 0 + 2).clip(x, 3)):
        assert np.isnan(found.numpy().astype(float)[0])


def test_negative_zero_is_less_than_zero() -> None:
    plus, minus = tensor([0.0]), tensor([-0.0])
    assert np.signbit(plus.minimum(minus).numpy()).all()
    assert not np.signbit(minus.maximum(plus).numpy()).any()
    assert not np.signbit(minus.sign().numpy()).any()


def test_the_greater_bound_of_clip_wins_and_missing_bounds_do_nothing() -> None:
    x = tensor([1.0, 2.0, 3.0])
    assert x.clip(5, 2).numpy().tolist() == [2, 2, 2]
    assert x.clip() is x
    assert x.clip(tensor([[2.0], [0.0]]), 2.5).numpy().tolist() == [[2, 2, 2.5], [1, 2, 2.5]]
    assert x.clamp_min(2).numpy().tolist() == [2, 2, 3]
    assert x.clamp_max(2).numpy().tolist() == [1, 2, 2]


def test_ties_of_maximum_and_minimum_share_the_gradient() -> None:
    x, y = [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]
    assert slope(Tensor.maximum, x, y) == [0, 0.5, 1]
    assert slope(Tensor.maximum, x, y, of=1) == [1, 0.5, 0]
    assert slope(Tensor.minimum, x, y) == [1, 0.5, 0]
    assert slope(Tensor.minimum, x, y, of=1) == [0, 0.5, 1]
    assert slope(lambda t: t.maximum(2), x) == [0, 0.5, 1]


def test_clip_passes_the_gradient_at_its_bounds() -> None:
    assert slope(lambda x: x.clip(1, 3), [0.0, 1.0, 2.0, 3.0, 4.0]) == [0, 1, 1, 1, 0]
    x, low, high = [0.0, 2.0, 4.0], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0]
    assert slope(Tensor.clip, x, low, high, of=1) == [1, 0, 0]
    assert slope(Tensor.clip, x, low, high, of=2) == [0, 0, 1]


def test_bounds_of_clip_that_cross_give_the_gradient_to_the_greater_one() -> None:
    x, low, high = [0.0, 2.5, 6.0], [5.0] * 3, [2.0] * 3
    assert slope(Tensor.clip, x, low, high) == [0, 0, 0]
    assert slope(Tensor.clip, x, low, high, of=1) == [0, 0, 0]
    assert slope(Tensor.clip, x, low, high, of=2) == [1, 1, 1]


def test_the_gradient_of_abs_at_zero_is_zero_and_steps_have_none() -> None:
    assert slope(Tensor.abs, [-2.0, 0.0, 2.0]) == [-1, 0, 1]
    for step in (Tensor.sign, Tensor.floor, Tensor.ceil, Tensor.trunc, Tensor.round):
        assert slope(step, [0.3, -1.7]) == [0, 0]


def test_powers_have_finite_gradients_where_the_function_is_smooth() -> None:
    assert slope(lambda x: x**2, [0.0, -3.0]) == [0, -6]
    assert slope(lambda x: x**0, [0.0, 2.0]) == [0, 0]
    assert slope(lambda x: x**1, [0.0]) == [1]
    assert slope(Tensor.pow, [0.0, 0.0], [0.0, 2.0]) == [0, 0]
    assert slope(Tensor.pow, [0.0, 0.0], [0.0, 2.0], of=1) == [0, 0]
    assert slope(lambda y: 0.0**y, [0.0, 2.0]) == [0, 0]
    assert slope(lambda y: 2.0**y, [1.0]) == pytest.approx([2 * np.log(2)])


@pytest.mark.parametrize(
    ("fn", "arity"),
    [
        ("add", 2), ("subtract", 2), ("multiply", 2), ("divide", 2), ("remainder", 2), ("fmod", 2),
        ("pow", 2), ("maximum", 2), ("minimum", 2), ("copysign", 2), ("lerp", 3), ("sqrt", 1),
        ("rsqrt", 1), ("square", 1), ("reciprocal", 1), ("negative", 1), ("abs", 1),
    ],
)  # fmt: skip
def test_values_and_gradients_are_those_of_torch(fn: str, arity: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.2, 3.0, shape) for shape in ((3, 4), (4,), (3, 1))[:arity]]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(torch, fn)(*theirs)
    out.sum().backward()
    tensors = [tensor(a) for a in arrays]
    np.testing.assert_allclose(
        getattr(tensors[0], fn)(*tensors[1:]).numpy(), out.detach().numpy(), rtol=1e-14
    )
    if fn == "copysign":
        theirs, tensors = theirs[:1], tensors
    for position, leaf in enumerate(theirs):
        found = grad(lambda *x: getattr(x[0], fn)(*x[1:]).sum(), position)(*tensors)
        np.testing.assert_allclose(found.numpy(), leaf.grad.numpy(), rtol=1e-13)


def test_second_order_goes_through_powers_and_quotients() -> None:
    second = grad(grad(lambda x: (x**3 / (x + 1)).sum()))(tensor(np.array(2.0)))
    # d²/dx² x³ / (x + 1) = 2 x (x² + 3 x + 3) / (x + 1)³
    assert second.item() == pytest.approx(2 * 2 * (4 + 6 + 3) / 27)


def test_errors_name_the_op_what_it_wants_and_what_it_got() -> None:
    with pytest.raises(DTypeError, match=r"^add requires a number dtype, got bool; cast it with"):
        tensor([True]) + tensor([False])
    with pytest.raises(ShapeError, match=r"^multiply requires sizes .* got \(2,\) and \(3,\)"):
        tensor([1.0, 2.0]) * tensor([1.0, 2.0, 3.0])
    with pytest.raises(
        DTypeError, match=r"^add requires a number between -128 and 127 beside int8"
    ):
        tensor([1], dtype=int8) + 300
    with pytest.raises(DTypeError, match=r"^subtract requires tensors or Python numbers, got str"):
        "a" - tensor([1.0])


def test_an_error_of_a_reflected_operator_carries_the_users_line() -> None:
    with pytest.raises(DTypeError) as caught:
        1 + tensor([True]) + "x"
    assert __file__ in str(caught.value.location)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_number_next_to_every_number_is_that_of_numpy(dtype: DType) -> None:
    random = np.random.default_rng(0)
    unsigned = f"u{dtype.itemsize}"
    count = 2**16
    drawn = random.integers(0, 2 ** (8 * dtype.itemsize), count, np.uint64).astype(unsigned)
    every = np.arange(count, dtype=unsigned) if dtype.itemsize == 2 else drawn
    x = every.view(dtype.numpy)
    for towards in (np.inf, -np.inf, 1.0):
        with np.errstate(all="ignore"):
            want = np.nextafter(x, np.asarray(towards, dtype.numpy))
        got = tensor(x).nextafter(towards).numpy()
        np.testing.assert_array_equal(got.view(unsigned)[want == want],
                                      want.view(unsigned)[want == want])  # fmt: skip
        assert np.isnan(got.astype(float)[want != want]).all()
