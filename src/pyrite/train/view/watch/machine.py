"""What a process and its machine do: read here, so that no step pays for it."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import psutil

from pyrite.train.event import RunStarted

#: Seconds by which the clock of the system and that of a process's birth may differ.
_TOLERANCE = 2.0


@dataclass(frozen=True)
class Use:
    """Processors in cores, memory in bytes; of the run's process where it is on this machine."""

    cores: int
    busy: float
    memory: int
    memory_total: int
    process_busy: float | None = None
    process_memory: int | None = None


class Machine:
    """Looks at this machine, and at the process of a run."""

    def __init__(self, run: RunStarted | None, began: float) -> None:
        self.is_here = run is not None and bool(run.pid) and run.host == platform.node()
        self._process = _process(run.pid, began) if run is not None and self.is_here else None
        psutil.cpu_percent()  # the first call only starts the count

    @property
    def is_alive(self) -> bool | None:
        """Whether the run's process lives; None where that cannot be seen."""
        if not self.is_here:
            return None
        try:
            return (
                self._process is not None
                and self._process.is_running()
                and self._process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.Error:
            return False

    def use(self) -> Use:
        """Return what was used since the call before."""
        cores = psutil.cpu_count() or 1
        memory = psutil.virtual_memory()
        busy = psutil.cpu_percent() / 100 * cores
        own = self._own()
        return Use(cores, busy, memory.total - memory.available, memory.total, *own)

    def _own(self) -> tuple[float | None, int | None]:
        if self._process is None:
            return None, None
        try:
            return self._process.cpu_percent() / 100, self._process.memory_info().rss
        except psutil.Error:
            return None, None


def _process(pid: int, began: float) -> psutil.Process | None:
    """Return the process, None where it has ended and another has its number."""
    try:
        process = psutil.Process(pid)
        if process.create_time() > began + _TOLERANCE:
            return None
        process.cpu_percent()
    except (psutil.Error, ValueError, OverflowError):
        return None
    return process
