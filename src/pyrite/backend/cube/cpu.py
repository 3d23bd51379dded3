"""The backend of this computer's processors.  Needs llvmlite."""

from __future__ import annotations

from pyrite.backend.cube.backend import CubeBackend
from pyrite.config import config
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.runtime.cpu.runtime import CpuRuntime


class Cpu(CubeBackend):
    """Kernels compiled by LLVM, on native threads."""

    def __init__(self) -> None:
        threads, guard = config.threads, config.guard
        super().__init__(
            GuardedCpuRuntime(guard, threads=threads) if guard else CpuRuntime(threads=threads)
        )
        report = self.runtime.report()
        self.details = f"{report['cpu']}, {report['threads']} threads"
