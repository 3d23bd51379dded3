"""The strong Wolfe conditions hold at the length that is found."""

from __future__ import annotations

import math

import pytest

from pyrite.optim.line_search import CURVATURE, DECREASE, Sample, strong_wolfe

# Functions of the length with their slopes, all falling at 0.
LINES = {
    "parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "far": (lambda t: (t - 500) ** 2, lambda t: 2 * (t - 500)),
    "near": (lambda t: (1e3 * t - 1) ** 2, lambda t: 2e3 * (1e3 * t - 1)),
    "quartic": (lambda t: (t - 1) ** 4, lambda t: 4 * (t - 1) ** 3),
    "wave": (lambda t: math.cos(3 * t) - t / 2, lambda t: -3 * math.sin(3 * t) - 0.5),
    # The hard one of Moré & Thuente 1994, ACM TOMS 20, equation 5.1.
    "rational": (lambda t: -t / (t * t + 2), lambda t: (t * t - 2) / (t * t + 2) ** 2),
    "wall": (
        lambda t: math.inf if t > 0.3 else -math.log(0.3001 - t) - 30 * t,
        lambda t: math.nan if t > 0.3 else 1 / (0.3001 - t) - 30,
    ),
}


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("name", LINES)
def test_the_strong_wolfe_conditions_hold(name, first):
    value, slope = LINES[name]
    calls = []

    def sample(t: float) -> Sample:
        calls.append(t)
        return Sample(t, value(t), slope(t), None)

    start = Sample(0.0, value(0.0), slope(0.0), None)
    found = strong_wolfe(sample, start, first, 40)
    assert found.length > 0
    assert found.value <= start.value + DECREASE * found.length * start.slope
    assert abs(found.slope) <= CURVATURE * abs(start.slope)
    assert len(calls) <= 40
    assert len(set(calls)) == len(calls)


def test_a_good_first_length_costs_one_sample():
    value, slope = LINES["parabola"]
    calls = []

    def sample(t: float) -> Sample:
        calls.append(t)
        return Sample(t, value(t), slope(t), "there")

    start = Sample(0.0, value(0.0), slope(0.0), None)
    assert strong_wolfe(sample, start, 3.0, 25).point == "there"
    assert calls == [3.0]


def test_a_line_without_decrease_gives_the_start_back():
    start = Sample(0.0, 0.0, -1.0, "start")
    found = strong_wolfe(lambda t: Sample(t, math.nan, math.nan, None), start, 1.0, 5)
    assert found is start
