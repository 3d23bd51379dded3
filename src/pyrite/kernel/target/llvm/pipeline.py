"""The passes that make a kernel what `to_llvm` prints, in their order."""

from __future__ import annotations

from collections.abc import Collection

from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes import (
    Known,
    align_rounds,
    eliminate_common,
    eliminate_dead,
    expand_exp2,
    expand_ldexp,
    fold_constants,
    simplify_index,
    split_barriers,
    vectorize_in_strips,
)
from pyrite.kernel.target.llvm.processor import LLVMTarget
from pyrite.types import float32


def lowered(
    kernel: Kernel, target: LLVMTarget, *, wholes: Collection[int] = (), multiple: int = 1
) -> Kernel:
    """Return an equal kernel, simplified, with one invocation in a workgroup.

    It is for launches whose ``wholes``, extents by position, are multiples of a number.
    """
    known = {p.attr[1]: _multiple_of(p, multiple) for p in kernel.arguments if p.attr[0] in wholes}
    kernel = expand_exp2(kernel)
    kernel = expand_ldexp(kernel, keeps=target.scales)
    kernel = simplify_index(kernel, known, with_reciprocals=kernel.invocations == 1)
    kernel = eliminate_common(fold_constants(kernel))
    if kernel.invocations > 1:
        lanes = target.lanes(float32)
        if kernel.invocations > lanes:
            kernel = align_rounds(kernel)
        kernel = vectorize_in_strips(kernel, lanes)
        if any(map(_divides, kernel.walk())):
            # After, as neighbours are in one row by what it is divided by.
            kernel = eliminate_common(simplify_index(kernel, known, with_reciprocals=True))
        kernel = fold_constants(split_barriers(kernel))
    return eliminate_dead(kernel)


def _divides(node: Node) -> bool:
    """Whether it divides a whole number by one that is not known."""
    is_division = node.kind == "alu" and node.attr in ("div", "rem")
    return is_division and node.value_type.dtype.is_integer and node.inputs[1].kind != "const"


def _multiple_of(extent: Node, number: int) -> Known:
    """Return what is known of an extent that is a multiple of a number."""
    return Known(extent.attr[2], int(extent.value_type.dtype.highest), number)
