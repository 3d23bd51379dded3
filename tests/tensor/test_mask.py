"""Masks of attention: True where a query may attend."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.errors import ShapeError
from pyrite.tensor.mask import causal_mask, generate_autoregressive_mask, generate_padding_mask
from pyrite.types import bool_, int32


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 2)])
def test_the_causal_mask_is_the_lower_triangle(shape: tuple[int, int]) -> None:
    got = causal_mask(*shape)
    assert got.dtype is bool_
    np.testing.assert_array_equal(got.numpy(), np.tri(*shape, dtype=bool))


def test_the_autoregressive_mask_is_causal_for_each_of_a_batch() -> None:
    got = generate_autoregressive_mask(2, 3).numpy()
    np.testing.assert_array_equal(got, [np.tri(3, dtype=bool)] * 2)


def test_sequences_are_padded_to_the_longest() -> None:
    tokens, mask = generate_padding_mask(9, [[1, 2, 3], [4], []])
    assert (tokens.dtype, mask.dtype) == (int32, bool_)
    np.testing.assert_array_equal(tokens.numpy(), [[1, 2, 3], [4, 9, 9], [9, 9, 9]])
    np.testing.assert_array_equal(mask.numpy(), tokens.numpy() != 9)


@pytest.mark.parametrize(
    ("options", "length"),
    [({"max_length": 2}, 2), ({"max_length": 7}, 3), ({"length": 5}, 5), ({"length": 1}, 1)],
)
def test_lengths_are_cut_or_filled(options: dict[str, int], length: int) -> None:
    tokens, mask = generate_padding_mask(0, [[1, 2, 3], [4]], **options)
    want = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])[:, :length]
    np.testing.assert_array_equal(tokens.numpy(), want)
    np.testing.assert_array_equal(mask.numpy(), want != 0)


def test_no_sequences_need_a_length() -> None:
    assert generate_padding_mask(0, [], length=4)[0].shape == (0, 4)
    with pytest.raises(ShapeError, match="requires a sequence or a length, got neither"):
        generate_padding_mask(0, [])
    with pytest.raises(ShapeError, match="generate_padding_mask requires sizes >= 0"):
        generate_padding_mask(0, [[1]], length=-1)
