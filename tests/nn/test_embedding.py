"""Embeddings against PyTorch's; padding; indices out of range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream

torch = pytest.importorskip("torch")

INDICES = np.array([[1, 0, 3], [3, 3, 5]])


@pytest.mark.parametrize("padding_idx", [None, 3, -1])
def test_it_is_pytorchs(agrees: Any, padding_idx: int | None) -> None:
    agrees(nn.Embedding(6, 4, padding_idx), torch.nn.Embedding(6, 4, padding_idx), INDICES)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_is_pytorchs(agrees: Any, mode: Any) -> None:
    offsets = np.array([0, 2, 2, 4])
    # Bags without a repeated index: rows that attain a maximum share its gradient here.
    bags = [(np.array([[1, 0, 3], [2, 3, 5]]),), (np.array([1, 0, 3, 2, 5]), offsets)]
    for padding_idx, given in itertools.product((None, 3), bags):
        theirs = torch.nn.EmbeddingBag(6, 4, padding_idx=padding_idx, mode=mode)
        agrees(nn.EmbeddingBag(6, 4, padding_idx, mode=mode), theirs, *given)
    with pytest.raises(ArgumentError, match="EmbeddingBag requires mode of sum, mean, max"):
        nn.EmbeddingBag(6, 4, mode="min")  # type: ignore[arg-type]


def test_rows_start_normal_and_the_padding_row_from_zero() -> None:
    with random_stream(0):
        weight = nn.Embedding(300, 20, padding_idx=-2).weight.numpy()
    assert weight.std() == pytest.approx(1.0, rel=0.03)
    np.testing.assert_array_equal(weight[298], np.zeros(20))
    assert np.count_nonzero(weight) == 299 * 20


def test_indices_of_any_shape() -> None:
    layer = nn.Embedding(6, 4)
    assert layer(tensor(2)).shape == (4,)
    assert layer(tensor(np.zeros((0, 3), np.int64))).shape == (0, 3, 4)
    assert nn.Embedding(6, 4, padding_idx=2)(tensor(2)).shape == (4,)


def test_a_frozen_table_has_no_gradient() -> None:
    net = nn.Sequential(nn.Embedding(6, 4).freeze(), nn.Linear(4, 2))
    _, grads = value_and_grad(lambda m: m(tensor(INDICES)).sum())(net)
    assert net[0].weight not in grads
    assert net[1].weight in grads


def test_errors() -> None:
    layer = nn.Embedding(6, 4)
    with pytest.raises(IndexRangeError, match="6"):
        layer(tensor([6])).numpy()
    with pytest.raises(DTypeError, match="integer"):
        layer(tensor([1.0]))
    with pytest.raises(ArgumentError, match="-6 <= padding_idx < 6, got 6"):
        nn.Embedding(6, 4, padding_idx=6)
    with pytest.raises(ArgumentError, match="num_embeddings >= 1, got 0"):
        nn.Embedding(0, 4)
