"""Writing by index tensors, against NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import grad
from pyrite.backend.device import device_problem
from pyrite.errors import IndexRangeError
from pyrite.tensor.creation import arange, tensor, zeros

RNG = np.random.default_rng(0)
TORCH_REDUCTION = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_scatter_and_its_gradients_are_torchs(reduction: str) -> None:
    torch = pytest.importorskip("torch")
    array, updates = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 6))
    indices = RNG.integers(0, 4, (3, 6))
    weights = RNG.normal(size=(3, 4))
    x, u = (torch.tensor(a, requires_grad=True) for a in (array, updates))
    theirs = x.scatter_reduce(1, torch.tensor(indices), u, TORCH_REDUCTION[reduction])
    (theirs * torch.tensor(weights)).sum().backward()

    def loss(x: Any, u: Any) -> Any:
        return (x.scatter(1, tensor(indices), u, reduction=reduction) * tensor(weights)).sum()

    ours = tensor(array).scatter(1, tensor(indices), tensor(updates), reduction=reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy())
    for found, expected in zip(
        grad(loss, (0, 1))(tensor(array), tensor(updates)), (x.grad, u.grad), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy())


@pytest.mark.parametrize("zeros_at", [(), (0,), (0, 1), (0, 1, 2)])
def test_the_gradient_of_a_product_is_right_where_factors_are_zero(zeros_at: Any) -> None:
    factors = np.array([2.0, 3.0, 5.0, 7.0])
    factors[list(zeros_at)] = 0
    index = tensor([0, 0, 1, 0])
    g = grad(lambda u: tensor([0.5, 1.5]).scatter(0, index, u, reduction="mul").sum())
    expected = []
    for i in range(4):
        start = 1.5 if i == 2 else 0.5
        others = [factors[j] for j in range(4) if j != i and (j == 2) == (i == 2)]
        expected.append(start * np.prod(others))
    np.testing.assert_allclose(g(tensor(factors)).numpy(), expected)


def test_those_that_attain_an_extremum_share_its_gradient() -> None:
    def loss(x: Any, u: Any) -> Any:
        return x.scatter(0, tensor([0, 0, 1]), u, reduction="max").sum()

    of_x, of_u = grad(loss, (0, 1))(tensor([3.0, 1.0, 9.0]), tensor([3.0, 2.0, 5.0]))
    assert of_x.tolist() == [0.5, 0.0, 1.0]
    assert of_u.tolist() == [0.5, 0.0, 1.0]


def test_nan_wins_in_extrema() -> None:
    for reduction in ("min", "max"):
        written = zeros((2,)).scatter(0, tensor([1]), tensor([np.nan]), reduction=reduction)
        np.testing.assert_array_equal(written.numpy(), [0, np.nan])


def test_the_last_assignment_wins_and_alone_has_a_gradient() -> None:
    index, u = tensor([[1, 1, 0], [2, 2, 2]]), arange(6, dtype="float32").reshape(2, 3)
    assert zeros((2, 3)).scatter(1, index, u).tolist() == [[2, 1, 0], [0, 0, 5]]
    of_u = grad(lambda u: zeros((2, 3)).scatter(1, index, u).sum())(u)
    assert of_u.tolist() == [[0, 1, 1], [0, 0, 1]]
    of_x = grad(lambda x: x.scatter(1, index, u).sum())(zeros((2, 3)))
    assert of_x.tolist() == [[0, 0, 1], [1, 1, 0]]


def test_one_hot_places_the_values() -> None:
    ids = tensor([[0], [2]])
    assert ids.one_hot(3).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert ids.one_hot(3).dtype is pyrite.float32
    assert tensor(-1).one_hot(2, on_value=5, off_value=-1).tolist() == [-1, 5]


@pytest.mark.parametrize("name", ["numpy", "torch:cpu", "candle"])
def test_an_index_outside_the_classes_is_an_error_of_one_hot(name: str) -> None:
    if problem := device_problem(name):
        pytest.skip(problem)
    ids = tensor([[0], [2]], device=name)

    with pytest.raises(IndexRangeError, match="one_hot requires -2 <= index < 2 on axis 2"):
        ids.one_hot(2).numpy()
    with pytest.raises(IndexRangeError, match="scatter requires -2 <= index < 2 on axis 1"):
        zeros((2, 2), device=name).scatter(1, ids, 1.0).numpy()
