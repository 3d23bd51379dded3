"""Nodes of a graph inside a kernel: each by its scalar rule, rounded as if it ran alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from pyrite.backend.graph import Literal, Node
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.trace import trace
from pyrite.recent import KERNELS, Recent
from pyrite.types import TensorType, bool_, int32

#: What gives the value of a graph by its number, at one place of the kernel.
Look = Callable[[int], Value]


def evaluate(b: KernelBuilder, node: Node, look: Look) -> Value:
    """Return the result of an elementwise node, whose operands ``look`` gives."""
    assert node.op.scalar is not None, "an elementwise node"
    found = [look(x) if isinstance(x, int) else x for x in node.operands]
    width = max((x.width for x in found if isinstance(x, Value)), default=1)
    operands = [_operand(b, x, width) for x in found]
    result = trace(b, node.op.scalar, operands, node.types[0].dtype, **node.attrs)
    return _fenced(b, result)


def _fenced(b: KernelBuilder, x: Value) -> Value:
    """Return a value such that its op is rounded as if it ran alone, on every target.

    16-bit floats are rounded to their dtype, which is a fence, and what is read is behind one.
    """
    is_open = x.node.kind in _COMPUTED and x.node.attr != "fence"
    return b.fence(x) if is_open and x.dtype.is_float and x.dtype.itemsize >= 4 else x


_COMPUTED: Final = frozenset(("alu", "select", "result", "make", "extract"))


def _operand(b: KernelBuilder, x: Value | Literal | None, width: int) -> Value | None:
    if isinstance(x, Literal):
        # As the argument of a kernel is: in the dtype of the computation, not rounded to the op's.
        return b.const(x.value, vector(x.dtype if x.dtype is bool_ else x.dtype.compute, width))
    if x is None:
        return None
    fenced = _fenced(b, x)
    return fenced if x.width == width else b.splat(fenced, width)


#: How many instructions rules take, by what they are applied to.
_WEIGHTS: Final[Recent[Hashable, int]] = Recent(KERNELS)


def weight_of(node: Node, types: Sequence[TensorType]) -> int:
    """Return how many instructions the rule of an elementwise node takes, given all types."""
    places = [node.values.index(x) for x in node.values]
    key = (node.content, *places, *[types[x].dtype for x in node.values], node.types[0].dtype)
    found = _WEIGHTS.get(key)
    if found is None:
        found = _weight(node, types)
        _WEIGHTS.put(key, found)
    return found


def _weight(node: Node, types: Sequence[TensorType]) -> int:
    b = KernelBuilder("weight")

    def look(x: int) -> Value:
        dtype = types[x].dtype
        argument = b.scalar(f"x{x}", int32 if dtype is bool_ else dtype.compute)
        return argument > 0 if dtype is bool_ else argument

    evaluate(b, node, look)
    return sum(n.attr != "fence" for n in b.body)
