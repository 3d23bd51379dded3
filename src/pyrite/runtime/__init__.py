"""Where kernels run: compiled, fed with memory, launched in order.

Above `pyrite.kernel`, below `pyrite.backend`; knows no op and no tensor.  A runtime is imported by
who uses it: `pyrite.runtime.cpu` needs llvmlite, `pyrite.runtime.wgpu` needs wgpu.
"""

from pyrite.runtime.protocol import Buffer as Buffer
from pyrite.runtime.protocol import Executable as Executable
from pyrite.runtime.protocol import MemoryReport as MemoryReport
from pyrite.runtime.protocol import Runtime as Runtime
from pyrite.runtime.resource import BindingResource as BindingResource
from pyrite.runtime.resource import HostResource as HostResource
from pyrite.runtime.resource import Resource as Resource

__all__ = [
    "BindingResource",
    "Buffer",
    "Executable",
    "HostResource",
    "MemoryReport",
    "Resource",
    "Runtime",
]
