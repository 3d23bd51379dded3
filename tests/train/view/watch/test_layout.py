"""Rows for every part, in windows of all sizes."""

from __future__ import annotations

import pytest

from pyrite.train.view.watch.layout import ScreenLayout


@pytest.mark.parametrize("wide_log", [False, True])
def test_all_rows_are_used_and_none_twice(wide_log: bool) -> None:
    for height in range(1, 120):
        for width in (1, 20, 80, 200):
            for metrics in (1, 4, 30):
                of = ScreenLayout.of(width, height, metrics, 3, wide_log)
                rows = (of.bars, of.plots, of.table, of.facts, of.log, of.keys)
                assert min(rows) >= 0
                assert 1 + sum(rows) == max(height, 1), (height, of)
                assert of.columns * of.rows >= 1
                assert not of.plots or of.plots // of.rows >= 5


def test_a_usual_terminal_shows_all_parts_and_a_large_one_several_plots() -> None:
    usual = ScreenLayout.of(80, 24, 3, 3, False)
    assert min(usual.plots, usual.table, usual.facts, usual.log) > 0
    assert (usual.columns, usual.rows) == (1, 1)
    large = ScreenLayout.of(200, 60, 6, 2, False)
    assert (large.columns, large.rows) == (3, 2)
