"""Products of matrices for lowerings that have no contraction at hand: batches, operands anyhow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import merged, row_major
from pyrite.backend.cube.skeleton.contraction.product import contract, layout_of
from pyrite.backend.cube.skeleton.finish import Around
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.template.product import Product
from pyrite.types import Shape, TensorType


def matmul_product(
    shape: Shape, x: OperandLayout, y: OperandLayout, out: OperandLayout | None = None
) -> Product:
    """Return the product of matrices of a shape (*batch, M, K, N), from their layouts.

    Without ``out`` the result is dense, in the dtype of x.
    """
    *batch, m, k, n = shape
    if out is None:
        out = OperandLayout(x.dtype, row_major((*batch, m, n)))
    axes = merged(tuple(batch), [x.strides[:-2], y.strides[:-2], out.strides[:-2]])

    def map(layout: OperandLayout, at: int, rows: int, columns: int) -> OperandMap:
        digits = tuple(Digit(size, step) for size, step in zip(*axes[at], strict=True))
        row, column = layout.strides[-2:]
        return OperandMap(
            layout.dtype, digits, (Digit(rows, row),), (Digit(columns, column),), (), layout.offset
        )

    return Product(map(x, 0, m, k), map(y, 1, k, n), map(out, 2, m, n))


def multiply(
    launcher: Launcher, x: CubeTensor, y: CubeTensor, type: TensorType, fused: Fused = NOTHING,
    sources: Sequence[CubeTensor] = (),
) -> CubeTensor:  # fmt: skip
    """Return the product; the batch is more rows where all of it shares one matrix y.

    ``sources`` of what is fused depend on the column alone.
    """
    target = launcher.empty(type)
    multiply_to(launcher, x, y, target, Around(fused, tuple(sources)))
    return target


def multiply_to(
    launcher: Launcher, x: CubeTensor, y: CubeTensor, target: CubeTensor, around: Around
) -> None:
    """Write the product, or what is fused onto it makes of it; see `multiply`."""
    k, type = x.shape[-1], target.type
    batch, (m, n) = type.shape[:-2], type.shape[-2:]
    rows = flat_rows(x, y)
    if batch and rows is not None:
        batch, m, x = (), x.type.size // k, rows
    if batch:
        x, y = x.broadcast_to((*batch, m, k)), y.broadcast_to((*batch, k, n))
    product = matmul_product(
        (*batch, m, k, n), layout_of(x, launcher.machine), layout_of(y, launcher.machine)
    )
    contract(
        launcher, product, x, y, target,
        fused=around.fused, sources=around.sources, outputs=around.outputs,
    )  # fmt: skip


def multiply_into(
    launcher: Launcher, x: CubeTensor, y: CubeTensor, target: CubeTensor, *, is_lower: bool = False
) -> None:
    """Write the product of batches of one shape to a target that lies anyhow, of its own dtype.

    On a GPU alone x may be a lower triangle: see `Product`.
    """
    *batch, m, n = target.shape
    of_x, of_y, of_target = (layout_of(t, launcher.machine) for t in (x, y, target))
    product = matmul_product((*batch, m, x.shape[-1], n), of_x, of_y, of_target)
    contract(launcher, replace(product, is_lower=is_lower), x, y, target)


def flat_rows(x: CubeTensor, y: CubeTensor) -> CubeTensor | None:
    """Return a batch of matrices as the rows of one, where all share y and it lies so."""
    k = x.shape[-1]
    return x.reshaped((x.type.size // k, k)) if len(y.shape) == 2 else None


def rows_of_result(x: CubeTensor, machine: Machine) -> OperandMap:
    """Return what has a result's axes as a matrix with all but the last axis as its rows."""
    *lead, n = x.shape
    ((sizes, steps),) = merged(tuple(lead), [x.strides[:-1]])
    digits = tuple(Digit(size, step) for size, step in zip(sizes, steps, strict=True))
    columns = () if n == 1 else (Digit(n, x.strides[-1]),)
    return OperandMap(x.dtype, (), digits, columns, (), layout_of(x, machine).offset)
