"""Products of matrices and vectors, against NumPy, and their gradients against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import AxisError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import bfloat16, float16, int8, int32

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-2, 2, shape)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((2, 0), (0, 3)),
        ((0,), (0,)),
        ((0, 2, 3), (3, 4)),
    ],
)
def test_matmul_and_its_gradient_are_torchs(x: Any, y: Any) -> None:
    torch = pytest.importorskip("torch")
    a, b = floats(*x), floats(*y)
    ta, tb = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    expected = ta @ tb
    weights = floats(*expected.shape)
    (expected * torch.tensor(weights)).sum().backward()

    np.testing.assert_allclose((tensor(a) @ tensor(b)).numpy(), expected.detach().numpy())
    ga, gb = grad(lambda x, y: ((x @ y) * tensor(weights)).sum(), (0, 1))(tensor(a), tensor(b))
    np.testing.assert_allclose(ga.numpy(), ta.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(gb.numpy(), tb.grad.numpy(), atol=1e-12)


def test_a_vector_may_stand_on_either_side_of_matmul() -> None:
    matrix = tensor([[1.0, 2.0], [3.0, 4.0]])
    vector = tensor([1.0, 10.0])
    assert (matrix @ vector).numpy().tolist() == [21.0, 43.0]
    assert (vector @ matrix).numpy().tolist() == [31.0, 42.0]
    assert (vector @ vector).shape == ()


def test_integers_multiply_in_their_own_dtype_and_wrap_around() -> None:
    product = tensor([[100, 100]], dtype="int8") @ tensor([[2], [1]], dtype="int8")
    assert product.dtype is int8
    assert product.numpy().tolist() == [[44]]
    assert (tensor([[1, 2]], dtype="int8") @ tensor([[3], [4]])).dtype is int32


def test_an_integer_meets_a_float_in_the_floats_dtype() -> None:
    assert (tensor([[1, 2]]) @ tensor([[1.5], [2.0]], dtype="float16")).dtype is float16


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_half_precision_accumulates_in_float32_and_rounds_once(dtype: Any) -> None:
    ones = tensor(np.ones((1, 4096), np.float32)).astype(dtype)
    assert (ones @ ones.permute_dims((1, 0))).astype("float32").item() == 4096.0


def test_nan_and_infinity_reach_the_rows_that_hold_them() -> None:
    x = tensor([[np.nan, 1.0], [np.inf, 1.0], [1.0, 1.0]])
    assert np.isnan((x @ tensor([[1.0], [1.0]])).numpy()[0, 0])
    assert (x @ tensor([[1.0], [1.0]])).numpy()[1:, 0].tolist() == [np.inf, 2.0]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            (5, 3),
            (4, 3),
            r"matmul requires x.shape\[-1\] == y.shape\[-2\], got \(5, 3\) @ \(4, 3\)",
        ),
        ((3,), (4,), r"matmul requires x.shape\[-1\] == y.shape\[-1\], got \(3,\) @ \(4,\)"),
        ((3,), (4, 3), r"matmul requires x.shape\[-1\] == y.shape\[-2\], got \(3,\) @ \(4, 3\)"),
        (
            (),
            (2, 2),
            r"matmul requires at least one axis on both sides, got \(\) @ \(2, 2\); use \*",
        ),
        ((3,), (), r"matmul requires at least one axis on both sides, got \(3,\) @ \(\); use \*"),
        ((2, 3, 4), (5, 4, 2), r"matmul requires sizes that are equal or 1 .* \(2,\) and \(5,\)"),
    ],
)
def test_a_product_that_does_not_fit_names_both_shapes(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        tensor(floats(*x)) @ tensor(floats(*y))
    assert __file__ in str(caught.value.location)


def test_matmul_by_a_number_points_to_multiplication() -> None:
    with pytest.raises(ShapeError, match=r"got \(2, 2\) @ \(\); use \*"):
        tensor(floats(2, 2)) @ 2  # type: ignore[operator]


def test_an_array_on_the_left_is_refused_by_name() -> None:
    with pytest.raises(
        DTypeError, match=r"matmul requires tensors or Python numbers, got a NumPy array"
    ):
        np.ones((2, 2)) @ tensor(floats(2, 2))


def test_vecdot_sums_along_an_axis_and_broadcasts_the_rest() -> None:
    x, y = floats(3, 1), floats(2, 3, 4)
    expected = (x * y).sum(axis=-2)
    np.testing.assert_allclose(tensor(x).vecdot(tensor(y), axis=-2).numpy(), expected)


def test_vecdot_counts_its_axis_from_the_end() -> None:
    with pytest.raises(AxisError, match=r"vecdot requires -1 <= axis < 0, got axis=0"):
        tensor(floats(3)).vecdot(tensor(floats(2, 3)), axis=0)


def test_vecdot_does_not_stretch_the_axis_it_sums() -> None:
    with pytest.raises(ShapeError, match=r"x.shape\[-1\] == y.shape\[-1\], got \(1,\) and \(3,\)"):
        tensor(floats(1)).vecdot(tensor(floats(3)))


def test_dot_is_of_two_vectors() -> None:
    assert tensor([1, 2, 3]).dot(tensor([4, 5, 6])).item() == 32
    with pytest.raises(ShapeError, match=r"dot requires two vectors of one length, got \(3,\)"):
        tensor(floats(3)).dot(tensor(floats(4)))


def test_matvec_multiplies_a_batch() -> None:
    x, y = floats(4, 2, 3), floats(4, 3)
    expected = np.einsum("bij,bj->bi", x, y)
    np.testing.assert_allclose(tensor(x).matvec(tensor(y)).numpy(), expected)
    with pytest.raises(ShapeError, match=r"matvec requires .* got \(2, 3\) and \(2,\)"):
        tensor(floats(2, 3)).matvec(tensor(floats(2)))


def test_outer_gives_all_products() -> None:
    x, y = floats(2), floats(5, 3)
    expected = np.einsum("i,bj->bij", x, y)
    np.testing.assert_allclose(tensor(x).outer(tensor(y)).numpy(), expected)


@pytest.mark.parametrize("axes", [0, 1, 2, ((0,), (-1,)), ((1, 0), (0, 2)), (1, 0)])
def test_tensordot_is_numpys(axes: Any) -> None:
    x, y = floats(3, 3), floats(3, 3, 3)
    expected = np.tensordot(x, y, axes)
    np.testing.assert_allclose(tensor(x).tensordot(tensor(y), axes).numpy(), expected)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (3, r"tensordot requires 0 <= axes <= 2, got axes=3"),
        (((0,), (0, 1)), r"as many axes of x as of y, got axes=\(\(0,\), \(0, 1\)\)"),
        (((0, 0), (0, 1)), r"tensordot requires distinct axes"),
        (((2,), (0,)), r"tensordot requires -2 <= axis < 2, got axis=2"),
        (((0,), (0,)), r"equal sizes along axes \(0,\) and \(0,\), got \(2, 3\) and \(4, 5\)"),
    ],
)
def test_axes_that_do_not_fit_are_refused(axes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tensor(floats(2, 3)).tensordot(tensor(floats(4, 5)), axes)


@pytest.mark.parametrize(("x", "y"), [((2, 3), (4, 5)), ((2,), (3, 4)), ((), (2, 2))])
def test_kron_is_numpys(x: Any, y: Any) -> None:
    a, b = floats(*x), floats(*y)
    np.testing.assert_allclose(tensor(a).kron(tensor(b)).numpy(), np.kron(a, b))


def test_linear_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    x, weight, bias = floats(2, 5, 3), floats(4, 3), floats(4)
    expected = torch.nn.functional.linear(*map(torch.tensor, (x, weight, bias)))
    out = tensor(x).linear(tensor(weight), tensor(bias))
    np.testing.assert_allclose(out.numpy(), expected.numpy())


def test_the_gradient_of_a_weight_is_summed_over_all_leading_axes() -> None:
    x = floats(7, 5, 3)
    g = grad(lambda weight: tensor(x).linear(weight).sum())(tensor(floats(4, 3)))
    np.testing.assert_allclose(g.numpy(), np.repeat(x.sum((0, 1))[None], 4, axis=0))


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        ((3, 4), (3,), r"linear requires x.shape\[-1\] == weight.shape\[1\], got x \(2, 3\)"),
        ((4, 3), (3,), r"linear requires bias.shape == weight.shape\[:1\], got bias \(3,\)"),
    ],
)
def test_linear_says_which_of_weight_and_bias_does_not_fit(
    weight: Any, bias: Any, message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        tensor(floats(2, 3)).linear(tensor(floats(*weight)), tensor(floats(*bias)))


def test_bilinear_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    x, y, weight, bias = floats(6, 3), floats(6, 4), floats(5, 3, 4), floats(5)
    expected = torch.nn.functional.bilinear(*map(torch.tensor, (x, y, weight, bias)))
    out = tensor(x).bilinear(*map(tensor, (y, weight, bias)))
    np.testing.assert_allclose(out.numpy(), expected.numpy())
    with pytest.raises(
        ShapeError, match=r"bilinear requires .* \(2, 3\), \(2, 3\) and \(5, 3, 4\)"
    ):
        tensor(floats(2, 3)).bilinear(tensor(floats(2, 3)), tensor(weight))
