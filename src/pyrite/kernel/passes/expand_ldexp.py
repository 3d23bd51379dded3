"""Makes what has the exponent of a float changed by arithmetic on its bits.

Requires a legal kernel.  Guarantees an equal one without ``ldexp`` and ``ldexp_normal``, for
targets that have no instruction for these, or without ``ldexp`` for those where it is slow.  Bits
so changed are a number's where they were NaN's: with it goes ``keep_nan``, which is spelled out, or
dropped where ``ldexp`` is left.
"""

from __future__ import annotations

from collections.abc import Collection

from pyrite.kernel.builder import Value
from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter
from pyrite.kernel.polyfill.floats import keep_nan, power_of_two, whole, with_exponent


def expand_ldexp(kernel: Kernel, *, keeps: Collection[str] = ()) -> Kernel:
    """Return the kernel with what scales by powers of two spelled out.

    ``keeps`` are those of ``ldexp`` and ``ldexp_normal`` that are left to an instruction.
    """
    return _Expander(kernel, keeps).run()


class _Expander(Rewriter):
    def __init__(self, kernel: Kernel, keeps: Collection[str]) -> None:
        super().__init__(kernel)
        self.keeps = keeps
        self.b = EmittingBuilder(self)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        name = node.attr if node.kind == "alu" else None
        if name not in ("ldexp", "ldexp_normal", "keep_nan") or name in self.keeps:
            return self.keep(node, inputs)
        if name == "keep_nan" and "ldexp" in self.keeps:
            return inputs[1]
        x, n = (Value(self.b, i) for i in inputs)
        if name == "keep_nan":
            return keep_nan(self.b, x, n).node
        if name == "ldexp":
            return with_exponent(self.b, x, whole(self.b, n)).node
        power = power_of_two(self.b, whole(self.b, n), x.dtype)
        is_one = inputs[0].kind == "const" and inputs[0].attr == 1
        return power.node if is_one else (x * power).node
