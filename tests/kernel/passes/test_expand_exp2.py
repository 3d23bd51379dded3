from __future__ import annotations

import numpy as np
import pytest

from pyrite.kernel import Kernel, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import expand_exp2
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.testing.operands import SIZE, elementwise
from pyrite.types import Array, DType, float32, float64


def powers(dtype: DType) -> tuple[Kernel, Array, Array]:
    """Return a kernel of powers, what it reads, and what comes out."""
    kernel = elementwise("powers", [dtype], dtype, 4, lambda b, xs: b.exp2(xs[0]))
    x = np.linspace(-120, 120, SIZE).astype(dtype.numpy)
    x[:6] = [-np.inf, np.inf, np.nan, 0, -1e30, 1]
    with np.errstate(over="ignore"):
        return kernel, x, np.exp2(x)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_powers_are_spelled_out(dtype: DType) -> None:
    kernel, x, want = powers(dtype)
    after = verify(expand_exp2(kernel))
    got = np.zeros(SIZE, dtype.numpy)
    assert not any(n.kind == "alu" and n.attr == "exp2" for n in after.walk())
    interpret(after, SIZE // 4, x, got)
    np.testing.assert_allclose(got, want, rtol=2 * np.finfo(dtype.numpy).eps)


def test_powers_of_a_dtype_are_kept() -> None:
    kernel, *_ = powers(float32)
    assert expand_exp2(kernel, kept=(float32,)) is kernel
    assert expand_exp2(kernel, kept=(float64,)) is not kernel


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_a_processor_has_them_too(dtype: DType) -> None:
    pytest.importorskip("llvmlite")
    kernel, x, want = powers(dtype)
    runtime = CpuRuntime()
    source, target = runtime.upload(x), runtime.allocate(x.nbytes)
    runtime.launch(runtime.compile(kernel), [source, target], (SIZE // 4,))
    got = runtime.read(target, dtype, x.shape)
    np.testing.assert_allclose(got, want, rtol=2 * np.finfo(dtype.numpy).eps)
