"""Machine code of the host's processor: for what calls of ops take of it, on whatever device.

A GPU's host finds plans, records and binds as that of `cpu` does, and takes as long for it in
Python: see `pyrite.runtime.cpu.native_call`.  Needs llvmlite; without, Python does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any

from pyrite import columns
from pyrite.backend.cube.native_binding import bind_natively
from pyrite.columns import Maker
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.runtime.cache import default_cache
from pyrite.runtime.cpu.level import level_target
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import Slot, column_code, machine_code, maker_of
from pyrite.runtime.cpu.self_test import compiler_for


class HostCode:
    """What a compiler for the host makes faster."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler

    @classmethod
    def of_host(cls) -> HostCode | None:
        """Return that of this processor; None where LLVM makes wrong code for it."""
        level = config.cpu_level
        try:
            target = None if level is None else level_target(level)
            return cls(compiler_for(target, default_cache()))
        except DeviceError:
            return None

    def use(self) -> None:
        """Have calls bound, and objects made by the many, by machine code in this process."""
        bind_natively(self.compiler)
        Maker.make_natively(partial(maker_of, self.compiler))
        columns.make_natively(partial(column_code, self.compiler))

    def function(
        self, source: str, held: Sequence[object], slots: Sequence[Slot], name: str = "execute"
    ) -> Callable[..., Any] | None:
        """Return the function of a source of `pyrite.runtime.cpu`; see `Backend.machine_code`."""
        return machine_code(self.compiler, source, held, slots, name)


class HostCodeAhead:
    """A `HostCode` that another thread makes while a device is opened, which takes as long."""

    def __init__(self) -> None:
        self._made: HostCode | None = None
        self._thread = Thread(target=self._make, name="pyrite-host-code")
        self._thread.start()

    def result(self) -> HostCode | None:
        """Return it, when it is made; None without LLVM."""
        self._thread.join()
        return self._made

    def _make(self) -> None:
        self._made = HostCode.of_host()
