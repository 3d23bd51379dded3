"""Histograms: floats are counted by the kernels of scatters, which find the bin of each themselves.

As a body they are searched among the edges, compared and counted: a dozen passes over memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.skeleton.each import Each
from pyrite.backend.cube.skeleton.scatter import Writes, write
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Constant, Op
from pyrite.op.rule.scatter import ADD
from pyrite.types import TensorType, float32, int32

WHY = "each element finds its bin where it is counted"


def are_tensors(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether elements and edges are tensors."""
    return all(isinstance(x, CubeTensor) for x in inputs)


@lowers("histogram_within", why=WHY, when=are_tensors)
def histogram_within(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Count the elements of each bin."""
    x, edges = inputs
    target = dense(launcher, Constant(0, TensorType((), int32)), out[0])
    (count,) = x.shape
    writes = Writes(
        count, (), [x], [(0, ())], 1, ADD, counts_from_end=False, index_of=_bin_of, tables=[edges]
    )
    write(launcher, writes, target)
    return [target]


def _bin_of(each: Each, x: Value, tables: Sequence[Operand], count: int) -> tuple[Value, Value]:
    """Return whether an element is in a bin, and in which: the last whose lower edge it reaches.

    Where edges have one distance a quotient is that bin or, seldom, the one beside it.
    """
    b, k, (edges,) = each.b, each.k, tables
    last = b.index(count) - 1
    x = b.cast(x, x.dtype.compute)
    low, high = edges[[0]], edges[[last + 1]]
    is_inside = ~k.isnan(x) & (x >= low) & (x <= high)
    real = x.dtype if x.dtype.is_float else float32
    above, whole = (b.cast(y, real) - b.cast(low, real) for y in (x, high))
    quotient = above * (b.cast(b.index(count), real) / whole)
    # It fits where an element is inside, and of others any will do.
    first = b.min(b.max(b.index(b.cast(quotient, int32)), 0), last)
    is_beside = (x < edges[[first]]) | ((first < last) & (x >= edges[[first + 1]]))
    with b.if_(is_inside & is_beside, is_rare=True) as branch:
        branch.yield_(_found_from(each, x, edges, first, last))
    with branch.else_():
        branch.yield_(first)
    return is_inside, branch.results[0]


def _found_from(each: Each, x: Value, edges: Operand, first: Value, last: Value) -> Value:
    """Return the bin of an element that is in one, looked for edge by edge."""
    b = each.b
    with b.while_([first]) as loop:
        (at,) = loop.carried
        loop.condition((at > 0) & (x < edges[[at]]))
        loop.yield_(loop.carried[0] - 1)
    with b.while_([loop.results[0]]) as loop:
        (at,) = loop.carried
        loop.condition((at < last) & (x >= edges[[b.min(at, last - 1) + 1]]))
        loop.yield_(loop.carried[0] + 1)
    return loop.results[0]
