"""Casts between all dtypes, and the 16-bit floats bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Kernel
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.testing.launch import launched
from pyrite.testing.operands import SIZE, bits, elementwise, values_of
from pyrite.types import (
    DTYPES,
    Array,
    DType,
    bfloat16,
    float16,
    float32,
    int32,
    int64,
    uint32,
    uint64,
)

if TYPE_CHECKING:
    from pyrite.runtime.cpu.runtime import CpuRuntime

Run = Callable[..., None]


def cast_cases() -> Iterator[Any]:
    for source in DTYPES:
        for to in DTYPES:
            if not to.is_bool and to is not source:
                yield pytest.param(source, to, id=f"{source.name}-{to.name}")


def castable(source: DType, to: DType) -> Array:
    """Values that the cast specifies: whole parts that fit."""
    x = values_of(source)
    if source.is_float and to.is_integer:
        wide = x.astype(np.float64)
        largest = min(float(to.highest), 1e9)
        fits = (np.trunc(wide) >= max(float(to.lowest), -1e9)) & (np.trunc(wide) <= largest)
        return np.where(fits, x, source.numpy.type(3.7))
    return x


@pytest.mark.sample(2, by="to")
@pytest.mark.parametrize(("source", "to"), [*cast_cases()])
def test_a_cast_equals_the_interpreters(agree_at_level: Run, source: DType, to: DType) -> None:
    x = castable(source, to)
    for width in (1, 4, 16):
        kernel = elementwise("cast", [source], to, width, lambda b, xs: b.cast(xs[0], to))
        agree_at_level(kernel, [SIZE // width], x, np.zeros(SIZE, to.numpy))


def all_bits_16(dtype: DType) -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def cast_kernel(source: DType, to: DType) -> Kernel:
    b = KernelBuilder("cast")
    x, y = b.buffer("x", source, "read"), b.buffer("y", to, "write")
    i = b.workgroup_id() * 16
    y.store(i, b.cast(x.load(i, width=16), to))
    return b.build()


def cast_all(target: LLVMTarget, x: Array, to: DType) -> Array:
    """Cast by code for a target, which this processor must be able to run."""
    from pyrite.runtime.cpu.runtime import CpuRuntime

    runtime = CpuRuntime(target=target, threads=1)
    source = next(d for d in DTYPES if d.numpy == x.dtype)
    values = [x, np.zeros(len(x), to.numpy)]
    got: Array = launched(runtime, cast_kernel(source, to), [len(x) // 16], values)[1]
    runtime.close()
    return got


@pytest.mark.parametrize("has_float16", [True, False], ids=["instruction", "arithmetic"])
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_every_16_bit_float_widens_exactly(
    runtime: CpuRuntime, dtype: DType, has_float16: bool
) -> None:
    target = replace(runtime.target, has_float16=has_float16 and runtime.target.has_float16)
    x = all_bits_16(dtype)

    got = cast_all(target, x, float32)

    np.testing.assert_array_equal(bits(got), bits(x.astype(np.float32)))


@pytest.mark.parametrize("has_float16", [True, False], ids=["instruction", "arithmetic"])
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_floats_narrow_to_nearest_even(
    runtime: CpuRuntime, dtype: DType, has_float16: bool
) -> None:
    target = replace(runtime.target, has_float16=has_float16 and runtime.target.has_float16)
    exact = all_bits_16(dtype).astype(np.float32)
    middle = (exact[:-1].astype(np.float64) + exact[1:]) / 2
    single = middle.astype(np.float32)
    near = [np.nextafter(single, np.float32(s * np.inf)) for s in (-1, 1)]
    x = np.concatenate([exact, single, *near])
    x = x[: len(x) // 16 * 16]

    got = cast_all(target, x, dtype)

    np.testing.assert_array_equal(bits(got), bits(narrowed(x.astype(np.float64), dtype)))


def narrowed(x: Array, dtype: DType) -> Array:
    """To a 16-bit float by comparing with the two neighbours, ties to the even one."""
    table = all_bits_16(dtype).astype(np.float64)
    largest = int(np.flatnonzero(np.isinf(table))[0])
    ladder = table[:largest]
    # What would be the next number stands for infinity: halfway to it rounds up.
    steps = np.append(ladder, ladder[-1] + (ladder[-1] - ladder[-2]))
    magnitude = np.minimum(np.abs(x), steps[-1])
    upper = np.clip(np.searchsorted(steps, magnitude), 1, largest)
    below, above = magnitude - steps[upper - 1], steps[upper] - magnitude
    down = (below < above) | ((below == above) & ((upper - 1) % 2 == 0))
    code = np.where(down, upper - 1, upper).astype(np.uint16)
    result = (code | np.where(np.signbit(x), 0x8000, 0).astype(np.uint16)).view(dtype.numpy)
    return np.where(np.isnan(x), dtype.numpy.type(np.nan), result)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_a_double_is_rounded_once_to_16_bits(runtime: CpuRuntime, dtype: DType) -> None:
    exact = all_bits_16(dtype).astype(np.float64)
    middle = (exact[:-1] + exact[1:]) / 2
    # So near to the middle that float32 would be the middle itself.
    x = np.concatenate([middle, middle * (1 + 1e-14), middle * (1 - 1e-14)])
    x = x[: len(x) // 16 * 16]

    got = cast_all(runtime.target, x, dtype)

    np.testing.assert_array_equal(bits(got), bits(narrowed(x, dtype)))


@pytest.mark.parametrize("source", [int32, uint32, int64, uint64], ids=lambda d: d.name)
def test_an_integer_is_rounded_once_to_bfloat16(runtime: CpuRuntime, source: DType) -> None:
    rng = np.random.default_rng(0)
    heads = rng.integers(128, 256, 4096)
    shifts = rng.integers(1, source.bits - 9, 4096)
    # An 8-bit head and half of its last place: a tie, or one off it.
    ties = (heads * 2 + 1) << (shifts - 1)
    x = (ties + rng.integers(-1, 2, 4096)).astype(source.numpy)
    if source.kind == "int":
        x = np.concatenate([x, -x, np.arange(-2048, 2048, dtype=source.numpy)])
    expected = [round_to_bits(int(v), 8) for v in x]

    got = cast_all(runtime.target, x, bfloat16)

    np.testing.assert_array_equal(got.astype(np.float64), np.array(expected, dtype=np.float64))


def round_to_bits(value: int, count: int) -> int:
    """To the nearest integer of so many significant bits, ties to even."""
    places = max(abs(value).bit_length() - count, 0)
    head, rest = divmod(abs(value), 1 << places)
    half = (1 << places) >> 1
    head += places > 0 and (rest > half or (rest == half and head % 2 == 1))
    return (head << places) * (1 if value >= 0 else -1)
