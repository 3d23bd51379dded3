"""Writing kernels in Python: a builder whose values carry operators, so that they read as code.

    b = KernelBuilder("scale", workgroup_size=256)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    i = b.global_id()
    with b.if_(i < n):
        y[i] = x[i] * 2.0
    kernel = b.build()

Python runs at build time: a Python loop unrolls, a Python number is a constant of the type of the
value beside it, and a scalar beside a vector is repeated.  The builder is literal, it folds
nothing; but a pure node is made once per scope (hash-consed): ``i + 1`` twice costs one node.

Operators: ``+ - *``, ``/`` of floats, ``//`` and ``%`` of integers (truncated as in C: the same as
Python's where nothing is negative, as indices are), ``<< >> & | ^ ~``, comparisons.  ``if``,
``and``, ``while`` of a value are errors: use ``b.if_``, ``&``, ``b.while_``, or ``b.select``.
In a kernel of an application the operators mean what they mean on tensors, whatever the operands:
see `pyrite.extension.arithmetic`.
"""

from pyrite.kernel.builder.builder import KernelBuilder as KernelBuilder
from pyrite.kernel.builder.builder import Memory as Memory
from pyrite.kernel.builder.builder import Operand as Operand
from pyrite.kernel.builder.builder import Value as Value
from pyrite.kernel.builder.control import Branch as Branch
from pyrite.kernel.builder.control import ForLoop as ForLoop
from pyrite.kernel.builder.control import WhileLoop as WhileLoop
from pyrite.kernel.builder.number import exact as exact

__all__ = [
    "Branch", "ForLoop", "KernelBuilder", "Memory", "Operand", "Value", "WhileLoop", "exact",
]  # fmt: skip
