"""Edit distance and common subsequences against the tables of dynamic programming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.train.metric.alignment import common_length, edit_distance


def table(left: Any, right: Any, *, common: bool) -> int:
    row = [0 if common else j for j in range(len(right) + 1)]
    for i, a in enumerate(left, start=1):
        before, row = row, [0 if common else i]
        for j, b in enumerate(right, start=1):
            if common:
                row.append(before[j - 1] + 1 if a == b else max(before[j], row[-1]))
            else:
                row.append(min(before[j - 1] + (a != b), before[j] + 1, row[-1] + 1))
    return row[-1]


@pytest.mark.parametrize("alphabet", [1, 2, 5, 200])
def test_they_are_those_of_the_table(alphabet: int) -> None:
    generator = np.random.default_rng(alphabet)
    for _ in range(60):
        left, right = (
            generator.integers(0, alphabet, generator.integers(0, 90)).tolist() for _ in range(2)
        )
        assert edit_distance(left, right) == table(left, right, common=False)
        assert common_length(left, right) == table(left, right, common=True)


@pytest.mark.parametrize(("left", "right"), [("", ""), ("", "ab"), ("ab", ""), ("é", "é")])
def test_empty_texts_and_code_points(left: str, right: str) -> None:
    assert edit_distance(left, right) == table(left, right, common=False)
    assert common_length(left, right) == table(left, right, common=True)
