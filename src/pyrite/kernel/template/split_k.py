"""The sum of the partial sums that a split product leaves: always added in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Kernel
from pyrite.kernel.template.index import divided, pieces, remainder
from pyrite.kernel.template.operand import OperandMap
from pyrite.kernel.template.product import (
    At,
    Fuse,
    Product,
    declared_outputs,
    group_number,
    rounded,
)

#: Invocations of a workgroup, one for each sum, or for a vector of them in rows of whole vectors.
SIZE = 64
_VECTOR = 4


def workgroups(product: Product) -> int:
    """Return how many workgroups add the sums."""
    return pieces(product.batch * product.m * product.n, SIZE * _width(product))


def _width(product: Product) -> int:
    return _VECTOR if product.n % _VECTOR == 0 else 1


def split_k(
    product: Product, parts: int, *, grid: int = 1, epilogue: Fuse | None = None,
    outputs: Sequence[OperandMap] = (),
) -> Kernel:  # fmt: skip
    """Return the kernel that makes out of partial sums, which lie dense: (parts, batch, M, N).

    Parameters: sums, the epilogue's, outputs; each output's offset follows it if it has one.
    """
    b = KernelBuilder("split_k", workgroup_size=SIZE, grid=grid)
    sums = b.buffer("sums", product.accumulator, "read")
    apply = epilogue(b) if epilogue else None
    outs = declared_outputs(b, outputs or (product.out,))
    width, size = _width(product), product.m * product.n
    number = (group_number(b) * SIZE + b.local_index()) * width
    with b.if_(number < product.batch * size):
        batch = divided(number, size) if product.batch > 1 else 0
        inside = remainder(number, size) if product.batch > 1 else number
        row, column = divided(inside, product.n), remainder(inside, product.n)
        total = sums.load(number, width=width, is_aligned=True)
        with b.for_(1, parts, carried=[total]) as loop:
            place = number + loop.index * (product.batch * size)
            part = sums.load(place, width=width, is_aligned=True)
            loop.yield_(loop.carried[0] + part)
        (total,) = loop.results
        values = [total] if apply is None else apply(total, At(batch, row, column))
        for out, value in zip(outs, rounded(values, outs), strict=True):
            out.store(
                value,
                out.at(out.map.batch, batch),
                out.at(out.map.rows, row),
                out.lanes(out.map.columns, column, width),
            )
    return b.build()
