"""The backend of this computer's processors.  Needs llvmlite."""

from __future__ import annotations

from pyrite.backend.cube.backend import CubeBackend
from pyrite.config import config
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.level import level_target
from pyrite.runtime.cpu.runtime import CpuRuntime


class Cpu(CubeBackend):
    """Kernels compiled by LLVM, on native threads."""

    shares_with_numpy = True

    def __init__(self) -> None:
        threads, guard, level = config.threads, config.guard, config.cpu_level
        target = None if level is None else level_target(level)
        super().__init__(
            GuardedCpuRuntime(guard, threads=threads, target=target)
            if guard
            else CpuRuntime(threads=threads, target=target)
        )
        report = self.runtime.report()
        self.details = f"{report['cpu']}, {report['threads']} threads"
        if target is None and report["cpu"] != (host := host_target().cpu):
            self.details += f"; not {host}, whose code fails the self-test"
