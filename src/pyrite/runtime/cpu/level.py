"""Levels of processors: sets of features for which code can be made on any processor that has them.

``config.cpu_level`` names one where the code for this very processor is not wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import binding

from pyrite.errors import DeviceError
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.runtime.cpu.host import host_features, host_target, is_arm, target_of


@dataclass(frozen=True, slots=True)
class Level:
    """A level: what LLVM calls it as a processor, and the features that it needs here."""

    name: str
    cpu: str
    features: frozenset[str]

    def target(self, triple: str) -> LLVMTarget:
        """Return the target of any processor of this level."""
        return target_of(triple, self.cpu, "", self.features)


_V2 = frozenset(("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"))
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

#: The levels of x86-64, the highest first.
#: Source: x86-64 psABI, "Micro-Architecture Levels", https://gitlab.com/x86-psABIs/x86-64-ABI
X86 = (
    Level("x86-64-v4", "x86-64-v4", _V4),
    Level("x86-64-v3", "x86-64-v3", _V3),
    Level("x86-64-v2", "x86-64-v2", _V2),
    Level("x86-64", "x86-64", frozenset()),
)
#: The level of 64-bit Arm: what each has.
ARM = (Level("armv8-a", "generic", frozenset()),)


def levels() -> tuple[Level, ...]:
    """Return the levels that this processor has, the highest first."""
    known = ARM if is_arm(binding.get_process_triple()) else X86
    return tuple(level for level in known if level.features <= host_features())


def level_target(name: str) -> LLVMTarget:
    """Return the target of a level.  Raises DeviceError if this processor does not have it."""
    triple = binding.get_process_triple()
    for level in levels():
        if level.name == name:
            return level.target(triple)
    raise DeviceError(
        f"PYRITE_CPU_LEVEL requires one of {[level.name for level in levels()]} on this processor, "
        f"got {name!r}; leave it out for all that the processor has"
    )


def targets() -> Iterator[LLVMTarget]:
    """Yield this processor, then its levels from the highest: whom to compile for, in turn."""
    yield host_target()
    triple = binding.get_process_triple()
    for level in levels():
        yield level.target(triple)
