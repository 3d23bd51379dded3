"""A canvas shows each point in its cell, whatever the values are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pyrite.train.view.watch.canvas import Canvas, framed


def plain(canvas: Canvas) -> list[str]:
    return [line.plain for line in canvas.lines()]


def points(*pairs: tuple[float, float]) -> np.ndarray:
    return np.array(pairs, np.float64).T


def test_marks_stand_at_the_ends_of_both_spans_and_in_the_middle() -> None:
    canvas = Canvas(5, 3, (0, 4), (-1, 1))
    canvas.marks(points((0, -1), (4, 1), (2, 0), (9, 0), (2, -3)), "●", "magenta")
    assert plain(canvas) == ["    ●", "  ●  ", "●    "]


def test_a_line_goes_through_dots_of_two_by_four_a_cell() -> None:
    falling, flat = Canvas(2, 1, (0, 3), (0, 3)), Canvas(3, 2, (0, 1), (0, 7))
    falling.line(points((0, 3), (3, 0)), "cyan")
    flat.line(points((0, 0), (1, 0)), "cyan")
    assert plain(falling) == ["⠑⢄"]
    assert plain(flat) == ["   ", "⣀⣀⣀"]


def test_a_line_leaves_no_gap_and_is_cut_at_the_edges() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        x = np.sort(generator.random(30))
        canvas = Canvas(20, 7, (x[0], x[-1]), (-0.5, 0.5))
        canvas.line(np.stack([x, generator.normal(size=30) / 5]), "cyan")
        assert all(any(row[column] != " " for row in plain(canvas)) for column in range(20))
        canvas.line(points((-5, 9), (5, -9)), "cyan")


def test_what_is_drawn_later_lies_above_in_its_colour() -> None:
    canvas = Canvas(4, 1, (0, 3), (0, 1))
    canvas.line(points((0, 0.5), (3, 0.5)), "cyan")
    canvas.marks(points((1, 0.5)), "●", "magenta")
    (line,) = canvas.lines()
    assert line.plain[1] == "●"
    assert [(line.plain[s.start : s.end], s.style) for s in line.spans] == [
        (line.plain[0], "cyan"), ("●", "magenta"), (line.plain[2:], "cyan"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "y", [(-1e300, 1e300), (0.0, 1e-320), (1e17, 1e17 + 16), (-1e-300, 1e-300), (5.0, 5.0 + 1e-14)]
)
def test_any_span_has_a_place_for_its_ends(y: tuple[float, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canvas = Canvas(3, 3, (0, 1), y)
        canvas.line(points((0, y[0]), (1, y[1])), "cyan")
        canvas.marks(points((0, y[0]), (1, y[1])), "●", "cyan")
    assert [plain(canvas)[2][0], plain(canvas)[0][2]] == ["●", "●"]


def test_a_frame_has_labels_at_their_places_as_far_as_they_have_room() -> None:
    canvas = Canvas(9, 3, (0, 8), (0, 10))
    text = framed(canvas, [(0, "0"), (4, "four"), (5, "5"), (8, "1e+08")], [(0, "0"), (10, "10")])
    assert text.plain.split("\n") == [
        "  ┌─────────┐",
        "10┤         │",
        "  │         │",
        " 0┤         │",
        "  └┬───┬┬──┬┘",
        "   0 four",
    ]
