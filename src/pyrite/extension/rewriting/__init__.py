"""Functions in plain Python, written anew as calls that record a kernel.

A kernel's ``if``, ``for i in range(n)``, ``while``, ``and`` become calls of
`pyrite.extension.flow`, which look at what they are given: of a value of the kernel they record, of
anything else they do what Python does.  So Python still runs while the kernel is written.  Three
passes over the tree:

- `jump`: ``break``, ``continue`` and ``return`` become flags, so that each block has one end;
- `liveness`: which names are read after a statement, hence what a loop carries on;
- `statement` and `expression`: the calls.

`source` reads a function's text and makes a function of the tree, with the lines of the first.
The design is docs/design/0035.
"""

from pyrite.extension.rewriting.source import Source as Source
from pyrite.extension.rewriting.source import bound as bound
from pyrite.extension.rewriting.source import source_of as source_of

__all__ = ["Source", "bound", "source_of"]
