"""Matrix products: batches that broadcast, operands that lie anyhow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import merged, row_major
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.contraction import contract, layout_of
from pyrite.backend.cube.skeleton.contraction.epilogue import add
from pyrite.backend.cube.skeleton.elementwise import zeros
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, Stage
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.template.implicit_gemm import Layout
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.template.product import Product
from pyrite.op import Attributes, Op
from pyrite.types import Shape, TensorType


def matmul_product(shape: Shape, x: Layout, y: Layout) -> Product:
    """Return the product of matrices of a shape (*batch, M, K, N), from their layouts."""
    *batch, m, k, n = shape
    out = row_major((*batch, m, n))
    axes = merged(tuple(batch), [x.strides[:-2], y.strides[:-2], out[:-2]])

    def map(layout: Layout, at: int, rows: int, columns: int) -> OperandMap:
        digits = tuple(Digit(size, step) for size, step in zip(*axes[at], strict=True))
        row, column = layout.strides[-2:]
        return OperandMap(
            layout.dtype, digits, (Digit(rows, row),), (Digit(columns, column),), (), layout.offset
        )

    return Product(map(x, 0, m, k), map(y, 1, k, n), map(Layout(x.dtype, out), 2, m, n))


@lowers("matmul")
def matmul(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """(..., M, K) @ (..., K, N)."""
    x, y = inputs
    (type,) = out
    if type.size == 0:
        return [launcher.empty(type)]
    if x.shape[-1] == 0:
        return [zeros(launcher, type)]
    return [multiply(launcher, x, y, type)]


def _has_bias(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether there is something to multiply, and something to add."""
    return all(isinstance(i, CubeTensor) and i.type.size > 0 for i in inputs)


@lowers("linear", when=_has_bias)
def linear(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """x @ weight.T, and the bias on each sum before it is rounded and stored."""
    x, weight, bias = inputs
    (type,) = out
    (n,), (step,) = bias.shape, bias.strides
    if len(x.shape) == 1:
        x = CubeTensor(x.buffer, TensorType((1, *x.shape), x.dtype), (0, *x.strides), x.offset)
        type = TensorType((1, *type.shape), type.dtype)
    along = OperandMap(
        bias.dtype, (), (), (Digit(n, step),), (), layout_of(bias, launcher.machine).offset
    )
    fused = Fused(epilogue=Stage(add, (along,)))
    found = multiply(launcher, x, weight.permuted((1, 0)), type, fused, [bias])
    whole = found.reshaped(out[0].shape)
    assert whole is not None, "a dense tensor takes any shape"
    return [whole]


def multiply(
    launcher: Launcher, x: CubeTensor, y: CubeTensor, type: TensorType, fused: Fused = NOTHING,
    sources: Sequence[CubeTensor] = (),
) -> CubeTensor:  # fmt: skip
    """Return the product; the batch is more rows where all of it shares one matrix y.

    ``sources`` of what is fused depend on the column alone.
    """
    target, k = launcher.empty(type), x.shape[-1]
    batch, (m, n) = type.shape[:-2], type.shape[-2:]
    if batch and len(y.shape) == 2:
        rows = x.reshaped((x.type.size // k, k))
        if rows is not None:
            batch, m, x = (), x.type.size // k, rows
    if batch:
        x, y = x.broadcast_to((*batch, m, k)), y.broadcast_to((*batch, k, n))
    product = matmul_product(
        (*batch, m, k, n), layout_of(x, launcher.machine), layout_of(y, launcher.machine)
    )
    contract(launcher, product, x, y, target, fused=fused, sources=sources)
    return target
