"""Dot products of rows with dense columns: every config gives NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyrite.kernel.machine import Machine
from pyrite.kernel.template.dot_product import candidates, dot_product, select, workgroups
from pyrite.types import bfloat16, float32, float64, int8

Make = Callable[..., Any]
AVX512, SSE = Machine.cpu(64, 32), Machine.cpu(16, 16)


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 21, 8), (2, 70, 101), (7, 5, 30)])
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, int8], ids=lambda d: d.name)
def test_every_candidate_multiplies(problem: Make, size: Any, dtype: Any, quarter: Any) -> None:
    made = problem(2, *size, "y", dtype=dtype)
    found = candidates(made.product, SSE)
    assert found
    for config in quarter(set(found)):
        kernel = dot_product(made.product, config)
        made.check(made.run(kernel, workgroups(made.product, config)))


def test_a_batch_may_share_an_operand(problem: Make) -> None:
    made = problem(3, 2, 9, 70, "y", shared="y")
    config = select(made.product, SSE)
    assert config is not None
    made.check(made.run(dot_product(made.product, config), workgroups(made.product, config)))


def test_few_rows_with_dense_columns_are_dot_products_and_others_are_not(problem: Make) -> None:
    assert select(problem(1, 2, 500, 256, "y").product, AVX512) is not None
    assert select(problem(1, 2, 500, 256).product, AVX512) is None  # columns are not dense
    assert select(problem(1, 8, 500, 256, "y").product, AVX512) is None  # many rows share a copy
    assert select(problem(1, 2, 500, 9, "y").product, AVX512) is None  # the sums are short
