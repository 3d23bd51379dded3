"""Scalar rules that give their input back, as a cast to the dtype that is there: no kernel runs."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder
from pyrite.kernel.ir import Node
from pyrite.kernel.trace import trace
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


def given_back(
    op: Op, inputs: Sequence[Input], attrs: Attributes, type: TensorType
) -> CubeTensor | None:
    """Return the input of an op that its scalar rule gives as it is, None where it computes."""
    x = inputs[0] if len(inputs) == 1 else None
    if op.scalar is None or op.coordinates or not isinstance(x, CubeTensor) or x.type != type:
        return None
    b = KernelBuilder(op.name, workgroup_size=1)
    value = b.scalar("x", type.dtype)
    result = trace(b, op.scalar, [value], type.dtype, **attrs)
    return x if _without_round_trip(result.node) is value.node else None


def _without_round_trip(node: Node) -> Node:
    """Return what was widened and rounded again: 16-bit floats are computed in float32."""
    if node.kind != "cast" or node.inputs[0].kind != "cast":
        return node
    (wide,) = node.inputs
    (first,) = wide.inputs
    assert wide.type is not None
    is_exact = node.type is not None and wide.type.dtype is node.type.dtype.compute
    return first if is_exact and first.type == node.type else node
