"""Sums of products that an invocation holds in registers: elements of one operand times vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.attention.lanes import Lanes
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Type
from pyrite.kernel.template.index import Index
from pyrite.kernel.template.product import accumulate

#: Values at a step of a sum, which is given.
Read = Callable[[Index], Sequence[Value]]


def add_products(
    b: KernelBuilder, steps: Index, sums: Sequence[Value], elements: Read, vectors: Read,
    *, unroll: int = 1,
) -> list[Value]:  # fmt: skip
    """Return sums[i, v] + sum over the steps of elements[i] * vectors[v], row by row.

    ``unroll`` steps are written out at once where their number is known.
    """
    found = list(sums)
    if not isinstance(steps, int):
        unroll = 1
    whole = steps // unroll * unroll if isinstance(steps, int) else steps
    for start, stop, count in ((0, whole, unroll), (whole, steps, 1)):
        if start is stop or (isinstance(stop, int) and start == stop):
            continue
        with b.for_(start, stop, step=count, carried=found) as loop:
            carried = list(loop.carried)
            for further in range(count):
                step = loop.index + further if further else loop.index
                carried = _added(carried, elements(step), vectors(step))
            loop.yield_(*carried)
        found = list(loop.results)
    return found


def _added(sums: Sequence[Value], x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
    wide = [_as(value, y[0].type) for value in x]
    return [accumulate(wide[n // len(y)], y[n % len(y)], sum) for n, sum in enumerate(sums)]


def _as(x: Value, type: Type) -> Value:
    return x.builder.value(x, type)


def add_rows(
    lanes: Lanes, sums: Memory, size: int, operand: Operand, start: Value, weights: Memory,
    count: Index, rescale: Sequence[Value] = (),
) -> None:  # fmt: skip
    """Add to ``size`` rows of sums, each a column of an operand, its products with weights.

    sums[c] = sums[c] * rescale + sum over i < count of operand[i, c] * weights[i], where the
    element at [0, 0] lies at ``start``.
    """
    b, rows, vectors = lanes.b, lanes.config.rows, lanes.config.vectors
    along, step = operand.layout.strides[-2:]

    def add(column: Value, rows: int) -> None:
        places = [start + (column + i) * step for i in range(rows)]
        found = [x for i in range(rows) for x in lanes.vectors(sums, column + i)]
        if rescale:
            found = [x * rescale[n % vectors] for n, x in enumerate(found)]
        found = add_products(
            b, count, found,
            lambda i: [operand.load(place + i * along) for place in places],
            lambda i: lanes.vectors(weights, i),
        )  # fmt: skip
        for i in range(rows):
            lanes.put(sums, column + i, found[i * vectors : (i + 1) * vectors])

    whole = size // rows * rows
    with b.for_(0, whole, step=rows) as loop:
        add(loop.index, rows)
        loop.yield_()
    if whole < size:
        add(b.index(whole), size - whole)
