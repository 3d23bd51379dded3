"""Kernels that leave their operands, and what a guarded mode must find of them.

Each copies five elements, and reads or writes ``by`` elements away from where it may.
"""

from __future__ import annotations

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, float32

#: Elements of the buffers.
COUNT = 5


def reading(by: int) -> Kernel:
    """Return the kernel y[i] = x[i + by]."""
    b = KernelBuilder(f"reads by {by}")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    i = b.global_id()
    y[i] = x[i + by]
    return b.build()


def writing(by: int) -> Kernel:
    """Return the kernel y[i + by] = x[i]."""
    b = KernelBuilder(f"writes by {by}")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    i = b.global_id()
    y[i + by] = x[i]
    return b.build()


def run(runtime: Runtime, kernel: Kernel) -> Array:
    """Return what a kernel makes of the numbers from 0 on."""
    x = runtime.upload(np.arange(COUNT, dtype=np.float32))
    y = runtime.allocate(4 * COUNT)
    runtime.launch(runtime.compile(kernel), [x, y], (COUNT,))
    return runtime.read(y, float32, (COUNT,))
