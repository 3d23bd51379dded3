"""The wgpu runtime: any GPU, through Vulkan, Metal or Direct3D 12.

- `adapter`: which GPU; `native`, `header`: the C library under wgpu-py;
- `compiler`, `executable`, `shader`: from a kernel to its pipelines, one for each form of launch;
- `demand`: what a kernel asks of a device;
- `memory`, `binding`, `external`, `resource`: buffers, Pyrite's and the application's;
- `submission`, `validation`, `queue`, `staging`: from commands to the device, and bytes both ways;
- `life`, `poller`, `process`: whether the device works, waiting for it, the end of the process;
- `runtime`: all of these behind one protocol; `bundle`: launches made many times.
"""

from pyrite.runtime.wgpu.adapter import Adapter as Adapter
from pyrite.runtime.wgpu.adapter import Device as Device
from pyrite.runtime.wgpu.adapter import adapters as adapters
from pyrite.runtime.wgpu.adapter import init_device as init_device
from pyrite.runtime.wgpu.adapter import open_device as open_device
from pyrite.runtime.wgpu.demand import check_workgroup as check_workgroup
from pyrite.runtime.wgpu.executable import Executable as Executable
from pyrite.runtime.wgpu.executable import Signature as Signature
from pyrite.runtime.wgpu.memory import Buffer as Buffer
from pyrite.runtime.wgpu.runtime import WgpuRuntime as WgpuRuntime

__all__ = [
    "Adapter",
    "Buffer",
    "Device",
    "Executable",
    "Signature",
    "WgpuRuntime",
    "adapters",
    "check_workgroup",
    "init_device",
    "open_device",
]
