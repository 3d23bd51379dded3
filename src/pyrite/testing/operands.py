"""What the tests of a target compute with: values of every kind, and kernels that map them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import OPCODES
from pyrite.types import DTYPES, Array, DType

#: Elements of each array.
SIZE = 64


def values_of(dtype: DType, seed: int = 0) -> Array:
    """Return values of all sizes, (64,), among them the special ones."""
    rng = np.random.default_rng([seed, DTYPES.index(dtype)])
    if dtype.is_bool:
        return rng.random(SIZE) < 0.5
    if dtype.is_integer:
        wild = rng.integers(0, 256, SIZE * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
        small = rng.integers(0, 100, SIZE).astype(dtype.numpy)
        x = np.where(rng.random(SIZE) < 0.5, wild, small)
        x[:4] = [0, 1, dtype.lowest, dtype.highest]
    else:
        with np.errstate(over="ignore"):
            x = (rng.standard_normal(SIZE) * 10.0 ** rng.integers(-6, 7, SIZE)).astype(dtype.numpy)
        x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 2.5, -1.5]
        # Subnormal ones.
        x[8:12] = np.arange(1, 5).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    return rng.permutation(x)


def without_subnormals(x: Array) -> Array:
    """Return floats without the sign of zero, and zero for what is less than a normal number."""
    if x.dtype.kind in "biu":
        return x
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.where(np.abs(wide) < np.finfo(wide.dtype).tiny, wide.dtype.type(0), wide)


def normal_values_of(dtype: DType, seed: int = 0) -> Array:
    """Return `values_of` without subnormal floats, which a GPU may take for zero."""
    return without_subnormals(values_of(dtype, seed)).astype(dtype.numpy)


def bits(x: Array) -> Array:
    """Return the bits of floats, with one NaN; anything else as it is."""
    if x.dtype.kind in "biu":
        return x
    pattern = x.view(f"u{x.dtype.itemsize}")
    return np.where(np.isnan(x.astype(np.float64)), pattern.dtype.type(1), pattern)


def operands_of(name: str, of: Sequence[Array], dtype: DType) -> list[Array]:
    """Return as many of three arrays as an opcode takes, made such that it specifies a value."""
    x, y, z = of
    if name in ("shl", "shr"):
        y = (y.view(f"u{dtype.itemsize}") % dtype.bits).astype(dtype.numpy)
    if name in ("div", "rem") and dtype.is_integer:
        y = np.where(y == 0, 3, y).astype(dtype.numpy)
        if dtype.kind == "int":
            y[y == -1] = 7
    if name in ("ldexp", "ldexp_normal"):
        x, y = _scalable(x, y, dtype, is_normal=name == "ldexp_normal")
    if name == "keep_nan":
        y = np.where(np.isnan(x), x, y)
    return [x, y, z][: OPCODES[name].arity]


def _scalable(x: Array, y: Array, dtype: DType, *, is_normal: bool) -> tuple[Array, Array]:
    """Return numbers between 1/2 and 2, and exponents, made of any."""
    bias = 127 if dtype.itemsize == 4 else 1023
    low, high = (2 - bias, bias - 1) if is_normal else (-200 if bias == 127 else -1100, bias + 1)
    pattern = np.abs(y.view(f"i{dtype.itemsize}") // 7)
    fraction = np.abs(np.frexp(np.where(np.isfinite(x), x, 1))[0]) + 0.5
    exponent = (low + pattern % (high - low + 1)).astype(dtype.numpy)
    exponent[:4] = low, high, 2 - bias, bias - 1
    return np.clip(fraction, 0.5, 1.5).astype(dtype.numpy), exponent


def elementwise(
    name: str,
    inputs: Sequence[DType],
    to: DType,
    width: int,
    body: Callable[[KernelBuilder, list[Value]], Value],
    *,
    workgroup_size: int = 1,
) -> Kernel:
    """Return the kernel that maps vectors of its inputs to those of its output."""
    b = KernelBuilder(name, workgroup_size=workgroup_size)
    xs = [b.buffer(f"x{i}", d, "read") for i, d in enumerate(inputs)]
    y = b.buffer("y", to, "write")
    i = b.global_id() * width
    y.store(i, body(b, [x.load(i, width=width, is_aligned=True) for x in xs]), is_aligned=True)
    return b.build()
