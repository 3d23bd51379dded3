"""Tables of windows, judged by counting one element after another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyrite.backend import window

#: Pools of which each window holds an element of the input.
CASES = [
    (size, kernel, stride, (before, after), dilation, ceil_mode)
    for size, kernel, stride, before, after, dilation, ceil_mode in itertools.product(
        (4, 7), (1, 3), (1, 2, 4), (0, 1), (0, 2), (1, 2), (False, True)
    )
    if max(before, after) <= dilation * (kernel - 1) < size + before + after
]


@pytest.mark.parametrize(("size", "kernel", "stride", "pair", "dilation", "ceil_mode"), CASES)
def test_a_table_holds_what_each_window_reads(
    size: int, kernel: int, stride: int, pair: tuple[int, int], dilation: int, ceil_mode: bool
) -> None:
    before, after = pair
    reach = dilation * (kernel - 1) + 1
    want = []
    for start in itertools.count(-before, stride):
        fits = start + reach <= size + after
        if not (fits or (ceil_mode and start + reach < size + after + stride and start < size)):
            break
        places = (start + dilation * tap for tap in range(kernel))
        want.append([place if 0 <= place < size else -1 for place in places])

    starts = window.starts((size,), (kernel,), (stride,), (pair,), (dilation,), ceil_mode)
    (table,) = window.tables(starts, (size,), (kernel,), (dilation,))

    assert table.T.tolist() == want


def test_a_mean_counts_the_padding_only_where_it_is_asked_to() -> None:
    starts = [np.array([-1, 1, 3])]

    (counted,) = window.lengths(starts, (4,), (3,), ((1, 1),), True)
    (inside,) = window.lengths(starts, (4,), (3,), ((1, 1),), False)

    assert counted.tolist() == [3, 3, 2]
    assert inside.tolist() == [2, 3, 1]


def test_flat_places_are_row_major_and_outside_on_any_axis_is_outside() -> None:
    rows, columns = np.array([[0, 1]]), np.array([[0], [-1]])

    assert window.flat([rows, columns], (2, 5)).tolist() == [[0, 5], [-1, -1]]
