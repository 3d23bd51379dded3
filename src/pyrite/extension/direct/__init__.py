"""Kernels run by Python itself, invocation by invocation: ``print`` and ``pdb`` work in them.

So they run on the device ``numpy`` where an op has no other meaning there.  The function is the
application's own, as it was written; what it gets stands for what a recording gets.
"""

from pyrite.extension.direct.memory import DirectArgument as DirectArgument
from pyrite.extension.direct.memory import arguments_of as arguments_of
from pyrite.extension.direct.run import run as run

__all__ = ["DirectArgument", "arguments_of", "run"]
