"""Sums of products that an invocation holds in registers: elements of one operand times vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.kernel import KernelBuilder, Value
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
