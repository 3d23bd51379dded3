"""Kernels for devices with 32 bits only, on packed words, against the same kernels as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.errors import DTypeError
from pyrite.kernel import Kernel, KernelBuilder, to_text, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import WEBGPU, Capabilities, eliminate_common, legalize
from pyrite.kernel.trace import trace
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import (
    DTYPES,
    Array,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint64,
)  # fmt: skip

NARROW = (bool_, int8, int16, uint8, uint16, float16, bfloat16)
SIZE = 64


def samples(of: DType, count: int = SIZE) -> Array:
    """All kinds of values of a dtype: for those of 16 bits, all patterns of bits in turn."""
    if of.is_bool:
        return np.arange(count) % 3 == 0
    words = np.arange(count, dtype=np.uint64) * 0x9E3779B97F4A7C15
    bits = (words >> np.uint64(64 - of.bits)).astype(f"u{of.itemsize}")
    return bits.view(of.numpy)


def packed(values: Array) -> Array:
    """The bytes of an array as words, as the device has them."""
    if values.dtype.itemsize >= 4:
        return values
    return np.frombuffer(np.ascontiguousarray(values).tobytes().ljust(-(-values.nbytes // 4) * 4),
                         dtype=np.uint32).copy()  # fmt: skip


def only_32_bits(kernel: Kernel) -> None:
    for node in (*kernel.parameters, *kernel.walk()):
        if node.type is not None:
            assert node.type.dtype in WEBGPU.computes, node
            if node.kind in ("buffer", "alloc"):
                assert node.type.dtype in WEBGPU.stores, node


def check(kernel: Kernel, inputs: list[Array], out: Array, workgroups: int) -> None:
    """Run a kernel and what it becomes, and compare the bytes that they write."""
    after = verify(legalize(verify(kernel)))
    only_32_bits(after)
    wanted, words = out.copy(), packed(out)
    interpret(kernel, workgroups, *inputs, wanted)
    interpret(after, workgroups, *map(packed, inputs), words)
    found = words.view(np.uint8)[: out.nbytes].view(out.dtype)
    if out.dtype.kind not in "iub":  # NaN has many patterns
        with np.errstate(invalid="ignore"):
            found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)


Rule = Callable[..., Any]


def kernel_of(rule: Rule, of: DType, out: DType, width: int = 1, aligned: bool = False) -> Kernel:
    b = KernelBuilder("rule", workgroup_size=8)
    x, y = b.buffer("x", of, "read"), b.buffer("y", out, "write")
    i = b.global_id() * width
    value = trace(b, rule, [x.load(i, width=width, is_aligned=aligned)], out)
    y.store(i, value, is_aligned=aligned)
    return b.build()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("of", NARROW, ids=str)
@pytest.mark.parametrize("aligned", [False, True])
def test_a_copy_keeps_every_bit(of: DType, width: int, aligned: bool) -> None:
    kernel = kernel_of(lambda k, x: x, of, of, width, aligned)
    values = samples(of)

    check(kernel, [values], np.zeros_like(values), SIZE // 8 // width)


@pytest.mark.parametrize("of", [int8, int16, uint8, uint16], ids=str)
def test_arithmetic_of_narrow_integers_wraps_around(of: DType) -> None:
    def rule(k: Any, x: Any) -> Any:
        return (x * x + 100) ^ ~(x - 3) & k.shift_left(x, 3) | k.shift_right(-x, 2) + k.abs(x)

    values = samples(of)

    check(kernel_of(rule, of, of, 4), [values], np.zeros_like(values), SIZE // 32)


@pytest.mark.parametrize("of", [int8, int16, uint8, uint16], ids=str)
@pytest.mark.parametrize("opcode", ["popcount", "clz", "mulhi", "min", "max", "neg", "not"])
def test_opcodes_of_narrow_integers(opcode: str, of: DType) -> None:
    b = KernelBuilder("opcode", workgroup_size=SIZE)
    x, y = b.buffer("x", of, "read"), b.buffer("y", of, "write")
    i = b.global_id()
    operands = [x[i], x[i ^ 5]] if opcode in ("mulhi", "min", "max") else [x[i]]
    y[i] = b.alu(opcode, *operands)
    values = samples(of)

    check(b.build(), [values], np.zeros_like(values), 1)


@pytest.mark.parametrize("to", [d for d in DTYPES if d.itemsize < 8], ids=str)
@pytest.mark.parametrize("of", [d for d in DTYPES if d.itemsize < 8], ids=str)
def test_casts_between_all_dtypes_of_up_to_32_bits(of: DType, to: DType) -> None:
    values = samples(of)

    check(kernel_of(lambda k, x: k.cast(x, to), of, to), [values], np.zeros(SIZE, to.numpy), 8)


@pytest.mark.parametrize("to", [float16, bfloat16], ids=str)
def test_floats_are_rounded_to_even_everywhere(to: DType) -> None:
    exact = samples(to, 1 << 16).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    halves = (exact[:-1].astype(float) + np.diff(exact.astype(float)) / 2).astype(np.float32)
    values = np.concatenate([halves, np.nextafter(halves, np.float32(9e9)), exact])
    values = np.resize(values, len(values) // 64 * 64)
    kernel = kernel_of(lambda k, x: k.cast(x, to), float32, to, 8, aligned=True)

    check(kernel, [values], np.zeros(len(values), to.numpy), len(values) // 64)


@pytest.mark.parametrize(("of", "to"), [(int8, uint8), (uint16, int16), (float16, uint16),
                                        (int16, bfloat16)])  # fmt: skip
def test_bits_stay_in_a_bitcast(of: DType, to: DType) -> None:
    b = KernelBuilder("bits", workgroup_size=8)
    x, y = b.buffer("x", of, "read"), b.buffer("y", to, "write")
    y[b.global_id()] = b.bitcast(x[b.global_id()], to)
    values = np.arange(SIZE).astype(of.numpy) if of.is_float else samples(of)

    check(b.build(), [values], np.zeros(SIZE, to.numpy), 8)


@pytest.mark.parametrize("of", NARROW, ids=str)
def test_masked_elements_stay_and_are_not_read(of: DType) -> None:
    b = KernelBuilder("masked", workgroup_size=8)
    x, y = b.buffer("x", of, "read"), b.buffer("y", of, "write")
    i = b.global_id() * 4
    lanes = b.splat(i, 4) + b.make([b.const(n, int32) for n in range(4)])
    inside = (lanes < 61) & ((lanes & 3) != 2)
    zero = b.const(0, bool_) if of.is_bool else b.cast(b.const(0, int32), of)
    y.store(i, x.load(i, width=4, mask=inside, other=zero, is_aligned=True), mask=inside)
    values = samples(of)

    check(b.build(), [values[:61]], np.flip(values).copy()[:61], 2)


@pytest.mark.parametrize("of", [int8, bool_, float16], ids=str)
def test_memory_of_the_workgroup_and_the_invocation(of: DType) -> None:
    b = KernelBuilder("memories", workgroup_size=8)
    x, y = b.buffer("x", of, "read"), b.buffer("y", of, "write")
    shared, private = b.shared(of, 8), b.private(of, 2)
    lane = b.local_index()
    shared[lane] = x[b.global_id()]
    b.barrier()
    private[1] = shared[7 - lane]
    other = b.const(0, bool_) if of.is_bool else b.cast(b.const(0, int32), of)
    y[b.global_id()] = private.load(1, mask=lane < 6, other=other)
    values = samples(of)

    check(b.build(), [values], np.zeros_like(values), SIZE // 8)


def test_values_carried_in_narrow_dtypes_wrap_around() -> None:
    b = KernelBuilder("carried", workgroup_size=8)
    x, y = b.buffer("x", int8, "read"), b.buffer("y", int8, "write")
    with b.for_(0, 7, carried=[x[b.global_id()]]) as loop:
        loop.yield_(loop.carried[0] * 3 + 1)
    y[b.global_id()] = loop.results[0]
    values = samples(int8)

    check(b.build(), [values], np.zeros_like(values), 8)


def test_reading_back_what_was_written_in_part() -> None:
    b = KernelBuilder("both", workgroup_size=8)
    x, y = b.buffer("x", uint8, "read"), b.buffer("y", uint8, "read_write")
    i = b.global_id()
    y[i] = x[i] + y[i]
    y[i] = y[i] * 2
    values = samples(uint8)

    check(b.build(), [values], values.copy(), 8)


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_kernels_of_32_bits_compute_the_same(example: KernelExample) -> None:
    example.check(verify(legalize(example.kernel)))


@pytest.mark.parametrize("seed", range(10))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)
    found = [packed(v) if isinstance(v, np.ndarray) else v for v in example.fresh()]

    interpret(verify(legalize(example.kernel)), example.workgroups, *found)

    for value, wanted in zip(found, example.expected, strict=True):
        if isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(value, packed(wanted))


@pytest.mark.parametrize(("of", "instead"), [(float64, "float32"), (int64, "int32"),
                                             (uint64, "uint32")])  # fmt: skip
def test_a_dtype_of_64_bits_is_an_error_that_names_the_alternative(of: DType, instead: str) -> None:
    kernel = kernel_of(lambda k, x: x + x, of, of)

    with pytest.raises(DTypeError) as error:
        legalize(kernel)

    assert str(error.value) == (
        f"kernel rule requires {of.name}, which wgpu lacks; use {instead}: "
        f"x.astype(pyrite.{instead}), or another device: x.to('cpu')"
    )


def test_a_device_with_float16_keeps_it() -> None:
    kernel = kernel_of(lambda k, x: k.exp(x), float16, float16)
    with_float16 = Capabilities("gpu", WEBGPU.computes | {float16}, WEBGPU.stores | {float16})

    after = verify(legalize(kernel, with_float16))

    assert {p.value_type.dtype for p in after.parameters} == {float16}


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    before = kernel_of(lambda k, x: x * 2, bfloat16, bfloat16, 2, aligned=True)
    after = eliminate_common(legalize(before))

    golden("legalize.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")
