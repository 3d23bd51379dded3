"""The passes that make a kernel what `to_llvm` prints, in their order."""

from __future__ import annotations

from pyrite.kernel.ir import Kernel
from pyrite.kernel.passes import (
    eliminate_common,
    eliminate_dead,
    fold_constants,
    simplify_index,
    split_barriers,
    vectorize,
)
from pyrite.kernel.target.llvm.processor import LLVMTarget
from pyrite.types import float32


def lowered(kernel: Kernel, target: LLVMTarget) -> Kernel:
    """Return an equal kernel, simplified, with one invocation in a workgroup."""
    kernel = eliminate_common(fold_constants(simplify_index(kernel, with_reciprocals=True)))
    if kernel.invocations > 1:
        kernel = split_barriers(vectorize(kernel, target.lanes(float32)))
        kernel = fold_constants(kernel)
    return eliminate_dead(kernel)
