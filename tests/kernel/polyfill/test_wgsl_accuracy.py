"""The greatest errors of the polyfills as WGSL, on whatever adapter there is.

The bounds are those of `pyrite.kernel.polyfill` for GPUs: 4 ulp, though a driver may reassociate
and need not fuse; what is less than the least normal number may be zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.errors import DeviceError
from pyrite.kernel import KernelBuilder, polyfill
from pyrite.testing.launch import launched
from pyrite.types import Array, float32, float64

from .test_accuracy import EACH, TRIGONOMETRY, Case, Function, angles, errors_of, grid

if TYPE_CHECKING:
    from pyrite.runtime.wgpu import WgpuRuntime

BOUND = 4.0
TINY = float(np.finfo(np.float32).tiny)


@pytest.fixture(scope="module")
def runtime() -> Iterator[WgpuRuntime]:
    pytest.importorskip("wgpu")
    from pyrite.runtime.wgpu import WgpuRuntime, open_device

    try:
        runtime = WgpuRuntime(open_device())
    except DeviceError:
        pytest.skip("no WebGPU adapter: install mesa-vulkan-drivers")
    yield runtime
    runtime.close()


def evaluate(runtime: WgpuRuntime, function: Function, *inputs: Array) -> Array:
    """Return a polyfill at the inputs, by the device."""
    b = KernelBuilder("polyfill", workgroup_size=64)
    buffers = [b.buffer(f"x{i}", float32, "read") for i in range(len(inputs))]
    y, i = b.buffer("y", float32, "write"), b.global_id()
    y[i] = function(b, *(x[i] for x in buffers))
    padded = [np.pad(x, (0, -len(x) % 64), mode="edge") for x in inputs]
    out = runtime.allocate(padded[0].nbytes)
    bindings = [*(runtime.upload(x) for x in padded), out]
    runtime.launch(runtime.compile(b.build()), bindings, (len(padded[0]) // 64,))
    return runtime.read(out, float32, padded[0].shape)[: len(inputs[0])]


def worst(found: Array, wanted: Array, absolute: float = 0.0) -> float:
    """The greatest error in units of the last place, of normal numbers."""
    rounded = wanted.astype(np.float32)
    errors = np.abs(found.astype(np.float64) - wanted)
    errors[(np.abs(wanted) < TINY) & (np.abs(found) <= TINY)] = 0.0
    errors[errors <= absolute] = 0.0
    return float((errors / np.spacing(np.abs(rounded)).astype(np.float64)).max())


@pytest.mark.parametrize(("name", "case"), EACH)
def test_it_is_within_4_ulp(runtime: WgpuRuntime, name: str, case: Case) -> None:
    x = grid(case, 10_000, np.float32)
    with np.errstate(all="ignore"):
        wanted = case.reference(x.astype(np.float64))
        rounded = wanted.astype(np.float32)
        inside = np.isfinite(rounded)

    found = evaluate(runtime, getattr(polyfill, name), x)

    np.testing.assert_array_equal(found[~inside], rounded[~inside])
    assert worst(found[inside], wanted[inside], case.absolute) <= BOUND


def test_pow_is_within_4_ulp(runtime: WgpuRuntime) -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([2.0 ** random.uniform(-100, 100, 8192), random.uniform(0.9, 1.1, 8192)])
    y = random.uniform(-1, 1, 16384) * np.minimum(120 / np.maximum(abs(np.log2(x)), 1e-9), 1e4)
    x, y = x.astype(np.float32), y.astype(np.float32)

    found = evaluate(runtime, polyfill.pow, x, y)

    assert worst(found, x.astype(np.float64) ** y.astype(np.float64)) <= BOUND


@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_angles_of_any_size_are_reduced_exactly(runtime: WgpuRuntime, name: str) -> None:
    x = angles(np.float32, 3000)

    errors = errors_of(name, x, evaluate(runtime, getattr(polyfill, name), x))

    assert errors.max() <= BOUND, x[errors.argmax()]


#: What a driver that reassociates must not undo, by numbers of every size that they take.
WIDE = (
    "exp", "exp2", "expm1", "log", "log1p", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin",
    "acos", "atan", "erf", "erfinv", "lgamma", "ndtr",
)  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_float64_is_exact_where_the_device_has_it(runtime: WgpuRuntime, name: str) -> None:
    if float64 in runtime.lacking:
        pytest.skip("the adapter has no float64")
    small = np.linspace(-0.99, 0.99, 511)
    large = np.concatenate([np.linspace(-30, 30, 512), np.geomspace(1, 700, 257)])
    x = small if name in ("asin", "acos", "erfinv") else np.concatenate([small, large])
    x = np.abs(x) + 1e-3 if name in ("log", "log1p", "lgamma") else x
    with np.errstate(all="ignore"):
        want = getattr(NumPyAlgebra(), name)(x)

    b = KernelBuilder(name, workgroup_size=64)
    source, y, i = b.buffer("x", float64, "read"), b.buffer("y", float64, "write"), b.global_id()
    y[i] = getattr(polyfill, name)(b, source[i])
    padded = np.pad(x, (0, -len(x) % 64), mode="edge")
    got = launched(runtime, b.build(), [len(padded) // 64], [padded, np.zeros_like(padded)])[1]

    np.testing.assert_allclose(np.asarray(got)[: len(x)], want, rtol=1e-12, atol=1e-13)
