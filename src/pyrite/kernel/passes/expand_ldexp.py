"""Makes what has the exponent of a float changed by arithmetic on its bits.

Requires a legal kernel.  Guarantees an equal one without ``ldexp`` and ``ldexp_normal``, for
targets that have no instruction for these, or without ``ldexp`` for those where it is slow.
"""

from __future__ import annotations

from pyrite.kernel.builder import Value
from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter
from pyrite.kernel.polyfill.floats import power_of_two, whole, with_exponent


def expand_ldexp(kernel: Kernel, *, keeps_normal: bool = False) -> Kernel:
    """Return the kernel with what scales by powers of two spelled out.

    ``keeps_normal`` leaves what makes normal numbers to an instruction.
    """
    expanded = ("ldexp",) if keeps_normal else ("ldexp", "ldexp_normal")
    return _Expander(kernel, expanded).run()


class _Expander(Rewriter):
    def __init__(self, kernel: Kernel, expanded: tuple[str, ...]) -> None:
        super().__init__(kernel)
        self.expanded = expanded
        self.b = EmittingBuilder(self)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind != "alu" or node.attr not in self.expanded:
            return self.keep(node, inputs)
        x, n = (Value(self.b, i) for i in inputs)
        if node.attr == "ldexp":
            return with_exponent(self.b, x, whole(self.b, n)).node
        power = power_of_two(self.b, whole(self.b, n), x.dtype)
        is_one = inputs[0].kind == "const" and inputs[0].attr == 1
        return power.node if is_one else (x * power).node
