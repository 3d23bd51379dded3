"""The backend of this computer's processors.  Needs llvmlite."""

from __future__ import annotations

from pyrite.backend.cube.backend import CubeBackend
from pyrite.config import config
from pyrite.runtime.cpu.runtime import CpuRuntime


class Cpu(CubeBackend):
    """Kernels compiled by LLVM, on native threads."""

    def __init__(self) -> None:
        super().__init__(CpuRuntime(threads=config.threads))
        report = self.runtime.report()
        self.details = f"{report['cpu']}, {report['threads']} threads"
