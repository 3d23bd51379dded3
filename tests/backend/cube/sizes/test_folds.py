"""A reduction or a scan of another size takes the kernels of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite

NAMES = ["sum", "mean", "max", "argmax", "all"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [0, -1], ids=["columns", "rows"])
def test_whole_vectors(name: str, axis: int, built: Any, draw: Any) -> None:
    sizes = [(20, 48), (24, 96), (36, 80), (21, 64)]

    first, *others = built(case(name, axis, draw), sizes)

    assert first > 0
    # On a GPU more lanes share a column where there are fewer columns.
    assert sum(others) <= (axis == 0)


@pytest.mark.parametrize("name", NAMES)
def test_any_size_on_a_processor(name: str, cpu_built: Any, draw: Any) -> None:
    for axis in (0, -1):
        sizes = [(33, 51), (34, 77), (47, 53), (101, 99), (64, 94)]

        first, *others = cpu_built(case(name, axis, draw), sizes)

        assert first > 0
        assert others == [0, 0, 0, 0]


def test_columns_of_a_processor_end_anywhere(cpu_built: Any, draw: Any) -> None:
    """Its kernels for columns that are whole vectors, or not, are compiled with each other."""
    sizes = [(9, 512), (9, 700), (11, 1024), (15, 515)]

    first, *others = cpu_built(case("sum", 0, draw), sizes)

    assert first > 0
    assert others == [0, 0, 0]


@pytest.mark.parametrize("axis", [0, -1], ids=["columns", "rows"])
def test_scans(axis: int, built: Any, draw: Any) -> None:
    def scanned(device: Any, shape: tuple[int, ...]) -> Any:
        x = draw(*shape)
        return pyrite.tensor(x, device=device).cumsum(axis), np.cumsum(x, axis=axis)

    first, *others = built(scanned, [(120, 64), (124, 96), (128, 160)])

    assert first > 0
    assert sum(others) <= 1  # more columns are taken together where there are many


def case(name: str, axis: int, draw: Any) -> Any:
    def call(device: Any, shape: tuple[int, ...]) -> Any:
        x = draw(*shape)
        return getattr(pyrite.tensor(x, device=device), name)(axis), getattr(np, name)(x, axis=axis)

    return call
