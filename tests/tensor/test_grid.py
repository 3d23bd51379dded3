"""Masks, matrices by their diagonals and grids, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import ShapeError
from pyrite.tensor.creation import arange, tensor, zeros
from pyrite.tensor.grid import (
    cartesian_grid,
    diag_mask,
    eye,
    meshgrid,
    tri,
    tril_mask,
    triu_mask,
)


def test_matrices_and_masks_are_numpys() -> None:
    for offset in (-4, -1, 0, 2, 5):
        np.testing.assert_array_equal(eye(3, 4, k=offset), np.eye(3, 4, offset))
        np.testing.assert_array_equal(tri(3, 4, k=offset), np.tri(3, 4, offset))
        whole = np.ones((2, 3, 4), bool)
        np.testing.assert_array_equal(tril_mask((2, 3, 4), offset=offset), np.tril(whole, offset))
        np.testing.assert_array_equal(triu_mask((2, 3, 4), offset=offset), np.triu(whole, offset))
        expected = np.eye(3, 4, offset, dtype=bool)
        np.testing.assert_array_equal(diag_mask((3, 4), offset=offset), expected)
    assert tri(2).dtype is pyrite.float32


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 3, 4)])
def test_meshgrid_is_numpys(indexing: Any, sizes: tuple[int, ...]) -> None:
    arrays = [np.arange(n) * 10 for n in sizes]
    found = meshgrid(*(tensor(a) for a in arrays), indexing=indexing)
    for ours, theirs in zip(found, np.meshgrid(*arrays, indexing=indexing), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs, strict=True)


def test_cartesian_grid_holds_the_index_of_every_element() -> None:
    np.testing.assert_array_equal(
        cartesian_grid((2, 3, 4)).numpy(), np.moveaxis(np.indices((2, 3, 4)), 0, -1)
    )
    with pytest.raises(ShapeError, match="meshgrid requires vectors"):
        meshgrid(zeros((2, 2)))


def test_grids_are_a_list_as_the_standard_says() -> None:
    assert type(meshgrid(arange(2), arange(3))) is list
    assert type(pyrite.broadcast_arrays(arange(2))) is list
