"""Classes of rules: the forms in which ops that are not elementwise say what they compute.

An elementwise op has a ``scalar`` rule.  Every other primitive that has a form has a ``rule``: a
value of one of the classes here, and beside it an independent ``reference`` in NumPy that judges
it.  Whoever executes ops looks at the class and never at the name of the op:

    fold      a state for each output takes in elements, in any order
"""

from pyrite.op.rule.rule import Rule as Rule

__all__ = ["Rule"]
