"""Products and convolutions for the templates, and their judge: the interpreter beside NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import Kernel, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.operand import Digit, OperandMap, row_major_map
from pyrite.kernel.template.product import Product
from pyrite.op import OPS
from pyrite.runtime.protocol import Runtime
from pyrite.testing.launch import launched
from pyrite.types import Array, DType, float32


def native(kernel: Kernel, workgroups: int | tuple[int, ...], *values: Any) -> None:
    """Run a kernel as machine code, with the arguments and the effect of `interpret`."""
    from pyrite.runtime.cpu.runtime import CpuRuntime

    grid = (workgroups,) if isinstance(workgroups, int) else workgroups
    runtime = _runtime(CpuRuntime)
    for value, found in zip(values, launched(runtime, kernel, grid, values), strict=True):
        if isinstance(value, np.ndarray):
            value[...] = found


@cache
def _runtime(of: type[Runtime]) -> Runtime:
    return of()


@pytest.fixture(
    params=["interpreter", pytest.param("cpu", marks=pytest.mark.sample(1))], autouse=True
)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What runs the kernels of a test: the interpreter, or this computer's processors."""
    if request.param == "cpu":
        if not find_spec("llvmlite"):
            pytest.skip("the device cpu needs llvmlite")
        for module in (request.module, sys.modules[__name__]):
            monkeypatch.setattr(module, "interpret", native, raising=False)
    return str(request.param)


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


#: (batch, channels, outputs, groups), sizes, kernel, stride, (before, after), dilation.
GEOMETRIES: list[Any] = [
    ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((1, 4, 6, 2), (8, 6), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2)),
    ((2, 4, 4, 4), (6, 8), (3, 3), (1, 2), ((1, 1), (0, 0)), (1, 1)),
    ((1, 2, 3, 1), (11,), (3,), (2,), ((2, 1),), (2,)),
    ((1, 2, 3, 1), (4, 5, 3), (2, 2, 2), (1, 2, 1), ((0, 0), (1, 1), (1, 0)), (1, 1, 1)),
    ((2, 3, 5, 1), (4, 4), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    ((3, 2, 3, 1), (9, 13), (5, 4), (3, 2), ((2, 2), (2, 2)), (1, 3)),
    ((2, 1, 2, 1), (5, 6), (1, 1), (2, 3), ((0, 0), (1, 0)), (1, 1)),
    ((2, 2, 2, 1), (3, 4), (2, 2), (1, 1), ((2, 0), (3, 2)), (1, 1)),
]


@dataclass(frozen=True)
class Layer:
    """A convolution with its operands, and what the reference makes of them."""

    windows: Windows
    dtype: DType
    x: Array
    weight: Array
    out: Array
    g: Array
    x_gradient: Array
    weight_gradient: Array

    def check(self, got: Array, want: Array) -> None:
        """Compare what was made in memory that was full of NaN, or of -1."""
        tolerance = {8: 1e-12, 4: 2e-5}.get(self.dtype.itemsize, 2e-2)
        got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 4)


@pytest.fixture(params=GEOMETRIES, ids=str)
def layer(request: pytest.FixtureRequest) -> Layer:
    """A float32 layer of each geometry."""
    return _layer(request.param, float32)


@pytest.fixture
def layer_of() -> Callable[[Any, DType], Layer]:
    """layer_of(geometry, dtype)."""
    return _layer


def _layer(geometry: Any, dtype: DType) -> Layer:
    (batch, channels, outputs, groups), sizes, kernel_size, stride, padding, dilation = geometry
    random = np.random.default_rng(0)
    x, weight = (
        _small(random, shape, dtype)
        for shape in ((batch, channels, *sizes), (outputs, channels // groups, *kernel_size))
    )
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    reference: dict[str, Any] = {name: op.reference for name, op in OPS.items()}
    out = reference["convolution"](x, weight, **attrs)
    g = _small(random, out.shape, dtype)
    of_x = reference["convolution_input_gradient"](g, weight, sizes=sizes, **attrs)
    of_weight = reference["convolution_weight_gradient"](x, g, kernel_size=kernel_size, **attrs)
    w = Windows(
        batch, groups, channels // groups, outputs // groups, sizes, kernel_size, out.shape[2:],
        stride, tuple(before for before, _ in padding), dilation,
    )  # fmt: skip
    return Layer(w, dtype, x, weight, out, g, np.asarray(of_x), np.asarray(of_weight))


def _small(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    return random.integers(-4, 5, shape).astype(dtype.numpy)


@pytest.fixture
def layout() -> Callable[[Array, DType], OperandLayout]:
    """layout(array, dtype)."""
    return lambda array, dtype: OperandLayout(
        dtype, tuple(s // array.itemsize for s in array.strides)
    )
