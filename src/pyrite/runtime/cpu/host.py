"""This computer's processor, as LLVM knows it."""

from __future__ import annotations

from collections.abc import Set
from functools import cache

from llvmlite import binding

from pyrite.kernel.machine import Machine
from pyrite.kernel.target.llvm import LLVMTarget


@cache
def host_target() -> LLVMTarget:
    """Return the target of the processor that runs this process, with all its features."""
    return target_of(
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        host_features(),
    )


@cache
def host_features() -> frozenset[str]:
    """Return the features of the processor that runs this process, by LLVM's names."""
    return frozenset(name for name, has in binding.get_host_cpu_features().items() if has)


def is_arm(triple: str) -> bool:
    """Whether a target is 64-bit Arm; else it is x86-64."""
    return triple.startswith(("aarch64", "arm64"))


def target_of(triple: str, cpu: str, flattened: str, features: Set[str]) -> LLVMTarget:
    """Return the target with the vectors and instructions that its features give."""
    if "avx512f" in features:
        vector_bytes = 64
    else:
        vector_bytes = 32 if "avx2" in features else 16
    has_scale = {"avx512f", "avx512vl"} <= features
    return LLVMTarget(
        triple,
        cpu,
        flattened,
        vector_bytes,
        has_fma=is_arm(triple) or "fma" in features,
        has_float16=is_arm(triple) or "f16c" in features,
        has_scale=has_scale,
        has_scale_of_tiny=has_scale and cpu.startswith("znver"),
    )


def machine_of(target: LLVMTarget, threads: int) -> Machine:
    """Return what the choice of a kernel needs to know of a processor.

    >>> machine_of(LLVMTarget("aarch64-unknown-linux-gnu"), 8).registers
    32
    """
    has_32 = target.vector_bytes == 64 or is_arm(target.triple)
    return Machine.cpu(target.vector_bytes, 32 if has_32 else 16, threads)
