"""Max pooling and its gradient against torch; ties, NaN, and windows that hold nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import float16, int32, uint8

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.permutation(math.prod(shape)).reshape(shape) / 7.0


CASES: list[tuple[Any, dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_size": 2}),
    ((2, 3, 9), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((2, 3, 9), {"kernel_size": 2, "stride": 5}),
    ((2, 3, 7, 8), {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}),
    ((2, 3, 7, 8), {"kernel_size": 3, "dilation": 2, "padding": 1}),
    ((2, 3, 8, 7), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ((1, 2, 5, 5), {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 1, 1), {"kernel_size": 2, "stride": 2, "ceil_mode": True}),
    ((1, 2, 5, 4, 6), {"kernel_size": 2, "stride": (1, 2, 3)}),
]


@pytest.mark.parametrize(("shape", "arguments"), CASES)
def test_max_pooling_its_indices_and_its_gradient_are_torchs(shape: Any, arguments: Any) -> None:
    torch = pytest.importorskip("torch")
    name = f"max_pool{len(shape) - 2}d"
    x = floats(*shape)
    leaf = torch.tensor(x, requires_grad=True)
    expected, expected_indices = getattr(torch.nn.functional, name)(
        leaf, **arguments, return_indices=True
    )
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()

    values, indices = getattr(tensor(x), f"{name}_with_indices")(**arguments)
    assert indices.dtype is int32
    np.testing.assert_array_equal(values.numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(indices.numpy(), expected_indices.numpy())
    g = grad(lambda x: (getattr(x, name)(**arguments) * tensor(seed)).sum())(tensor(x))
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy())


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 7), 3), ((2, 3, 7, 5), (3, 5)), ((1, 2, 4, 5, 3), (2, 3, 7))]
)
def test_adaptive_max_pooling_and_its_gradient_are_torchs(shape: Any, size: Any) -> None:
    torch = pytest.importorskip("torch")
    name = f"adaptive_max_pool{len(shape) - 2}d"
    x = floats(*shape)
    leaf = torch.tensor(x, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(leaf, size)
    expected.square().sum().backward()
    np.testing.assert_array_equal(getattr(tensor(x), name)(size).numpy(), expected.detach().numpy())
    g = grad(lambda x: (getattr(x, name)(size) ** 2).sum())(tensor(x))
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy())


def test_of_equal_elements_the_first_is_the_maximum() -> None:
    x = tensor([[[[1.0, 5.0], [5.0, 5.0]]]])
    assert x.max_pool2d_with_indices(2)[1].item() == 1
    g = grad(lambda x: x.max_pool2d(2).sum())(x)
    assert g.numpy().tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


def test_a_window_that_holds_nan_gives_nan_and_points_to_the_first() -> None:
    values, indices = tensor([[[1.0, math.nan, 3.0, math.nan]]]).max_pool1d_with_indices(4)
    assert math.isnan(float(values.item()))
    assert indices.item() == 1


def test_padding_is_never_the_maximum_not_even_beside_minus_infinity() -> None:
    x = tensor([[[-math.inf, -math.inf]]])
    values, indices = x.max_pool1d_with_indices(3, 1, 1)
    assert values.numpy().tolist() == [[[-math.inf, -math.inf]]]
    assert indices.numpy().tolist() == [[[0, 0]]]
    negative = tensor([[[-3.0, -5.0]]])
    assert negative.max_pool1d(3, 1, 1).numpy().tolist() == [[[-3.0, -3.0]]]


def test_integers_and_half_precision_keep_their_dtype() -> None:
    assert tensor([[[1, 200, 3, 4]]], dtype="uint8").max_pool1d(2).dtype is uint8
    half = tensor([[[1.0, 2.0, 3.0, 4.0]]], dtype="float16").max_pool1d(2)
    assert half.dtype is float16
    assert half.numpy().tolist() == [[[2.0, 4.0]]]


def test_an_empty_batch_stays_empty() -> None:
    x = tensor(np.zeros((0, 3, 4, 4)))
    assert x.max_pool2d(2).shape == (0, 3, 2, 2)
    assert grad(lambda x: x.max_pool2d(2).sum())(x).shape == (0, 3, 4, 4)


def test_same_padding_of_an_even_window_stands_at_the_end() -> None:
    x = tensor([[[3.0, 1.0, 2.0]]])
    assert x.max_pool1d(2, 1, "same").numpy().tolist() == [[[3.0, 2.0, 2.0]]]


def test_a_window_without_an_element_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"max_pool2d requires every window to hold an element"):
        tensor(floats(1, 1, 4, 4)).max_pool2d(2, padding=2)
    with pytest.raises(ShapeError, match=r"got sizes \(2, 2\) for kernel_size \(3, 3\)"):
        tensor(floats(1, 1, 2, 2)).max_pool2d(3)
    with pytest.raises(ShapeError, match=r"dilation \(3,\)"):
        tensor(floats(1, 1, 1)).max_pool1d(2, 1, 2, 3)


def test_another_number_of_axes_is_refused_at_the_callers_line() -> None:
    with pytest.raises(ShapeError, match=r"max_pool2d requires x of 4 axes, got \(2, 3, 4\)") as e:
        tensor(floats(2, 3, 4)).max_pool2d(2)
    assert __file__ in str(e.value.location)
    with pytest.raises(ShapeError, match=r"max_pool requires x of 3 to 5 axes"):
        tensor(floats(2, 3)).max_pool(2)


def test_a_window_of_no_size_is_refused() -> None:
    message = r"max_pool2d requires kernel_size to be an integer or 2 integers >= 1, got 0"
    with pytest.raises(ArgumentError, match=message):
        tensor(floats(1, 1, 4, 4)).max_pool2d(0)
    with pytest.raises(
        ArgumentError, match=r"adaptive_pool2d requires output_size .* got \(2, 0\)"
    ):
        tensor(floats(1, 1, 4, 4)).adaptive_max_pool2d((2, 0))
