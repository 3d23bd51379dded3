"""Tables of taps as matrices: turned round they are the transpose, settled they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.tensor.resampling import Tables, Taps, kept

RANDOM = np.random.default_rng(0)


def matrix(taps: Taps, size: int) -> Any:
    """The (out, in) matrix that taps stand for."""
    width, count = taps.places.shape
    weights = np.ones((width, count)) if taps.weights is None else taps.weights
    found = np.zeros((count, size))
    np.add.at(found, (np.arange(count)[None].repeat(width, 0), taps.places), weights)
    return found


def random_taps(width: int, count: int, size: int) -> Taps:
    """Taps some of which read one place, and some of which have weight 0."""
    weights = RANDOM.uniform(-1, 1, (width, count))
    weights[RANDOM.random(weights.shape) < 0.3] = 0
    return Taps(RANDOM.integers(0, size, (width, count)), weights)


@pytest.mark.parametrize(("width", "count", "size"), [(2, 9, 4), (4, 3, 8), (1, 5, 1), (3, 1, 7)])
def test_taps_turned_round_are_the_transposed_matrix(width: int, count: int, size: int) -> None:
    taps = random_taps(width, count, size)
    turned = taps.transposed(size)

    np.testing.assert_allclose(matrix(turned, count), matrix(taps, size).T, atol=1e-15)


def test_copies_turned_round_add_up() -> None:
    taps = Taps(np.array([[0, 0, 2, 2, 2]]))
    turned = taps.transposed(4)

    np.testing.assert_array_equal(matrix(turned, 5), matrix(taps, 4).T)


def test_settled_taps_have_the_same_sums_and_no_weight_of_0_but_of_empty_ones() -> None:
    taps = random_taps(4, 40, 6)
    assert taps.weights is not None
    taps.weights[:, 7] = 0
    settled = taps.settled()
    assert settled.weights is not None

    np.testing.assert_allclose(matrix(settled, 6), matrix(taps, 6), atol=1e-15)
    is_empty = (settled.weights == 0).any(0)
    np.testing.assert_array_equal(is_empty, (taps.weights == 0).all(0))
    reads = [set(taps.places[taps.weights[:, i] != 0, i]) for i in range(40) if not is_empty[i]]
    settled_reads = [set(settled.places[:, i]) for i in range(40) if not is_empty[i]]
    assert settled_reads == reads


def test_tables_say_whether_taps_are_to_be_skipped() -> None:
    read = Taps(np.array([[0, 1], [1, 1]]), np.array([[0.5, 1.0], [0.5, 0.0]]))
    empty = Taps(np.array([[0, 1]]), np.array([[1.0, 0.0]]))

    assert not Tables.of({2: read}).skips
    assert Tables.of({2: read, 3: empty}).skips
    assert Tables.of({2: read, 3: empty}).lines == ((2, 2, 2), (3, 2, 1))
    assert Tables.of({}).lines == ()


def test_tables_of_short_axes_are_made_once() -> None:
    made: list[Any] = []

    @kept
    def tables(old: Any, new: Any) -> Tables:
        made.append((old, new))
        return Tables.of({})

    for _ in range(2):
        tables((3, 4), (5, 6))
        tables((3,), (100_000,))

    assert made == [((3, 4), (5, 6)), *[((3,), (100_000,))] * 2]
