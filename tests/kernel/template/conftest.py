"""Products of matrices for the templates, and their judge: the interpreter beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import Kernel, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.template.operand import Digit, OperandMap, row_major_map
from pyrite.kernel.template.product import Product
from pyrite.types import Array, DType, float32


@dataclass(frozen=True)
class Problem:
    """A product with operands, and what NumPy makes of them."""

    product: Product
    x: Array
    y: Array
    want: Array

    def run(self, kernel: Kernel, workgroups: int | tuple[int, ...], *more: Any) -> Array:
        """Verify and interpret a kernel; memory that it does not write stays NaN or -1."""
        out = np.full(self.want.size, -1 if self.want.dtype.kind in "iu" else np.nan)
        target = out.astype(self.want.dtype)
        interpret(verify(kernel), workgroups, self.x.ravel(), self.y.ravel(), *more, target)
        return target.reshape(self.want.shape)

    def check(self, got: Array) -> None:
        """Compare with NumPy: integers exactly, floats in a few of their last places."""
        if self.want.dtype.kind in "iu":
            np.testing.assert_array_equal(got, self.want)
            return
        tolerance = {8: 1e-12, 4: 2e-5}.get(self.want.itemsize, 2e-2)
        got, want = got.astype(np.float64), self.want.astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 4)


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """problem(batch, m, n, k, turned="xy", dtype=…): operands named there lie transposed."""
    return _problem


def _problem(
    batch: int, m: int, n: int, k: int, turned: str = "", dtype: DType = float32, shared: str = ""
) -> Problem:
    random = np.random.default_rng(m * 10007 + n * 101 + k)

    def operand(name: str, rows: int, columns: int) -> tuple[OperandMap, Array, Array]:
        count = 1 if name in shared else batch
        values = _values(random, (count, rows, columns), dtype)
        if name in turned:
            map = row_major_map(dtype, (batch,), columns, rows).transposed
        else:
            map = row_major_map(dtype, (batch,), rows, columns)
        if name in shared:
            map = OperandMap(dtype, (Digit(batch, 0),), map.rows, map.columns)
        stored = values.swapaxes(1, 2) if name in turned else values
        return map, values, np.ascontiguousarray(stored)

    x_map, x, x_stored = operand("x", m, k)
    y_map, y, y_stored = operand("y", k, n)
    wide = np.float64 if dtype.is_float else np.int64
    want = (x.astype(wide) @ y.astype(wide)).astype(dtype.numpy)
    out = row_major_map(dtype, (batch,), m, n)
    return Problem(Product(x_map, y_map, out), x_stored, y_stored, want)


def _values(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    low, high = int(dtype.lowest), int(dtype.highest)
    return random.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)
