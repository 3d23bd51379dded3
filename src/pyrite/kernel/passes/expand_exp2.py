"""Makes powers of two by arithmetic, where a target has no instruction for them.

Requires a legal kernel.  Guarantees one without ``exp2``, but for dtypes of which it is kept; what
it computes is nearer to the power.
"""

from __future__ import annotations

from collections.abc import Collection

from pyrite.kernel.builder import Value
from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter
from pyrite.kernel.polyfill.exponential import exp2
from pyrite.types import DType


def expand_exp2(kernel: Kernel, *, kept: Collection[DType] = ()) -> Kernel:
    """Return the kernel with powers of two spelled out, but of dtypes that are kept."""
    if any(_is_expanded(node, kept) for node in kernel.walk()):
        return _Expander(kernel, kept).run()
    return kernel


def _is_expanded(node: Node, kept: Collection[DType]) -> bool:
    return node.kind == "alu" and node.attr == "exp2" and node.value_type.dtype not in kept


class _Expander(Rewriter):
    def __init__(self, kernel: Kernel, kept: Collection[DType]) -> None:
        super().__init__(kernel)
        self.kept = kept
        self.b = EmittingBuilder(self)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if not _is_expanded(node, self.kept):
            return self.keep(node, inputs)
        return exp2(self.b, Value(self.b, inputs[0])).node
