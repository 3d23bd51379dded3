"""The kernel compiler: IR, builder, tracer, verifier, interpreter, passes; see README.md.

It knows no tensor, no op and no backend.
"""

from pyrite.kernel.builder import KernelBuilder as KernelBuilder
from pyrite.kernel.builder import Memory as Memory
from pyrite.kernel.builder import Value as Value
from pyrite.kernel.ir import Kernel as Kernel
from pyrite.kernel.text import to_text as to_text
from pyrite.kernel.verify import verify as verify

__all__ = ["Kernel", "KernelBuilder", "Memory", "Value", "to_text", "verify"]
