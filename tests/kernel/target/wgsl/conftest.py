"""What a GPU makes of a kernel printed as WGSL is to equal what the interpreter makes of it.

Run on whatever adapter there is; on lavapipe the results are equal bit for bit, but that subnormal
floats count as zero, which WGSL permits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyrite.errors import DeviceError
from pyrite.kernel.ir import Kernel
from pyrite.kernel.verify import verify
from pyrite.testing.launch import interpreted, launched
from pyrite.testing.operands import without_subnormals

if TYPE_CHECKING:
    from pyrite.runtime.wgpu import WgpuRuntime

#: Opcodes that WGSL does not round correctly: 2.5 ulp for a quotient, and a square root may be
#: 1 / inverseSqrt(x), of 2 ulp (WGSL, 15.7.4.1).  Seen on an H200; lavapipe is exact.
ROUNDED = {"div": 3e-7, "sqrt": 6e-7}


def open_runtime(**options: Any) -> WgpuRuntime:
    pytest.importorskip("wgpu")
    from pyrite.runtime.wgpu import WgpuRuntime, open_device

    try:
        return WgpuRuntime(open_device(**options))
    except DeviceError:
        pytest.skip("no WebGPU adapter: install mesa-vulkan-drivers")


@pytest.fixture(scope="module", params=["adapter", "default"])
def runtime(request: pytest.FixtureRequest) -> Iterator[WgpuRuntime]:
    runtime = open_runtime(limits=request.param)
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def capable() -> Iterator[WgpuRuntime]:
    runtime = open_runtime()
    yield runtime
    runtime.close()


@pytest.fixture
def agree(runtime: WgpuRuntime) -> Callable[..., None]:
    """Run a kernel on a device and interpreted, and compare all buffers."""
    return agreement(runtime)


@pytest.fixture
def agree_if_capable(capable: WgpuRuntime) -> Callable[..., None]:
    """Compare as `agree` does, on a device with all that the adapter has."""
    return agreement(capable)


def agreement(runtime: WgpuRuntime) -> Callable[..., None]:
    def check(kernel: Kernel, grid: Sequence[int], *values: Any) -> None:
        expected = interpreted(verify(kernel), grid, values)
        for got, want in zip(launched(runtime, kernel, grid, values), expected, strict=True):
            x, y = (without_subnormals(np.asarray(v)) for v in (got, want))
            rtol = ROUNDED.get(kernel.name, 0.0) if y.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(x, y, rtol, err_msg=str(kernel))

    return check
