"""Opcodes and values in LLVM IR, kernels at random, and the text of some."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import ACCEPTED, EFFECTS, OPCODES, WIDTHS, Kernel, vector
from pyrite.kernel.target.llvm import LLVMTarget, printer, spelling, to_llvm
from pyrite.testing.launch import launched
from pyrite.testing.operands import SIZE, elementwise, operands_of, values_of
from pyrite.testing.random_expressions import RandomExpressions
from pyrite.types import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
)

if TYPE_CHECKING:
    from pyrite.runtime.cpu.runtime import CpuRuntime

#: Dtypes in which kernels compute.
COMPUTED = tuple(d for d in DTYPES if not (d.is_float and d.itemsize == 2))

#: What a pass spells out, nearer to the power than the interpreter's.
EXPANDED = "exp2"

Run = Callable[..., None]


@pytest.mark.parametrize(
    "opcode", [o for o in OPCODES.values() if o.name != EXPANDED], ids=lambda o: o.name
)
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


def test_a_workgroup_of_many_is_refused_with_the_pass_that_mends_it(haswell: LLVMTarget) -> None:
    kernel = KernelBuilder("wide", workgroup_size=64).build()

    with pytest.raises(KernelError, match=r"workgroups of one invocation, got \(64, 1, 1\).*split"):
        to_llvm(kernel, haswell)


def opcode_cases() -> Iterator[Any]:
    for opcode in (o for o in OPCODES.values() if o.name != EXPANDED):
        for dtype in sorted(ACCEPTED[opcode.accepts], key=DTYPES.index):
            yield pytest.param(opcode.name, dtype, id=f"{opcode.name}-{dtype.name}")


@pytest.mark.sample(1, by="name")
@pytest.mark.parametrize(("name", "dtype"), [*opcode_cases()])
def test_an_opcode_equals_the_interpreters(
    agree_at_level: Run, level_runtime: CpuRuntime, name: str, dtype: DType
) -> None:
    to = bool_ if OPCODES[name].compares else dtype
    operands = operands_of(name, [values_of(dtype, i) for i in range(3)], dtype)
    if name == "fma" and (dtype is float64 or not level_runtime.target.has_fma):
        # The interpreter rounds twice, or the processor does.
        operands = [np.trunc(x) % 1000 for x in operands]
    for width in WIDTHS:
        kernel = elementwise(
            name, [dtype] * len(operands), to, width, lambda b, xs: b.alu(name, *xs)
        )
        agree_at_level(kernel, [SIZE // width], *operands, np.zeros(SIZE, to.numpy))


def test_without_fma_the_product_is_rounded_too(runtime: CpuRuntime, haswell: LLVMTarget) -> None:
    x = np.full(SIZE, 1 + 2.0**-12, np.float32)
    values = [x, x, -np.full(SIZE, (1 + 2.0**-11), np.float32), np.zeros(SIZE, np.float32)]
    kernel = elementwise("fma", [float32] * 3, float32, 8, lambda b, xs: b.alu("fma", *xs))
    with_fma, without = (
        to_llvm(kernel, replace(haswell, has_fma=has_fma)) for has_fma in (True, False)
    )

    got = launched(runtime, kernel, [SIZE // 8], values)[3]

    assert "llvm.fma.v8f32" in with_fma
    assert "llvm.fma" not in without
    assert "fadd" in without
    np.testing.assert_array_equal(got, 2.0**-24 if runtime.target.has_fma else 0.0)


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


@pytest.mark.sample(12, by="level")
@pytest.mark.parametrize("seed", range(200))
def test_a_random_kernel_equals_the_interpreter(agree_at_level: Run, seed: int) -> None:
    kernel = RandomExpressions(seed, DTYPES, COMPUTED, (int32, uint32, int64)).build()
    inputs = [values_of(d, seed) for d in DTYPES]

    agree_at_level(kernel, [1], *inputs, *(np.zeros(16, d.numpy) for d in DTYPES))


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
    golden: Callable[[str, str], None], make: Callable[[], Kernel], haswell: LLVMTarget
) -> None:
    golden(f"{make.__name__}.ll", to_llvm(make(), haswell))


def test_large_outputs_are_stored_past_the_caches(haswell: LLVMTarget) -> None:
    text = to_llvm(scale(), haswell, streams=[1])

    assert re.search(r"store <8 x float> %v\d+, ptr %v\d+, align 32, !nontemporal !0\n", text)
    assert "!nontemporal" not in to_llvm(scale(), haswell)


def test_memories_stand_in_the_address_spaces_of_the_target(haswell: LLVMTarget) -> None:
    target = replace(haswell, spaces=(("buffer", 1), ("private", 5)))

    text = to_llvm(scale(), target)

    assert "load ptr addrspace(1), ptr %v3, align 8" in text
    assert "load <8 x float>, ptr addrspace(1)" in text
