"""What of a kernel depends on the place of its workgroup alone, as a row's coordinates do."""

from __future__ import annotations

from pyrite.kernel.ir import Kernel, Node


def is_counted(kernel: Kernel, x: Node, y: Node) -> bool:
    """Whether x / y is a coordinate of the workgroup: of its number, by sizes from the launch.

    Whoever runs workgroups of one invocation in turns need not divide, but may count.
    """
    if kernel.grid != 1 or kernel.invocations != 1:
        return False
    return _is_size(x, y) and _is_place(x)


def _is_size(x: Node, y: Node) -> bool:
    """Whether y comes with the launch, is above 0, and has the type of x."""
    return y.kind == "argument" and y.type == x.type and len(y.attr) == 3 and y.attr[2] > 0


def _is_place(x: Node) -> bool:
    if x.kind == "alu" and x.attr == "div":
        of, by = x.inputs
        return _is_size(of, by) and _is_place(of)
    return x.kind == "builtin" and x.attr == ("workgroup_id", 0)
