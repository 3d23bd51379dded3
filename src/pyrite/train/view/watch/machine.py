"""What a process and its machine do: read here, so that no step pays for it."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import psutil

from pyrite.errors import DeviceError
from pyrite.train.event import RunStarted

#: Seconds by which the clock of the system and that of a process's birth may differ.
_TOLERANCE = 2.0


#: More GPUs than these do not fit on a line.
_GPUS = 8


class GPUReading(Protocol):
    """What a GPU says of itself: load as a fraction, memory in bytes."""

    @property
    def load(self) -> float: ...

    @property
    def memory_used(self) -> int: ...

    @property
    def memory_total(self) -> int: ...


GPURead = Callable[[], GPUReading]


@dataclass(frozen=True)
class Usage:
    """Processors in cores, memory in bytes; of the run's process where it is on this machine."""

    cores: int
    busy: float
    memory: int
    memory_total: int
    process_busy: float | None = None
    process_memory: int | None = None
    gpus: tuple[GPUReading, ...] = ()


class MachineWatch:
    """Looks at this machine, and at the process of a run."""

    def __init__(
        self, run: RunStarted | None, began: float, gpus: list[GPURead] | None = None
    ) -> None:
        self._gpus = _gpus() if gpus is None else gpus
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

    def use(self) -> Usage:
        """Return what was used since the call before."""
        cores = psutil.cpu_count() or 1
        memory = psutil.virtual_memory()
        busy = psutil.cpu_percent() / 100 * cores
        own = self._own()
        gpus = tuple(read() for read in self._gpus)
        return Usage(cores, busy, memory.total - memory.available, memory.total, *own, gpus)

    def _own(self) -> tuple[float | None, int | None]:
        if self._process is None:
            return None, None
        try:
            return self._process.cpu_percent() / 100, self._process.memory_info().rss
        except psutil.Error:
            return None, None


def _gpus() -> list[GPURead]:
    """Return what reads each NVIDIA GPU; nothing without one, its driver, or the extra gpu."""
    if find_spec("pynvml") is None:
        return []
    nvidia_gpu = importlib.import_module("pyrite.train.metric.gpu").nvidia_gpu
    found: list[GPURead] = []
    try:
        while len(found) < _GPUS:
            found.append(nvidia_gpu(len(found)))
    except DeviceError:  # there is no next one
        pass
    return found


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
