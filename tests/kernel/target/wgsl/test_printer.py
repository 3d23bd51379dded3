"""Opcodes, casts and values in WGSL, kernels at random, and the text of some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyrite.errors import DTypeError, KernelError
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import ACCEPTED, EFFECTS, OPCODES, Kernel, vector
from pyrite.kernel.target.wgsl import printer, spelling, to_wgsl
from pyrite.testing import operands
from pyrite.testing.launch import launched
from pyrite.testing.operands import SIZE, normal_values_of, operands_of, without_subnormals
from pyrite.testing.random_expressions import PARTIAL, RandomExpressions
from pyrite.types import (
    Array,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

if TYPE_CHECKING:
    from pyrite.runtime.wgpu import WgpuRuntime

WORDS = (int32, uint32, float32)
NARROW = (float16, bfloat16, int8, uint8, uint16)

Run = Callable[..., None]

# More than one invocation, so that it matters which is which.
elementwise = partial(operands.elementwise, workgroup_size=4)


def test_every_opcode_is_spelled_once() -> None:
    tables = (spelling.BINARY, spelling.CALLS, spelling.SPELLED)

    counts = {name: sum(name in table for table in tables) for name in OPCODES}

    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert {key for table in tables for key in table} == set(OPCODES)


def test_every_kind_of_node_is_printed() -> None:
    assert set(printer._PRINT) == set(EFFECTS)


@pytest.mark.parametrize(("dtype", "instead"), [(float64, "float32"), (int64, "int32")])
def test_a_dtype_that_the_device_lacks_is_refused_with_another(dtype: DType, instead: str) -> None:
    kernel = elementwise("copy", [dtype], dtype, 1, lambda b, xs: xs[0])

    with pytest.raises(DTypeError, match=rf"requires a device with {dtype.name}.*use {instead}"):
        to_wgsl(kernel)


@pytest.mark.parametrize("dtype", [bool_, int8, bfloat16, float16], ids=lambda d: d.name)
def test_memory_of_less_than_words_must_have_been_legalised(dtype: DType) -> None:
    kernel = elementwise("copy", [dtype], dtype, 1, lambda b, xs: xs[0])

    with pytest.raises(KernelError, match=f"32-bit words for WGSL, got {dtype.name}; legalise"):
        to_wgsl(kernel)


def safe_operands(name: str, dtype: DType) -> list[Array]:
    return operands_of(name, [normal_values_of(dtype, seed) for seed in range(3)], dtype)


def as_number(b: KernelBuilder, x: Value) -> Value:
    return b.cast(x, int32) if x.dtype.is_bool else x


@pytest.mark.parametrize("name", sorted(set(OPCODES) - {"fma", "exp2"}))
@pytest.mark.sample(1, by="name")
def test_an_opcode_equals_the_interpreters(agree: Run, name: str) -> None:
    opcode = OPCODES[name]
    for dtype in (d for d in WORDS if d in ACCEPTED[opcode.accepts]):
        inputs = safe_operands(name, dtype)
        to = int32 if opcode.compares else dtype
        for width in (1, 2, 4, 16):
            kernel = elementwise(
                name, [dtype] * len(inputs), to, width,
                lambda b, xs: as_number(b, b.alu(name, *xs)),
            )  # fmt: skip
            agree(kernel, [SIZE // width // 4], *inputs, np.zeros(SIZE, to.numpy))


def test_a_product_and_sum_is_rounded_once_or_twice(runtime: WgpuRuntime) -> None:
    x, y, z = safe_operands("fma", float32)
    kernel = elementwise("fma", [float32] * 3, float32, 4, lambda b, xs: b.alu("fma", *xs))

    got = launched(runtime, kernel, [4], [x, y, z, np.zeros(SIZE, np.float32)])[3]

    with np.errstate(all="ignore"):
        once = (x.astype(np.float64) * y + z).astype(np.float32)
        got, once, twice = (without_subnormals(v) for v in (got, once, x * y + z))
        is_right = (got == once) | (got == twice)
    np.testing.assert_array_equal(is_right | (np.isnan(got) & np.isnan(once)), True)


@pytest.mark.parametrize("width", [1, 4])
def test_a_power_of_two_is_near(runtime: WgpuRuntime, width: int) -> None:
    x = np.linspace(-125, 127, SIZE, dtype=np.float32)
    x[:8] = [-np.inf, np.inf, np.nan, 0, -200, -1e30, 1, 0.5]
    kernel = elementwise("exp2", [float32], float32, width, lambda b, xs: b.exp2(xs[0]))

    got = launched(runtime, kernel, [SIZE // width], [x, np.zeros(SIZE, np.float32)])[1]

    with np.errstate(all="ignore"):
        want = np.exp2(x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[:3][:2], [0, np.inf])
    assert np.all(got[[4, 5]] < np.finfo(np.float32).tiny)
    # Each number has its own bound, that of `OPCODES`.
    number = np.isfinite(want) & (want > 0)
    ulp = np.abs(got[number] - want[number]) / np.spacing(want[number])
    assert np.all(ulp <= 3 + 2 * np.abs(x[number])), ulp.max()


@pytest.mark.parametrize("name", ["and", "or", "xor", "not", "eq", "ne"])
def test_an_opcode_of_truth_values_equals_the_interpreters(agree: Run, name: str) -> None:
    x = normal_values_of(int32)
    for width in (1, 4, 8):
        kernel = elementwise(
            name, [int32] * OPCODES[name].arity, int32, width,
            lambda b, xs: b.cast(b.alu(name, *(x > 40 for x in xs)), int32),
        )  # fmt: skip
        others = [normal_values_of(int32, 1)][: OPCODES[name].arity - 1]
        agree(kernel, [SIZE // width // 4], x, *others, np.zeros(SIZE, np.int32))


def test_casts_equal_the_interpreters(agree: Run) -> None:
    for source in WORDS:
        x = normal_values_of(source)
        for to in WORDS:
            if source.is_float and to.is_integer:
                fits = np.abs(x) < 1e9 if to is int32 else (x >= 0) & (x < 1e9)
                x = np.where(fits, x, np.float32(3.7))
            for width in (1, 4, 16):
                kernel = elementwise(
                    "cast", [source], to, width,
                    lambda b, xs, to=to: b.cast(xs[0], to) if xs[0].dtype is not to else xs[0],
                )  # fmt: skip
                agree(kernel, [SIZE // width // 4], x, np.zeros(SIZE, to.numpy))


@pytest.mark.parametrize("source", [int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize("to", [int64, uint64], ids=lambda d: d.name)
def test_integers_are_extended_by_their_own_sign(
    capable: WgpuRuntime, agree_if_capable: Run, source: DType, to: DType
) -> None:
    if "shader-int64" not in capable.device.features:
        pytest.skip("this adapter lacks shader-int64")
    x = normal_values_of(source)
    for width in (1, 4):
        kernel = elementwise("cast", [source], to, width, lambda b, xs: b.cast(xs[0], to))
        agree_if_capable(kernel, [SIZE // width // 4], x, np.zeros(SIZE, to.numpy))


def test_bitcasts_keep_bits(agree: Run) -> None:
    for source, to in ((float32, uint32), (uint32, float32), (int32, uint32)):
        kernel = elementwise("bitcast", [source], to, 4, lambda b, xs, to=to: b.bitcast(xs[0], to))
        agree(kernel, [4], normal_values_of(source), np.zeros(SIZE, to.numpy))


def test_what_no_literal_can_say(agree: Run) -> None:
    b = KernelBuilder("numbers")
    y, z = b.buffer("y", float32, "write"), b.buffer("z", int32, "write")
    numbers = [0.1, -0.0, float("inf"), -float("inf"), float("nan"), 3e38, 1e-37, 16777217.0]
    y.store(0, b.const(numbers, vector(float32, 8)))
    for i, number in enumerate(numbers):
        y[8 + i] = number
    y[16] = b.const(3e38, float32) * 3e38
    z[0] = int32.lowest
    z[1] = b.const(2**31 - 1, int32) + (2**31 - 1)
    z[2] = b.cast(b.const(1e9, float32), int32)
    z[3] = b.bitcast(b.const(float("nan"), float32), int32)

    agree(b.build(), [1], np.zeros(17, np.float32), np.zeros(4, np.int32))


@pytest.mark.parametrize(
    ("feature", "dtype"),
    [("shader-f64", float64), ("shader-int64", int64), ("shader-int64", uint64)],
    ids=["float64", "int64", "uint64"],
)
def test_wide_dtypes_where_the_device_has_them(
    capable: WgpuRuntime, agree_if_capable: Run, feature: str, dtype: DType
) -> None:
    if feature not in capable.device.features:
        pytest.skip(f"this adapter lacks {feature}")
    for name in ("add", "mul", "max", "abs", *(("mulhi",) if dtype.is_integer else ())):
        x, y = safe_operands("add", dtype)
        body = (lambda b, xs: abs(xs[0])) if name == "abs" else None
        kernel = elementwise(
            name, [dtype, dtype], dtype, 2,
            body or (lambda b, xs, name=name: b.alu(name, xs[0], xs[1])),
        )  # fmt: skip
        agree_if_capable(kernel, [8], x, y, np.zeros(SIZE, dtype.numpy))


@pytest.mark.parametrize("dtype", [uint32, int32], ids=lambda d: d.name)
@pytest.mark.parametrize("width", [1, 4])
def test_the_upper_half_of_a_product(
    agree: Run, agree_if_capable: Run, dtype: DType, width: int
) -> None:
    """With integers of 64 bits it is made of these, and the same."""
    draws = np.random.default_rng(0).integers(0, 2**32, (2, SIZE), dtype=np.uint32)
    draws[:, :4] = 0, 1, 2**31, 2**32 - 1
    x, y = draws[0].view(dtype.numpy), draws[1, ::-1].copy().view(dtype.numpy)
    kernel = elementwise(
        "upper", [dtype, dtype], dtype, width, lambda b, xs: b.alu("mulhi", xs[0], xs[1])
    )
    for run in (agree, agree_if_capable):
        run(kernel, [SIZE // (4 * width)], x, y, np.zeros(SIZE, dtype.numpy))
    assert "u64" in to_wgsl(kernel, features=["shader-int64"])
    assert "u64" not in to_wgsl(kernel)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_float64_is_rounded_to_the_nearest_and_to_even(
    capable: WgpuRuntime, agree_if_capable: Run, width: int
) -> None:
    if "shader-f64" not in capable.device.features:
        pytest.skip("this adapter lacks shader-f64")
    x = np.resize([0.5, 1.5, 2.5, 7.5, -0.5, -2.5, -7.4, 7.6, 2.0**52 + 1, 1e300, -0.0], SIZE)
    kernel = elementwise("round", [float64], float64, width, lambda b, xs: b.rint(xs[0]))

    agree_if_capable(kernel, [SIZE // (4 * width)], x, np.zeros(SIZE))


def test_half_floats_are_moved_where_the_device_has_them(
    capable: WgpuRuntime, agree_if_capable: Run
) -> None:
    if "shader-f16" not in capable.device.features:
        pytest.skip("this adapter lacks shader-f16")
    x = normal_values_of(float16)
    kernel = elementwise(
        "half", [float16], float16, 4, lambda b, xs: b.cast(b.cast(xs[0], float32) * 0.5, float16)
    )

    agree_if_capable(kernel, [4], x, np.zeros(SIZE, np.float16))


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.name)
def test_narrow_dtypes_are_packed_in_words(agree: Run, dtype: DType) -> None:
    x = normal_values_of(dtype)
    for width in (1, 4):
        kernel = elementwise(
            "narrow", [dtype], dtype, width,
            lambda b, xs: b.select(b.cast(xs[0], float32) > 1.0, xs[0], 0),
        )  # fmt: skip
        agree(kernel, [SIZE // width // 4], x, np.zeros(SIZE, dtype.numpy))


def test_truth_values_are_bytes_in_memory(agree: Run) -> None:
    b = KernelBuilder("bools", workgroup_size=4)
    x, y = b.buffer("x", bool_, "read"), b.buffer("y", bool_, "write")
    i = b.global_id()
    y[i] = x[i] ^ x[i + 1]

    agree(b.build(), [10], np.random.default_rng(0).random(SIZE) < 0.5, np.zeros(SIZE, np.bool_))


def test_arguments_of_every_dtype(agree: Run) -> None:
    b = KernelBuilder("arguments")
    y = b.buffer("y", int32, "write")
    i, f, t, u, h = (b.scalar(d.name, d) for d in (int32, float32, bool_, uint32, float16))
    y[0] = i
    y[1] = b.bitcast(f, int32)
    y[2] = b.select(t, b.const(1, int32), 0)
    y[3] = b.cast(u, int32)
    y[4] = b.cast(b.cast(h, float32), int32)

    for flag in (True, False):
        agree(b.build(), [1], np.zeros(5, np.int32), -7, 2.5, flag, 2**32 - 1, 99.0)


def reduction() -> Kernel:
    """Sums of rows of 64, a workgroup each."""
    b = KernelBuilder("reduce", workgroup_size=16)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    lane = b.local_index()
    v = x.load(b.workgroup_id() * 64 + lane * 4, width=4, is_aligned=True)
    scratch = b.shared(float32, 16)
    scratch[lane] = v[0] + v[1] + v[2] + v[3]
    for half in (8, 4, 2, 1):
        b.barrier()
        with b.if_(lane < half):
            scratch[lane] = scratch[lane] + scratch[lane + half]
    with b.if_(lane == 0):
        y[b.workgroup_id()] = scratch[0]
    return b.build()


def test_invocations_work_together_through_shared_memory(agree: Run) -> None:
    x = np.random.default_rng(0).standard_normal(640).astype(np.float32)

    agree(reduction(), [10], x, np.zeros(10, np.float32))


@pytest.mark.sample(30)
@pytest.mark.parametrize("step", [1, 3])
def test_a_loop_that_is_entered_is_tested_at_its_end(agree: Run, step: int) -> None:
    b = KernelBuilder("sums", workgroup_size=32)
    x, start, stop = b.buffer("x", int32, "read_write"), b.scalar("a", int32), b.scalar("n", int32)
    i = b.global_id()
    with b.for_(start, stop, step=step, carried=[i, x[i]], is_entered=True) as loop:
        first, second = loop.carried
        with b.for_(0, 1, carried=[second], is_entered=True) as inner:
            inner.yield_(inner.carried[0] + 1)
        loop.yield_(inner.results[0], first * loop.index)
    x[i] = loop.results[0] - loop.results[1]
    kernel = b.build()

    text = to_wgsl(kernel)
    assert text.count("break if") == 2
    assert "for (" not in text
    for begin, end in ((0, 1), (-3, 0), (2, 3), (0, 7), (-5, 8)):
        agree(kernel, [2], np.arange(64, dtype=np.int32), begin, end)


@pytest.mark.parametrize("seed", range(400))
def test_a_random_kernel_equals_the_interpreter(agree_if_capable: Run, seed: int) -> None:
    # Neither a product that is subnormal, nor one that is rounded twice, nor a root, which may be
    # off by one place.
    never = {*PARTIAL, "fma", "mul", "sqrt"}
    kernel = RandomExpressions(
        seed, WORDS, (*WORDS, bool_), (int32, uint32), never=never, workgroup_size=2
    ).build()
    inputs = [normal_values_of(d, seed) for d in WORDS]
    # A driver may take x - x for 0, which it is not of infinity.
    inputs[2] = np.where(np.isfinite(inputs[2]), inputs[2], np.float32(1.5))

    agree_if_capable(kernel, [1], *inputs, *(np.zeros(32, d.numpy) for d in WORDS))


def test_a_grid_longer_than_an_axis_is_folded(runtime: WgpuRuntime) -> None:
    b = KernelBuilder("count", workgroup_size=1)
    y = b.buffer("y", int32, "write")
    y[b.workgroup_id()] = b.workgroup_id() + b.num_workgroups()
    grid = 2 * 65_535 + 17

    (got,) = launched(runtime, b.build(), [grid], [np.zeros(grid + 100, np.int32)])

    np.testing.assert_array_equal(got[:grid], np.arange(grid) + grid)
    assert not got[grid:].any()


def scale() -> Kernel:
    b = KernelBuilder("scale", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n, factor = b.scalar("n", int32), b.scalar("factor", float32)
    i = b.global_id()
    with b.if_(i < n):
        y.store(i * 4, x.load(i * 4, width=4, is_aligned=True) * factor, is_aligned=True)
    return b.build()


def masked_sum() -> Kernel:
    b = KernelBuilder("masked sum", grid=2, workgroup_size=(8, 8, 1))
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    lanes = b.const(list(range(8)), vector(int32, 8))
    row = b.workgroup_id(1) * b.num_workgroups(0) + b.workgroup_id(0)
    with b.for_(0, n, step=8, carried=[b.const(0.0, vector(float32, 8))]) as loop:
        mask = lanes + b.splat(loop.index, 8) < b.splat(n, 8)
        loop.yield_(loop.carried[0] + x.load(row * n + loop.index, width=8, mask=mask))
    (total,) = loop.results
    y[row] = total[0] + total[1] + total[2] + total[7] + float("inf")
    return b.build()


def choose() -> Kernel:
    b = KernelBuilder("choose")
    x, y = b.buffer("x", int32, "read"), b.buffer("y", uint32, "write")
    word = b.buffer("word", uint32, "atomic")
    i = b.workgroup_id()
    with b.if_(x[i] != 0) as branch:
        branch.yield_(b.alu("mulhi", b.cast(i, uint32), 2863311531))
    with branch.else_():
        branch.yield_(b.cast(abs(i - 10), uint32))
    y[i] = branch.results[0]
    b.error(word, i > 100, 1)
    return b.build()


@pytest.mark.parametrize("make", [scale, masked_sum, choose, reduction], ids=lambda f: f.__name__)
def test_the_text_of_kernels(
    golden: Callable[[str, str], None], make: Callable[[], Kernel]
) -> None:
    golden(f"{make.__name__}.wgsl", to_wgsl(make()))


def test_the_text_of_a_folded_kernel_with_immediates(golden: Callable[[str, str], None]) -> None:
    text = to_wgsl(scale(), all_writable=True, is_folded=True, has_immediates=True)

    golden("scale_folded.wgsl", text)
