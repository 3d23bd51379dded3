"""A curve that is thinned covers what the whole curve covers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyrite.train.view.watch.series import Series, drawable, smoothed, thinned


def series(points: list[tuple[float, float]]) -> Series:
    made = Series()
    for x, y in points:
        made.append(x, y)
    return made


def test_it_keeps_all_points_and_gives_those_of_a_part() -> None:
    made = series([(i / 10, i * i) for i in range(1000)])
    assert len(made) == 1000
    assert made.points[1].tolist() == [i * i for i in range(1000)]
    assert made.between(1.0, 1.2)[1].tolist() == [100, 121, 144]
    made.cut(5.0)
    assert made.points[0][-1] == 5.0
    made.append(5.1, 7.0)
    assert made.points[:, -1].tolist() == [5.1, 7.0]


def test_a_point_before_the_last_one_is_left_out() -> None:
    assert series([(1, 1), (0.5, 2), (1, 3)]).points.tolist() == [[1, 1], [1, 3]]


def test_what_is_no_number_is_not_drawn() -> None:
    points = series([(0, 1), (1, float("nan")), (2, float("inf")), (2.5, -1e308), (3, 2)]).points
    assert drawable(points).tolist() == [[0, 3], [1, 2]]


def test_smoothing_is_the_mean_of_the_last() -> None:
    points = series([(0, 2), (1, 4), (2, 9), (3, 5)]).points
    assert smoothed(points, 2).tolist() == [[0, 1, 2, 3], [2, 3, 6.5, 7]]
    assert smoothed(points, 1) is points
    assert smoothed(points[:, :0], 5).shape == (2, 0)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400),
    st.integers(1, 20),
)
def test_thinning_keeps_the_ends_and_extremes_of_each_column(y: list[float], columns: int) -> None:
    points = np.array([np.arange(len(y), dtype=float), y])
    kept = thinned(points, columns)
    assert kept.shape[1] <= max(4 * columns, 4 * (columns + 1))
    assert np.all(np.diff(kept[0]) > 0)

    def covers(of: np.ndarray) -> list[tuple[float, ...]]:
        width = (points[0, -1] - points[0, 0]) or 1.0
        column = np.floor((of[0] - points[0, 0]) / width * columns).astype(int)
        parts = [of[1][column == c] for c in np.unique(column)]
        return [(p[0], p.min(), p.max(), p[-1]) for p in parts]

    assert covers(kept) == covers(points)


def test_a_million_points_become_a_few() -> None:
    points = np.stack([np.arange(1e6), np.sin(np.arange(1e6))])
    assert thinned(points, 160).shape[1] <= 4 * 161
