"""Stride arithmetic against NumPy's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyrite.backend.cube.layout import (
    broadcast_strides,
    is_row_major,
    merged,
    reshaped_strides,
    row_major,
)

SHAPES = [(), (1,), (6,), (2, 3), (1, 6), (2, 1, 3), (3, 2, 1), (2, 3, 2), (4, 3), (12,), (2, 2, 3)]


def view_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    base = np.arange(1000, dtype=np.int64)
    return np.lib.stride_tricks.as_strided(base, shape, [8 * s for s in strides])


@pytest.mark.parametrize("shape", SHAPES)
def test_row_major_strides_are_numpys(shape: tuple[int, ...]) -> None:
    assert row_major(shape) == tuple(s // 8 for s in np.zeros(shape, np.int64).strides)
    assert is_row_major(shape, row_major(shape))


def test_a_transpose_and_a_gap_are_not_row_major() -> None:
    assert not is_row_major((2, 3), (1, 2))
    assert not is_row_major((2, 3), (4, 1))
    assert is_row_major((1, 3), (99, 1))
    assert is_row_major((0, 3), (5, 5))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("to", SHAPES)
def test_a_reshape_is_a_view_with_the_same_elements_or_none(
    shape: tuple[int, ...], to: tuple[int, ...]
) -> None:
    if np.prod(shape, dtype=int) != np.prod(to, dtype=int):
        return
    for order in itertools.permutations(range(len(shape))):
        whole = tuple(shape[order.index(a)] for a in range(len(shape)))
        strides = tuple(row_major(whole)[a] for a in order)
        assert tuple(whole[a] for a in order) == shape
        x = view_of(shape, strides)
        found = reshaped_strides(shape, strides, to)
        if found is None:
            assert not is_row_major(shape, strides)
        else:
            np.testing.assert_array_equal(view_of(to, found), x.reshape(to))


def test_a_reshape_keeps_broadcast_axes_where_it_can() -> None:
    assert reshaped_strides((2, 3, 4), (0, 4, 1), (2, 12)) == (0, 1)
    assert reshaped_strides((2, 3, 4), (0, 4, 1), (24,)) is None


def test_broadcasting_puts_zero_where_it_stretches() -> None:
    assert broadcast_strides((2, 1), (5, 7), (3, 2, 4)) == (0, 5, 0)
    assert broadcast_strides((1,), (1,), (1,)) == (1,)


def test_axes_merge_only_where_every_operand_goes_on() -> None:
    assert merged((2, 3), [(3, 1), (1, 2)]) == [((2, 3), (3, 1)), ((2, 3), (1, 2))]
    assert merged((2, 1, 3), [(3, 9, 1), (0, 9, 0)]) == [((6,), (1,)), ((6,), (0,))]
    assert merged((1, 1), [(1, 1)]) == [((), ())]
