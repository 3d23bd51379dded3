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

#: Invocations of a workgroup, one for each sum.
SIZE = 64


def workgroups(product: Product) -> int:
    """Return how many workgroups add the sums."""
    return pieces(product.batch * product.m * product.n, SIZE)


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
    number = group_number(b) * SIZE + b.local_index()
    with b.if_(number < product.batch * product.m * product.n):
        size = product.m * product.n
        batch = divided(number, size) if product.batch > 1 else 0
        inside = remainder(number, size) if product.batch > 1 else number
        row, column = divided(inside, product.n), remainder(inside, product.n)
        total = sums.load(number)
        with b.for_(1, parts, carried=[total]) as loop:
            part = sums.load(number + loop.index * (product.batch * size))
            loop.yield_(loop.carried[0] + part)
        (total,) = loop.results
        values = [total] if apply is None else apply(total, At(batch, row, column))
        for out, value in zip(outs, rounded(values, outs), strict=True):
            out.store(
                value,
                out.at(out.map.batch, batch),
                out.at(out.map.rows, row),
                out.at(out.map.columns, column),
            )
    return b.build()
