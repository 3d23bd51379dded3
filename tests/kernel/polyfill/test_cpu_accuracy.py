"""The polyfills as machine code: large angles and denormal results, of tensors and of own kernels.

Judged by mpmath.  A result in 16 bits is that of float32, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import pyrite
from pyrite import tensor
from pyrite.kernel import KernelBuilder, polyfill
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import Array, DType, dtype

from .test_accuracy import TRIGONOMETRY, angles, errors_of


def run(name: str, x: Array, of: DType) -> Array:
    """Return a function of tensors of a dtype, as float64; x holds its numbers."""
    found: Array = getattr(tensor(x, dtype=of, device="cpu"), name)().astype("float64").numpy()
    return found


def rounded(x: Array, of: DType) -> Array:
    """Return the numbers that a dtype has, as float64."""
    found: Array = tensor(x, dtype=of, device="numpy").astype("float64").numpy()
    return found


@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_large_angles(name: str, of: str) -> None:
    numbers = angles(np.dtype(of).type, 1200)
    for size in (1, 3, len(numbers)):
        x = numbers[:size]
        errors = errors_of(name, x, run(name, x, dtype(of)).astype(of))
        assert errors.max() <= TRIGONOMETRY[name][1], x[errors.argmax()]


@pytest.mark.parametrize("of", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_large_angles_in_16_bits(name: str, of: str) -> None:
    numbers = angles(np.float32, 1200)
    if of == "float16":
        numbers = np.clip(numbers, -65504, 65504)
    x = rounded(numbers, dtype(of))
    with mpmath.workprec(1400):
        exact = np.array([float(TRIGONOMETRY[name][0](mpmath.mpf(v))) for v in x.tolist()])

    found = run(name, x, dtype(of))

    # Half a unit of what has 8 or 11 bits, and what float32 was off by.
    unit = 2.0 ** (-8 if of == "bfloat16" else -11)
    np.testing.assert_allclose(found, exact, rtol=unit * 1.001, atol=2e-7)


@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_large_angles_in_neighbouring_invocations(name: str, of: str) -> None:
    x = angles(np.dtype(of).type, 400)
    x = np.pad(x, (0, -len(x) % 64), mode="edge")
    b = KernelBuilder("angles", workgroup_size=64)
    source, target = b.buffer("x", dtype(of), "read"), b.buffer("y", dtype(of), "write")
    i = b.global_id()
    target[i] = getattr(polyfill, name)(b, source[i])
    runtime = CpuRuntime()

    out = runtime.allocate(x.nbytes)
    runtime.launch(runtime.compile(b.build()), [runtime.upload(x), out], (len(x) // 64,))
    found = runtime.read(out, dtype(of), x.shape)

    runtime.close()
    assert errors_of(name, x, found).max() <= TRIGONOMETRY[name][1]


POWERS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (mpmath.exp, -104.5, -745.5),
    "exp2": (lambda x: mpmath.power(2, x), -150.5, -1075.5),
}


@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("name", POWERS)
def test_results_that_are_denormals_are_within_a_unit(name: str, of: str) -> None:
    exact, *lows = POWERS[name]
    low = lows[of == "float64"]
    x = np.linspace(low, low + 25, 2000, dtype=of)
    least, tiny = np.finfo(of).smallest_subnormal, np.finfo(of).tiny
    found = run(name, x, dtype(of))

    with mpmath.workdps(40):
        wanted = [exact(mpmath.mpf(v)) for v in x.tolist()]
        units = [abs(f - w) / float(least) for f, w in zip(found.tolist(), wanted, strict=True)]
    denormals = [float(u) for u, w in zip(units, wanted, strict=True) if w < float(tiny)]
    assert len(denormals) > 500
    assert max(denormals) <= 1.0


@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2", "sinh", "cosh", "tanh", "sigmoid"])
def test_the_ends_are_what_numpy_has(name: str, of: str) -> None:
    high = 88.7228 if of == "float32" else 709.7827
    ends = [-np.inf, np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, high, -high, high + 0.1, 128.0, 1024.0]
    x = np.array(ends, of)

    want = getattr(pyrite.tensor(x, device="numpy"), name)().numpy()

    np.testing.assert_allclose(run(name, x, dtype(of)), want.astype(np.float64), rtol=2e-6)
