"""Average pooling and its gradient against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import float16, float32

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


CASES: list[tuple[Any, dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_size": 2}),
    ((2, 3, 9), {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False}),
    ((2, 3, 7, 8), {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0)}),
    ((2, 3, 8, 7), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 8), {"kernel_size": 3, "stride": 2, "ceil_mode": True, "count_include_pad": False}),
    ((1, 2, 5, 4, 6), {"kernel_size": 2, "stride": (1, 2, 3), "padding": 1}),
    ((2, 2, 9, 9), {"kernel_size": 2, "stride": 4}),
]


@pytest.mark.parametrize(("shape", "arguments"), CASES)
def test_average_pooling_and_its_gradient_are_torchs(shape: Any, arguments: Any) -> None:
    torch = pytest.importorskip("torch")
    name = f"avg_pool{len(shape) - 2}d"
    x = floats(*shape)
    leaf = torch.tensor(x, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(leaf, **arguments)
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()
    out = getattr(tensor(x), name)(**arguments)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-12)
    g = grad(lambda x: (getattr(x, name)(**arguments) * tensor(seed)).sum())(tensor(x))
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 3, 7), 3), ((2, 3, 7, 5), (3, 8)), ((2, 3, 8, 6), (2, 3)), ((1, 2, 4, 5, 3), (2, 3, 1))],
)
def test_adaptive_average_pooling_and_its_gradient_are_torchs(shape: Any, size: Any) -> None:
    torch = pytest.importorskip("torch")
    name = f"adaptive_avg_pool{len(shape) - 2}d"
    x = floats(*shape)
    leaf = torch.tensor(x, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(leaf, size)
    expected.square().sum().backward()
    out = getattr(tensor(x), name)(size)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-12)
    g = grad(lambda x: (getattr(x, name)(size) ** 2).sum())(tensor(x))
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


def test_zeros_of_the_padding_count_unless_told_otherwise() -> None:
    x = tensor([[[2.0, 4.0]]])
    assert x.avg_pool1d(2, 2, 1).numpy().tolist() == [[[1.0, 2.0]]]
    assert x.avg_pool1d(2, 2, 1, count_include_pad=False).numpy().tolist() == [[[2.0, 4.0]]]


def test_padding_may_differ_between_sides() -> None:
    x = tensor([[[2.0, 4.0, 6.0]]])
    assert x.avg_pool1d(2, 2, ((0, 1),)).numpy().tolist() == [[[3.0, 3.0]]]


def test_infinity_stays_in_its_window() -> None:
    x = tensor([[[1.0, math.inf, 3.0, 4.0, 5.0]]])
    assert x.avg_pool1d(2, 2).numpy().tolist() == [[[math.inf, 3.5]]]
    assert x.adaptive_avg_pool1d(2).numpy().tolist() == [[[math.inf, 4.0]]]


def test_integers_become_floats_and_half_is_rounded_once() -> None:
    assert tensor([[[1, 2]]]).avg_pool1d(2).dtype is float32
    half = tensor(np.full((1, 1, 3), 60000.0, np.float16))
    out = half.adaptive_avg_pool1d(2)
    assert out.dtype is float16
    assert out.numpy().tolist() == half.avg_pool1d(2, 1).numpy().tolist() == [[[60000.0] * 2]]


def test_an_empty_batch_stays_empty() -> None:
    x = tensor(np.zeros((0, 3, 5, 5)))
    assert x.avg_pool2d(2).shape == (0, 3, 2, 2)
    assert x.adaptive_avg_pool2d(2).shape == (0, 3, 2, 2)


def test_a_window_without_an_element_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"avg_pool2d requires every window to hold an element"):
        tensor(floats(1, 1, 4, 4)).avg_pool2d(2, padding=2)
    with pytest.raises(ShapeError, match=r"adaptive_pool2d requires spatial sizes >= 1"):
        tensor(floats(1, 1, 0, 4)).adaptive_avg_pool2d(2)
    with pytest.raises(ShapeError, match=r"avg_pool1d requires x of 3 axes, got \(1, 1, 4, 4\)"):
        tensor(floats(1, 1, 4, 4)).avg_pool1d(2)
