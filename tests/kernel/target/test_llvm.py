"""What LLVM makes of a kernel equals what the interpreter makes of it, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel.build import KernelBuilder
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import ACCEPTED, EFFECTS, OPCODES, WIDTHS, Kernel, vector
from pyrite.kernel.target.llvm import LLVMTarget, printer, spelling, to_llvm
from pyrite.kernel.verify import verify
from pyrite.testing.operands import SIZE, elementwise, operands_of, values_of
from pyrite.testing.programs import Program, masked_memory, programs
from pyrite.testing.random_expressions import RandomExpressions
from pyrite.types import (
    DTYPES,
    Array,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)

if TYPE_CHECKING:
    from pyrite.runtime.cpu.runtime import CpuRuntime

#: A processor of which the goldens show the code, whatever runs the tests.
FIXED = LLVMTarget("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma", 32, has_fma=True)
#: Dtypes in which kernels compute.
COMPUTED = tuple(d for d in DTYPES if not (d.is_float and d.itemsize == 2))

Run = Callable[..., None]


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


@pytest.fixture
def agree(runtime: CpuRuntime) -> Run:
    """Run a kernel on copies of the values, natively and interpreted, and compare all buffers."""

    def check(kernel: Kernel, grid: Sequence[int], *values: Any) -> None:
        verify(kernel)
        expected = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        interpret(kernel, tuple(grid), *expected, subgroup_size=1)
        for got, want in zip(run(runtime, kernel, grid, values), expected, strict=True):
            np.testing.assert_array_equal(bits(got), bits(want), str(kernel))

    return check


def run(
    runtime: CpuRuntime, kernel: Kernel, grid: Sequence[int], values: Sequence[Any]
) -> list[Any]:
    bindings = [runtime.upload(v) if isinstance(v, np.ndarray) else v for v in values]
    runtime.launch(runtime.compile(kernel), bindings, grid)
    runtime.synchronize()
    return [
        b.bytes().view(v.dtype).copy() if isinstance(v, np.ndarray) else v
        for b, v in zip(bindings, values, strict=True)
    ]


def bits(x: Any) -> Any:
    """The bits of floats, with one NaN; anything else as it is."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "biu":
        return x
    pattern = x.view(f"u{x.dtype.itemsize}")
    return np.where(np.isnan(x.astype(np.float64)), pattern.dtype.type(1), pattern)


# ---- spelling ----


@pytest.mark.parametrize("opcode", [*OPCODES.values()], ids=lambda o: o.name)
def test_every_opcode_is_spelled_for_every_kind_that_it_accepts(opcode: Any) -> None:
    tables = (spelling.BINARY, spelling.COMPARE, spelling.CALL, printer.SPELLED)

    for kind in sorted({d.kind for d in ACCEPTED[opcode.accepts]}):
        count = sum((opcode.name, kind) in table for table in tables)
        assert count == 1, f"{opcode.name} of {kind} is spelled {count} times"


def test_every_kind_of_node_is_printed() -> None:
    parameters = {"argument", "buffer", "parameter"}

    assert set(printer._NODES) == set(EFFECTS) - parameters


def test_nothing_is_spelled_that_the_ir_does_not_have() -> None:
    spelled = {
        key
        for t in (spelling.BINARY, spelling.COMPARE, spelling.CALL, printer.SPELLED)
        for key in t
    }

    wrong = {
        (name, kind)
        for name, kind in spelled
        if not any(d.kind == kind for d in ACCEPTED[OPCODES[name].accepts])
    }
    assert not wrong


def test_a_workgroup_of_many_is_refused_with_the_pass_that_mends_it() -> None:
    kernel = KernelBuilder("wide", workgroup_size=64).build()

    with pytest.raises(KernelError, match=r"workgroups of one invocation, got \(64, 1, 1\).*split"):
        to_llvm(kernel, FIXED)


# ---- arithmetic ----


def opcode_cases() -> Iterator[Any]:
    for opcode in OPCODES.values():
        for dtype in sorted(ACCEPTED[opcode.accepts], key=DTYPES.index):
            yield pytest.param(opcode.name, dtype, id=f"{opcode.name}-{dtype.name}")


@pytest.mark.sample(1, by="name")
@pytest.mark.parametrize(("name", "dtype"), [*opcode_cases()])
def test_an_opcode_equals_the_interpreters(agree: Run, name: str, dtype: DType) -> None:
    to = bool_ if OPCODES[name].compares else dtype
    operands = operands_of(name, [values_of(dtype, i) for i in range(3)], dtype)
    if name == "fma" and dtype is float64:
        # The interpreter rounds twice.
        operands = [np.trunc(x) % 1000 for x in operands]
    for width in WIDTHS:
        kernel = elementwise(
            name, [dtype] * len(operands), to, width, lambda b, xs: b.alu(name, *xs)
        )
        agree(kernel, [SIZE // width], *operands, np.zeros(SIZE, to.numpy))


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


@pytest.mark.sample(4, by="to")
@pytest.mark.parametrize(("source", "to"), [*cast_cases()])
def test_a_cast_equals_the_interpreters(agree: Run, source: DType, to: DType) -> None:
    x = castable(source, to)
    for width in (1, 4, 16):
        kernel = elementwise("cast", [source], to, width, lambda b, xs: b.cast(xs[0], to))
        agree(kernel, [SIZE // width], x, np.zeros(SIZE, to.numpy))


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
    got: Array = run(runtime, cast_kernel(source, to), [len(x) // 16], values)[1]
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


def test_without_fma_the_product_is_rounded_too(runtime: CpuRuntime) -> None:
    x = np.full(SIZE, 1 + 2.0**-12, np.float32)
    values = [x, x, -np.full(SIZE, (1 + 2.0**-11), np.float32), np.zeros(SIZE, np.float32)]
    kernel = elementwise("fma", [float32] * 3, float32, 8, lambda b, xs: b.alu("fma", *xs))
    with_fma, without = (
        to_llvm(kernel, replace(FIXED, has_fma=has_fma)) for has_fma in (True, False)
    )

    got = run(runtime, kernel, [SIZE // 8], values)[3]

    assert "llvm.fma.v8f32" in with_fma
    assert "llvm.fma" not in without
    assert "fadd" in without
    np.testing.assert_array_equal(got, 2.0**-24 if runtime.target.has_fma else 0.0)


# ---- values ----


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_arguments_and_constants_of_every_dtype(agree: Run, dtype: DType) -> None:
    number = True if dtype.is_bool else 3 if dtype.is_integer else 0.1
    b = KernelBuilder("argument")
    y = b.buffer("y", dtype, "write")
    n = b.scalar("n", dtype)
    y[0] = n
    y[1] = b.const(number, dtype)
    y.store(2, b.const(number, vector(dtype, 2)))

    agree(b.build(), [1], np.zeros(4, dtype.numpy), number)


def test_bitcasts_keep_bits(agree: Run) -> None:
    for source, to in ((float32, uint32), (uint32, float32), (float16, bfloat16), (int64, float64)):
        kernel = elementwise("bitcast", [source], to, 4, lambda b, xs, to=to: b.bitcast(xs[0], to))
        agree(kernel, [SIZE // 4], values_of(source), np.zeros(SIZE, to.numpy))


# ---- memory ----


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_memory_is_masked_gathered_and_scattered(agree: Run, dtype: DType) -> None:
    program = masked_memory(values_of(dtype), dtype)

    agree(program.kernel, program.grid, *program.values)


@pytest.mark.parametrize("flag", [True, False])
def test_one_mask_for_a_whole_access(agree: Run, flag: bool) -> None:
    b = KernelBuilder("masked")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    keep = b.scalar("keep", bool_)
    far = b.select(keep, b.const(0, int32), 1 << 30)
    y.store(0, x.load(far, width=8, mask=keep, other=-1.0))
    y[8] = x.load(far, mask=keep, other=-2.0)
    y.store(b.select(keep, b.const(16, int32), 1 << 30), x.load(8, width=4), mask=keep)
    y.store(b.splat(far, 4) + b.const([20, 21, 22, 23], vector(int32, 4)), x.load(0, width=4),
            mask=keep)  # fmt: skip

    agree(b.build(), [1], values_of(float32), np.zeros(SIZE, np.float32), flag)


def test_an_index_beyond_two_billion_is_not_negative(runtime: CpuRuntime) -> None:
    b = KernelBuilder("far", index=uint32)
    x = b.buffer("x", uint8, "read_write")
    n = b.scalar("n", uint32)
    x[n] = x[n] + 1
    text = to_llvm(b.build(), FIXED)

    assert "zext i32" in text
    assert re.search(r"getelementptr i8, ptr %v\d+, i64 %v\d+\n", text)


@pytest.mark.parametrize("index", [int32, uint32, int64], ids=lambda d: d.name)
def test_indices_that_wrap_around_on_their_way(agree: Run, index: DType) -> None:
    b = KernelBuilder("around", index=index)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", index)
    # n is the greatest of its dtype, and what is below wraps: to -2, or to just below 2 ** 32.
    below = n + n
    for i in range(2, 10):
        y[i] = x[below + i] + x[(i + n) + (n + 20)] + x[i + (below + (b.workgroup_id() + 30))]
    y.store(16, x.load(b.workgroup_id() + (below + 3), width=8))

    with np.errstate(over="ignore"):
        agree(b.build(), [1], values_of(float32), np.zeros(SIZE, np.float32), int(index.highest))


def test_the_constant_part_of_an_index_is_a_part_of_the_address() -> None:
    b = KernelBuilder("offsets")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    row, column = b.workgroup_id() * 64, b.scalar("column", int32)
    y[row] = x[row + column] + x[row + (column + 8)] + x[(row + 16) + column]
    text = to_llvm(b.build(), FIXED)

    assert re.findall(r"getelementptr float, ptr %v\d+, i64 (\d+)\n", text) == ["8", "16"]


@pytest.mark.parametrize("space", ["shared", "private"])
def test_memory_of_the_workgroup(agree: Run, space: str) -> None:
    b = KernelBuilder("scratch")
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    scratch = getattr(b, space)(int32, 16)
    with b.for_(0, 16) as loop:
        scratch[15 - loop.index] = x[loop.index]
    b.barrier()
    y.store(0, scratch.load(0, width=16, is_aligned=True))

    agree(b.build(), [1], values_of(int32), np.zeros(16, np.int32))


@pytest.mark.parametrize("dtype", [int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name", ["load", "store", "add", "min", "max", "and", "or", "xor", "exchange"]
)
def test_atomics_on_one_workgroup(agree: Run, name: str, dtype: DType) -> None:
    b = KernelBuilder("atomic")
    x, y = b.buffer("x", dtype, "atomic"), b.buffer("y", dtype, "write")
    keep = b.scalar("keep", bool_)
    v = b.const(5, dtype)
    y[0] = x.atomic(name, 2, v)
    y[1] = x.atomic(name, 3, v, mask=keep)
    y[2] = x.atomic(name, b.select(keep, b.const(0, int32), 1 << 30), v, mask=keep)

    for flag in (True, False):
        agree(b.build(), [1], values_of(dtype), np.zeros(3, dtype.numpy), flag)


def test_an_exchange_of_what_is_equal(agree: Run) -> None:
    b = KernelBuilder("exchange")
    x, y = b.buffer("x", int32, "atomic"), b.buffer("y", int32, "write")
    y[0] = x.atomic("exchange_equal", 0, 9, expected=1)
    y[1] = x.atomic("exchange_equal", 1, 9, expected=1)

    agree(b.build(), [1], np.array([1, 2], np.int32), np.zeros(2, np.int32))


def test_workgroups_add_to_one_number_without_losing_any(runtime: CpuRuntime) -> None:
    b = KernelBuilder("count")
    x = b.buffer("x", int32, "atomic")
    with b.for_(0, 1000):
        x.atomic("add", 0, 1)

    got = run(runtime, b.build(), [500], [np.zeros(1, np.int32)])[0]

    assert got.tolist() == [500_000]


# ---- control ----


@pytest.mark.parametrize("program", programs(1, (int32, uint32, int64)), ids=lambda p: p.name)
def test_a_program_equals_the_interpreters(agree: Run, program: Program) -> None:
    agree(program.kernel, program.grid, *program.values)


def test_a_subgroup_is_one_invocation(agree: Run) -> None:
    b = KernelBuilder("subgroup")
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    v = x[0]
    for i, name in enumerate(("add", "mul", "min", "max", "and", "or", "xor")):
        y[3 * i] = b.subgroup_reduce(name, v)
        y[3 * i + 1] = b.subgroup_scan(name, v)
        y[3 * i + 2] = b.subgroup_scan(name, v, is_inclusive=False)
    y[21] = b.subgroup_shuffle(v, 0) + b.subgroup_broadcast(v)
    y[22] = b.subgroup_size() * 10 + b.subgroup_lane()
    y.store(24, b.bitcast(b.subgroup_ballot(v == v), int32))

    agree(b.build(), [1], values_of(int32), np.zeros(28, np.int32))


# ---- at random ----


@pytest.mark.sample(40)
@pytest.mark.parametrize("seed", range(400))
def test_a_random_kernel_equals_the_interpreter(agree: Run, seed: int) -> None:
    kernel = RandomExpressions(seed, DTYPES, COMPUTED, (int32, uint32, int64)).build()
    inputs = [values_of(d, seed) for d in DTYPES]

    agree(kernel, [1], *inputs, *(np.zeros(16, d.numpy) for d in DTYPES))


# ---- goldens ----


def scale() -> Kernel:
    b = KernelBuilder("scale", index=int64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    factor = b.scalar("factor", float32)
    start = b.workgroup_id() * 1024
    with b.for_(start, start + 1024, step=8) as loop:
        v = x.load(loop.index, width=8, is_aligned=True)
        y.store(loop.index, v * factor, is_aligned=True)
    return b.build()


def masked_sum() -> Kernel:
    b = KernelBuilder("masked sum", grid=2)
    x, y = b.buffer("x", bfloat16, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    lanes = b.const(list(range(8)), vector(int32, 8))
    row = b.workgroup_id(1) * b.num_workgroups(0) + b.workgroup_id(0)
    with b.for_(0, n, step=8, carried=[b.const(0.0, vector(float32, 8))]) as loop:
        mask = lanes + b.splat(loop.index, 8) < b.splat(n, 8)
        v = x.load(row * n + loop.index, width=8, mask=mask)
        loop.yield_(loop.carried[0] + b.cast(v, float32))
    (total,) = loop.results
    y[row] = total[0] + total[1] + total[2] + total[3]
    return b.build()


def choose() -> Kernel:
    b = KernelBuilder("choose")
    x, y = b.buffer("x", bool_, "read"), b.buffer("y", int32, "write")
    word = b.buffer("word", uint32, "atomic")
    i = b.workgroup_id()
    with b.if_(x[i]) as branch:
        branch.yield_(i // 3)
    with branch.else_():
        branch.yield_(abs(i - 10))
    y[i] = branch.results[0]
    b.error(word, i > 100, 1)
    return b.build()


@pytest.mark.parametrize("make", [scale, masked_sum, choose], ids=lambda f: f.__name__)
def test_the_text_of_kernels(
    golden: Callable[[str, str], None], make: Callable[[], Kernel]
) -> None:
    golden(f"{make.__name__}.ll", to_llvm(make(), FIXED))


def test_large_outputs_are_stored_past_the_caches() -> None:
    text = to_llvm(scale(), FIXED, streams=[1])

    assert re.search(r"store <8 x float> %v\d+, ptr %v\d+, align 32, !nontemporal !0\n", text)
    assert "!nontemporal" not in to_llvm(scale(), FIXED)


def test_memories_stand_in_the_address_spaces_of_the_target() -> None:
    target = replace(FIXED, spaces=(("buffer", 1), ("private", 5)))

    text = to_llvm(scale(), target)

    assert "load ptr addrspace(1), ptr %v3, align 8" in text
    assert "load <8 x float>, ptr addrspace(1)" in text
