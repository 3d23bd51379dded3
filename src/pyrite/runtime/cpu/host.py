"""This computer's processor, as LLVM knows it."""

from __future__ import annotations

from functools import cache

from llvmlite import binding

from pyrite.kernel.target.llvm import LLVMTarget

_ARM = ("aarch64", "arm64")


@cache
def host_target() -> LLVMTarget:
    """Return the target of the processor that runs this process, with all its features."""
    triple = binding.get_process_triple()
    features = binding.get_host_cpu_features()
    return target_of(
        triple,
        binding.get_host_cpu_name(),
        features.flatten(),
        {n for n, has in features.items() if has},
    )


def target_of(triple: str, cpu: str, flattened: str, features: set[str]) -> LLVMTarget:
    """Return the target with the vectors and instructions that its features give."""
    is_arm = triple.startswith(_ARM)
    if "avx512f" in features:
        vector_bytes = 64
    else:
        vector_bytes = 32 if "avx2" in features else 16
    return LLVMTarget(
        triple,
        cpu,
        flattened,
        vector_bytes,
        has_fma=is_arm or "fma" in features,
        has_float16=is_arm or "f16c" in features,
    )
