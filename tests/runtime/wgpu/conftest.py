"""What the tests of the wgpu runtime share: a device, some kernels, programs of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("wgpu")

from pyrite.errors import DeviceError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.wgpu import WgpuRuntime, open_device
from pyrite.types import float32, int32

NO_ADAPTER = "no WebGPU adapter: install mesa-vulkan-drivers"

#: The beginning of a program in a process of its own.
HEAD = """
import gc, os
import numpy as np
import wgpu
from pyrite.errors import *
from pyrite.kernel import KernelBuilder
from pyrite.runtime.wgpu import *
from pyrite.types import float32, int32

def scale():
    b = KernelBuilder("scale", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n, factor = b.scalar("n", int32), b.scalar("factor", float32)
    i = b.global_id()
    with b.if_(i < n):
        y[i] = x[i] * factor
    return b.build()

ones = np.ones(64, np.float32)
"""


@pytest.fixture(scope="session")
def device() -> Any:
    try:
        return open_device()
    except DeviceError:
        pytest.skip(NO_ADAPTER)


@pytest.fixture
def runtime(device: Any) -> Iterator[WgpuRuntime]:
    """A runtime of its own on a device that the tests share."""
    runtime = WgpuRuntime(device)
    yield runtime
    runtime.close()


@pytest.fixture
def scale() -> Kernel:
    """y = x * factor, for n elements."""
    b = KernelBuilder("scale", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n, factor = b.scalar("n", int32), b.scalar("factor", float32)
    i = b.global_id()
    with b.if_(i < n):
        y[i] = x[i] * factor
    return b.build()


@pytest.fixture
def program(device: Any) -> Callable[[str], str]:
    """Run a program in a process of its own, which must not die; what it printed."""

    def run(text: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", HEAD + textwrap.dedent(text)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
