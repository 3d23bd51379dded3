"""The stores in assembly, of processors that are not here too: none is wider than its mask says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from llvmlite import binding

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.kernel.target.llvm import LLVMTarget, lowered, to_llvm
from pyrite.runtime.cpu.host import target_of
from pyrite.runtime.cpu.level import X86
from pyrite.testing.random_expressions import RandomExpressions
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import DTYPES, DType, bfloat16, bool_, float16, float32, int8, int16, int32, int64

ARM = "aarch64-unknown-linux-gnu"
TARGETS = (
    *(level.target("x86_64-unknown-linux-gnu") for level in X86),
    target_of("x86_64-unknown-linux-gnu", "znver5", "", X86[0].features),
    target_of(ARM, "generic", "", set()),
    target_of(ARM, "neoverse-v1", "+sve", set()),
    target_of("arm64-apple-darwin", "apple-m1", "", set()),
)

#: Bytes of a store by x86's mnemonic, whatever register it has; vectors have those of the register.
X86_SCALARS = {
    "b": 1, "w": 2, "l": 4, "q": 8,
    "extrb": 1, "extrw": 2, "extrd": 4, "extrq": 8, "extractps": 4,
    "movd": 4, "movq": 8, "movss": 4, "movsd": 8,
    "movlps": 8, "movhps": 8, "movlpd": 8, "movhpd": 8,
}  # fmt: skip
X86_VECTORS = re.compile(r"v?mov([au]p[sd]|dq[au](8|16|32|64)?|ntps|ntdq)|v?extract[fi]\d+x?\d*")
REGISTER_BYTES = {"x": 16, "y": 32, "z": 64}
READS_ONLY = re.compile(r"v?(cmp|test|prefetch|u?comis|ptest|jmp|call|push|lea|nop|bt)")
ARM_BYTES = {"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16}


@cache
def machine(target: LLVMTarget) -> Any:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small", jit=True
    )


def assembly(kernel: Kernel, target: LLVMTarget) -> str:
    module = binding.parse_assembly(to_llvm(kernel, target))
    return str(machine(target).emit_assembly(module))


def stores(text: str, target: LLVMTarget) -> Iterator[tuple[str, int]]:
    """Yield each store of unmasked bytes, and how many they are; not those to the stack."""
    of = arm_bytes if target.triple.startswith(("aarch64", "arm64")) else x86_bytes
    for line in text.splitlines():
        if not line.startswith("\t") or line.startswith("\t."):
            continue
        # Behind it, apart by a tab, may be a comment.
        mnemonic, _, operands = line.strip().partition("\t")
        operands = re.split(r"\s*(?:#|;|//)", operands)[0].strip()
        nbytes = of(mnemonic, operands)
        if nbytes:
            yield line.strip(), nbytes


def x86_bytes(mnemonic: str, operands: str) -> int:
    """Return how many bytes an instruction of x86 stores, which has the target last."""
    found = re.search(r"^(?:.*,\s*)?(-?\w*\((%\w+)?[^()]*\))(\s*\{%k\d\})?$", operands)
    if found is None or READS_ONLY.match(mnemonic) or found[2] in ("%rsp", "%rbp"):
        return 0
    if found[3] or "mask" in mnemonic:
        return 0
    if X86_VECTORS.fullmatch(mnemonic):
        half = re.search(r"(\d+)x(\d+)$", mnemonic)
        wide = re.match(r"%([xyz])mm", operands)
        extracted = 16 if "extract" in mnemonic else REGISTER_BYTES[wide[1]] if wide else 0
        return int(half[1]) * int(half[2]) // 8 if half else extracted
    for suffix, nbytes in sorted(X86_SCALARS.items(), key=lambda item: -len(item[0])):
        if mnemonic.removeprefix("v").removeprefix("p").endswith(suffix):
            return nbytes
    raise AssertionError(f"what does {mnemonic} {operands} store?")


def arm_bytes(mnemonic: str, operands: str) -> int:
    """Return how many bytes an instruction of 64-bit Arm stores."""
    if not mnemonic.startswith("st") or re.search(r"\[(sp|x29|fp)\b", operands):
        return 0
    if found := re.match(r"\{ *v\d+\.(\w) *\}\[", operands):
        return ARM_BYTES[found[1]]
    if found := re.match(r"st1\.(\w)$", mnemonic):
        return ARM_BYTES[found[1]]
    if mnemonic.startswith("st1"):
        return 0
    narrow = re.fullmatch(r"stu?l?r([bh])", mnemonic)
    nbytes = ARM_BYTES[narrow[1] if narrow else operands[0]]
    return nbytes * (2 if mnemonic in ("stp", "stnp") else 1)


def narrowing_store(source: DType, to: DType, width: int, lanes: tuple[int, ...]) -> Kernel:
    b = KernelBuilder("narrowing_store")
    x, y = b.buffer("x", source, "read"), b.buffer("y", to, "write")
    mask = b.const([lane in lanes for lane in range(width)], vector(bool_, width))
    y.store(0, b.cast(x.load(0, width=width), to), mask=mask)
    return b.build()


@pytest.mark.sample(3, by="target")
@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("lanes", [(0,), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("to", [bfloat16, float16, int8, int16, int32], ids=str)
@pytest.mark.parametrize("source", [float32, int32, int64], ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_no_store_is_wider_than_its_mask(
    target: LLVMTarget, source: DType, to: DType, lanes: tuple[int, ...], width: int
) -> None:
    most = sum(lane < width for lane in lanes) * to.itemsize

    text = assembly(narrowing_store(source, to, width, lanes), target)

    found = list(stores(text, target))
    assert sum(nbytes for _, nbytes in found) <= most, (found, text)
    # Else nothing would have been looked at.
    assert found or re.search(r"\{%k\d\}|mask|\tst1[bhwd]\t", text), text


def test_the_reader_of_assembly_knows_a_wide_store() -> None:
    x86, arm = TARGETS[0], TARGETS[5]

    found = stores(
        "\tmovl\t%eax, (%rdi)\n\tvmovdqu16\t%ymm0, 32(%rdi) {%k1}\n\tmovl (%rsi), %eax", x86
    )
    assert [n for _, n in found] == [4]
    found = stores("\tvmovups\t%zmm0, 4(%rdi,%rax)\n\tvpextrw\t$1, %xmm0, (%rdi)\n\tret", x86)
    assert [n for _, n in found] == [64, 2]
    found = stores("\tst1\t{ v0.h }[1], [x8]\n\tstr\tw9, [x8]\n\tstrb\tw9, [x8, #1]\n\tret", arm)
    assert [n for _, n in found] == [2, 4, 1]


@pytest.mark.sample(1, by="target")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_every_target_makes_an_object_of_random_kernels(target: LLVMTarget, seed: int) -> None:
    computed = [d for d in DTYPES if not (d.is_float and d.itemsize == 2)]
    kernels = (
        RandomExpressions(seed, DTYPES, computed, (int32, int64)).build(),
        lowered(random_kernel(seed).kernel, target),
    )

    for kernel in kernels:
        module = binding.parse_assembly(to_llvm(kernel, target))
        assert len(machine(target).emit_object(module)) > 500
