"""Which device is the default: the best one that really works.

That is a hardware GPU, else the processors, else NumPy.  Each is tried before it is chosen, with
kernels whose results are checked, and in another process: a broken driver may end the process that
calls it.  What came of it is kept on disk until the drivers change, a hang for a day, so only the
first program ever waits for it.  A software GPU is never the default.
"""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pyrite.runtime.cache import default_cache

#: Devices in the order in which the default is sought; the last needs no trial.
PREFERENCE = ("wgpu", "cpu", "numpy")

#: Named, not imported: what tries a device computes with tensors, which stand above backends.
TRIAL = "pyrite.testing.trial"

#: A trial that takes longer, in seconds, has failed.
PATIENCE = 120

#: For so long, in seconds, no program waits for a trial that did: a day.  A driver that hangs does
#: so again; a machine that was only busy is not.
HANG_KEPT = 86_400

#: Environment variables that drivers, or the trial itself, read begin with one of these.
_READ = ("VK_", "WGP", "PYRITE_THREADS", "PYRITE_CPU_LEVEL")

#: How a process ends that a driver brought down: by these signals, or on Windows from this code on.
_CRASHES = [-getattr(signal, f"SIG{name}", 0) for name in ("SEGV", "ABRT", "BUS", "ILL", "FPE")]
_WINDOWS_EXCEPTION = 0xC0000000


@cache
def best_device(known: tuple[str, ...]) -> str:
    """Return the name of the best of these devices that works here."""
    sought = [name for name in PREFERENCE if name in known]
    if not _can_try():
        # Inside a packed application. What it brings of LLVM is its own, a driver is not.
        return "cpu" if find_spec("llvmlite") else "numpy"
    return next((name for name in sought[:-1] if problem_as_default(name) is None), sought[-1])


def problem_as_default(name: str, *, anew: bool = False) -> str | None:
    """Return why a device is not fit to be the default here, in one line; None when it is.

    ``anew`` tries it whatever is known from before.
    """
    store, key = default_cache(), ("verdict", name, *_circumstances())
    kept = None if anew else _kept_verdict(store.get(*key))
    if kept is not None and time.time() < kept[1]:
        return kept[0]
    problem, lasting = _trial(name)
    if lasting:
        store.put(json.dumps([problem, time.time() + lasting]).encode(), *key)
    return problem


def _kept_verdict(entry: bytes | None) -> tuple[str | None, float] | None:
    """Return what was kept of a trial, and until when; None for what is none."""
    try:
        problem, until = json.loads(entry or b"")
    except (ValueError, TypeError):
        return None
    is_verdict = isinstance(problem, str | None) and isinstance(until, int | float)
    return (problem, until) if is_verdict else None


def _trial(name: str) -> tuple[str | None, float]:
    """Return what a trial says, and for how many seconds that holds."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", TRIAL, name],
            env=os.environ | {"PYRITE_DEVICE": "numpy", "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        again = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + HANG_KEPT))
        return (
            f"its trial hung: no end within {PATIENCE} s; until {again} only 'pyrite doctor' tries "
            "it anew"
        ), HANG_KEPT
    except OSError as error:
        return f"its trial failed: {error}", 0
    return _verdict(done), math.inf if _tells_of_the_device(done.returncode) else 0


def _can_try() -> bool:
    """Whether this process can start another that runs Python; a packed application cannot."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _verdict(done: subprocess.CompletedProcess[str]) -> str | None:
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"its trial ended with status {done.returncode}: {last}"
    verdict: str | None = json.loads(done.stdout.splitlines()[-1])
    return verdict


def _tells_of_the_device(status: int) -> bool:
    """Whether a trial ended with a verdict or as a broken driver ends it.

    An exception, as for want of memory, or a kill says something about the moment only.
    """
    return status == 0 or status in _CRASHES or status >= _WINDOWS_EXCEPTION


def _circumstances() -> tuple[str, ...]:
    """Return what a trial depends on: the machine, its drivers, the packages that call them."""
    packages = (f"{p} {_version(p)}" for p in ("pyrite", "llvmlite", "wgpu"))
    environment = (f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_READ))
    machine = (sys.executable, platform.node(), platform.system(), platform.release())
    return (*machine, *packages, *environment, *_drivers())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _drivers() -> Iterable[str]:
    """Return what changes with a driver: on Linux its files, elsewhere the system."""
    nvidia = Path("/proc/driver/nvidia/version")
    if nvidia.exists():
        yield nvidia.read_text()
    for folder in ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/dev/dri"):
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            yield f"{entry.path} {entry.stat().st_mtime_ns if entry.is_file() else ''}"
