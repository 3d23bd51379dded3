"""The backend of this computer's processors.  Needs llvmlite."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from pyrite import columns
from pyrite.backend.cube.backend import CubeBackend, Replay
from pyrite.backend.cube.direct import direct_launch
from pyrite.backend.cube.native_begun import native_begin
from pyrite.backend.cube.native_binding import bind_natively
from pyrite.backend.cube.native_call import NativeReplay, execute_of, may_be_native
from pyrite.backend.cube.native_run import native_launches, native_run, run_natively
from pyrite.columns import Maker
from pyrite.config import config
from pyrite.op import Op, Plan
from pyrite.runtime.cpu.bundle import fill_natively
from pyrite.runtime.cpu.bundle_memory import lend_natively
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.level import level_target
from pyrite.runtime.cpu.native_call import column_code, machine_code, maker_of
from pyrite.runtime.cpu.runtime import CpuRuntime


class Cpu(CubeBackend):
    """Kernels compiled by LLVM, on native threads."""

    shares_with_numpy = True

    def __init__(self) -> None:
        threads, guard, level = config.threads, config.guard, config.cpu_level
        target = None if level is None else level_target(level)
        runtime = (
            GuardedCpuRuntime(guard, threads=threads, target=target)
            if guard
            else CpuRuntime(threads=threads, target=target)
        )
        super().__init__(runtime, partial(execute_of, runtime))
        bind_natively(runtime.compiler)
        Maker.make_natively(partial(maker_of, runtime.compiler))
        fill_natively(runtime.compiler)
        lend_natively(runtime.compiler)
        run_natively(runtime.compiler)
        self.launcher.run_again, self.launcher.begin_again = native_run, native_begin
        self.launcher.launches_again = native_launches
        columns.make_natively(partial(column_code, runtime.compiler))
        report = runtime.report()
        self.details = f"{report['cpu']}, {report['threads']} threads"
        if target is None and report["cpu"] != (host := host_target().cpu):
            self.details += f"; not {host}, whose code fails the self-test"

    def machine_code(
        self, source: str, held: Sequence[object], slots: Sequence[tuple[type, str, object]],
        name: str = "execute",
    ) -> Callable[..., Any] | None:  # fmt: skip
        """Return the function of a source of `pyrite.runtime.cpu`; see `Backend.machine_code`."""
        return machine_code(self.runtime.compiler, source, held, slots, name)  # type: ignore[attr-defined]

    def direct_launch(
        self, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Callable[..., None] | None:
        """Return the kernel of a call that is one launch; see `Backend.direct_launch`."""
        return direct_launch(self, op, inputs, plan)

    def keep_replay(self, key: Hashable, replay: Replay) -> None:
        """Keep what calls of a plan do, so that machine code can do it."""
        is_native = self.is_native and may_be_native(replay)
        self._planned.put(key, NativeReplay(replay) if is_native else replay)  # type: ignore[arg-type]
