"""Bags of embeddings against PyTorch's, of listed indices and of offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, value_and_grad
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.embedding_bag import embedding_bag
from pyrite.testing import central_difference

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(6, 4))
LISTED = RNG.integers(0, 6, (3, 5))
OFFSETS = np.array([0, 4, 4, 9])
#: Indices and offsets; the second and the last bag of the second are empty or nearly.
BAGS = {"listed": (LISTED, None), "offsets": (LISTED.ravel(), OFFSETS)}


@pytest.mark.sample(2, varies=True)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("bags", BAGS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "weighted"])
def test_values_and_gradients_are_pytorchs(device: str, bags: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    indices, offsets = BAGS[bags]
    weights = RNG.normal(size=indices.shape) if mode == "weighted" else None
    mode = "sum" if mode == "weighted" else mode
    for padding_idx in (None, 2, -1):
        given = [TABLE] if weights is None else [TABLE, weights]
        theirs = [torch.tensor(a, requires_grad=True) for a in given]
        want = torch.nn.functional.embedding_bag(
            torch.tensor(indices), theirs[0], None if offsets is None else torch.tensor(offsets),
            mode=mode, padding_idx=padding_idx, per_sample_weights=(*theirs, None)[1],
        )  # fmt: skip
        cotangent = RNG.normal(size=want.shape)
        (want * torch.tensor(cotangent)).sum().backward()

        def loss(
            weight: Any, weights: Any = None, padding_idx: Any = padding_idx, c: Any = cotangent
        ) -> Any:
            got = embedding_bag(
                weight, tensor(indices, device=device),
                None if offsets is None else tensor(offsets, device=device),
                per_sample_weights=weights, mode=mode, padding_idx=padding_idx,
            )  # fmt: skip
            # The cotangent comes transposed, so it is no dense array.
            return (got * tensor(c.T, device=device).mT).sum(), got

        ours = [tensor(a, device=device) for a in given]
        (_, got), grads = value_and_grad(loss, tuple(range(len(ours))), has_aux=True)(*ours)
        np.testing.assert_allclose(got.numpy(), want.detach().numpy(), atol=1e-12)
        for found, t in zip(grads, theirs, strict=True):
            np.testing.assert_allclose(found.numpy(), t.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("offsets", [None, OFFSETS[:3]], ids=["listed", "offsets"])
def test_the_second_derivative_of_a_maximum(offsets: Any) -> None:
    indices = LISTED if offsets is None else LISTED.ravel()
    where = None if offsets is None else tensor(offsets)
    table = RNG.permutation(24).reshape(6, 4) * 0.1

    def slope(weight: Any) -> Any:
        cubes = lambda w: (embedding_bag(w, tensor(indices), where, mode="max") ** 3).sum()  # noqa: E731
        return (grad(cubes)(weight) ** 2).sum()

    want = central_difference(lambda a: float(slope(tensor(a))), [table], 0)
    np.testing.assert_allclose(grad(slope)(tensor(table)).numpy(), want, rtol=1e-4, atol=1e-6)


def test_a_row_that_is_no_number_stays_in_its_bag_and_padding_hides_it() -> None:
    table = tensor(np.array([[1.0], [np.nan], [3.0]]))
    for mode in ("sum", "mean", "max"):
        got = embedding_bag(table, tensor([[0, 1], [2, 0]]), mode=mode).numpy()
        assert np.isnan(got[:, 0]).tolist() == [True, False]
        hidden = embedding_bag(table, tensor([[0, 1]]), mode=mode, padding_idx=1).numpy()
        assert hidden.tolist() == [[1.0]]


def test_bags_of_no_size() -> None:
    table = tensor(TABLE.astype(np.float16))
    for mode in ("sum", "mean", "max"):
        none = embedding_bag(table, tensor(np.zeros((2, 0), np.int64)), mode=mode)
        assert none.numpy().tolist() == [[0.0] * 4] * 2
        assert none.numpy().dtype == np.float16
        empty = np.zeros((0,), np.int32)
        assert embedding_bag(table, tensor(empty), tensor(empty), mode=mode).shape == (0, 4)


def test_errors() -> None:
    table, words = tensor(TABLE), tensor(LISTED)
    with pytest.raises(IndexRangeError, match="6"):
        embedding_bag(table, tensor([[6]])).numpy()
    with pytest.raises(IndexRangeError, match="embedding_bag requires"):
        embedding_bag(table, tensor([1, 2]), tensor([1])).numpy()
    with pytest.raises(ArgumentError, match="mode of sum, mean, max, got 'min'"):
        embedding_bag(table, words, mode="min")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="mode='sum' with per_sample_weights, got 'mean'"):
        embedding_bag(table, words, per_sample_weights=words.astype("float64"))
    with pytest.raises(ShapeError, match=r"got \(15,\)$"):
        embedding_bag(table, words.flatten())
    with pytest.raises(DTypeError, match="indices of an integer dtype, got float64"):
        embedding_bag(table, words.astype("float64"))
