"""What LLVM makes of a kernel is to equal what the interpreter makes of it, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyrite.kernel.ir import Kernel
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.kernel.verify import verify
from pyrite.testing.launch import interpreted, launched
from pyrite.testing.operands import bits

if TYPE_CHECKING:
    from pyrite.runtime.cpu.runtime import CpuRuntime


@pytest.fixture(autouse=True)
def infinities_are_meant() -> Iterator[None]:
    """NumPy need not warn of overflow and NaN."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuRuntime]:
    pytest.importorskip("llvmlite")
    from pyrite.runtime.cpu.runtime import CpuRuntime

    runtime = CpuRuntime(cache=tmp_path_factory.mktemp("cache"))
    yield runtime
    runtime.close()


def require_agreement(
    runtime: CpuRuntime, kernel: Kernel, grid: Sequence[int], values: Sequence[Any]
) -> None:
    """Run a kernel natively and interpreted, and compare all buffers."""
    expected = interpreted(verify(kernel), grid, values, subgroup_size=1)
    for got, want in zip(launched(runtime, kernel, grid, values), expected, strict=True):
        np.testing.assert_array_equal(bits(np.asarray(got)), bits(np.asarray(want)), str(kernel))


@pytest.fixture
def agree(runtime: CpuRuntime) -> Callable[..., None]:
    """Require that a kernel computes what it does interpreted."""

    def check(kernel: Kernel, grid: Sequence[int], *values: Any) -> None:
        require_agreement(runtime, kernel, grid, values)

    return check


@pytest.fixture
def agree_at_level(level_runtime: CpuRuntime) -> Callable[..., None]:
    """Require the same of the code for a level."""

    def check(kernel: Kernel, grid: Sequence[int], *values: Any) -> None:
        require_agreement(level_runtime, kernel, grid, values)

    return check


@pytest.fixture
def haswell() -> LLVMTarget:
    """A processor of which the goldens show the code, whatever runs the tests."""
    return LLVMTarget("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma", 32, has_fma=True)
