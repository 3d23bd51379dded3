"""Every setting of Pyrite, typed and printable, in one place.

A setting comes from ``PYRITE_<NAME>`` in the environment when the package is imported, and may be
changed afterwards: ``pyrite.config.full_traceback = True``.  Print it to see all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal, get_args

from pyrite.errors import ArgumentError

#: The most threads.  More of them than processors only wait for each other, and the system refuses
#: to start some number of them, which differs; tests and machines that share a setting want a few.
MOST_THREADS = max(256, 16 * (os.cpu_count() or 1))

#: When the package began to be imported: this is among the first of its files.
IMPORTED = time.time()

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


#: When fused programs are compared with their ops: never, when they first run, each time.
Check = Literal["off", "first", "always"]

#: Whether kernels are found on disk by what they are of, before they are written: always, with each
#: written anyway and compared, or never.
KeptKernels = Literal["use", "check", "off"]

#: Where a guarded buffer has pages without access: right after its last byte, or before its first.
Guard = Literal["after", "before"]


@dataclass(slots=True)
class Config:
    """The settings; each field's comment says what it does."""

    #: The default device's name, or None for the best one that works here.
    device: str | None = None
    #: Errors keep every frame inside Pyrite, for those who work on Pyrite itself.
    full_traceback: bool = False
    #: An op that a device cannot run itself is an error, instead of a counted fallback to NumPy.
    strict: bool = False
    #: The folder of compiled code, None for the user's own, or "off" to keep none on disk.
    cache: str | None = None
    #: Megabytes of compiled code on disk; when there are more, what was used least recently goes.
    cache_megabytes: int = 512
    #: Kernels of the device ``cpu`` are found on disk by what they are of, and not written again:
    #: "use".  With "check" each is written anyway, and a difference is an error.  Read when the
    #: device is first used.
    kept_kernels: KeptKernels = "use"
    #: Threads of the device ``cpu``, up to `MOST_THREADS`, None for one on each processor; they
    #: change no result.  Read when the device is first used.
    threads: int | None = None
    #: Buffers are surrounded by poison, fresh and freed memory is poisoned, and each launch is
    #: checked when it is made: a kernel that leaves its operands is an error that names it.  On
    #: ``cpu`` what lies right "after" a buffer, or "before" it, cannot be touched at all; 1 means
    #: "after".  For tests: it is slow.  Read when a device is first used.
    guard: Guard | None = None
    #: Ops that have a rule of a class or a body run by it alone: no implementation and no kernel
    #: that was written for one op is used.  For tests.  Set it before the first op.
    rules_only: bool = False
    #: Ops on the devices ``cpu`` and ``wgpu`` that come again run as programs of many: see
    #: `pyrite.Fusion`.  Without, each runs alone.  Read when a device is first used.
    fusion: bool = True
    #: A program that is new runs as its ops so many times before it is compiled, in a pause; with 0
    #: it is compiled when it first runs.  For devices by name; read when one is first used.
    fusion_after: int = 2
    #: When a fused program is compared with its ops one by one: "off", the "first" time that it
    #: runs, or "always".  One that gives something else is not used any more.  Read when a device
    #: is first used.
    fusion_check: Check = "off"
    #: The folder of files with which such a program can be run again; None for
    #: ``pyrite-reproductions-<user>`` in the system's temporary folder.
    reproductions: str | None = None
    #: Kernels have the sizes and strides of their operands built in, and serve no others.  For who
    #: compares; set it before the first op.
    static_sizes: bool = False
    #: Kernels for other sizes than those that came first are compiled by a thread, in pauses; else
    #: when such a size comes.  It changes no result.
    ahead: bool = True
    #: The level of processors for which the device ``cpu`` is compiled, as ``x86-64-v3``; None for
    #: all that this processor has.  Read when the device is first used.
    cpu_level: str | None = None

    #: The most pixels of an image that is read: a file of 400 bytes can have a thousand million.
    image_pixels: int = 1 << 25

    def __setattr__(self, name: str, value: object) -> None:
        if name == "threads" and value is not None:
            _require_threads("config.threads", value)
        if name in ("cache_megabytes", "fusion_after", "image_pixels"):
            _require_count(f"config.{name}", value)
        if name == "fusion_check":
            require_check("config.fusion_check", value)
        if name == "kept_kernels":
            _require_kept("config.kept_kernels", value)
        if name == "guard":
            value = _guard("config.guard", "" if value is None else str(value))
        object.__setattr__(self, name, value)

    @classmethod
    def from_environment(cls, environment: dict[str, str]) -> Config:
        """Return the settings that PYRITE_* variables ask for; raise ArgumentError for bad ones."""
        config = cls()
        for field in fields(cls):
            name = f"PYRITE_{field.name.upper()}"
            text = environment.get(name)
            if text is None:
                continue
            setattr(config, field.name, _READERS.get(str(field.type), _text)(name, text))
        return config


def _text(name: str, text: str) -> str:
    return text


def _flag(name: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ArgumentError(f"{name} requires one of {_TRUE + _FALSE[:-1]}, got {text!r}")


def _guard(name: str, text: str) -> Guard | None:
    places = get_args(Guard)
    if text.lower() in places:
        return places[places.index(text.lower())]  # type: ignore[no-any-return]
    if text.lower() in _TRUE + _FALSE:
        return "after" if text.lower() in _TRUE else None
    raise ArgumentError(f"{name} requires one of {places + _TRUE + _FALSE[:-1]}, got {text!r}")


def require_check(name: str, value: object) -> None:
    """Raise ArgumentError for what is no `Check`, and not None."""
    if value is not None and value not in get_args(Check):
        raise ArgumentError(f"{name} requires one of {get_args(Check)}, got {value!r}")


def _require_kept(name: str, value: object) -> None:
    if value not in get_args(KeptKernels):
        raise ArgumentError(f"{name} requires one of {get_args(KeptKernels)}, got {value!r}")


def _threads(name: str, text: str) -> int:
    _require_threads(name, int(text) if text.isdecimal() else text)
    return int(text)


def _require_threads(name: str, count: object) -> None:
    if not isinstance(count, int) or not 1 <= count <= MOST_THREADS:
        raise ArgumentError(
            f"{name} requires a whole number from 1 to {MOST_THREADS}, got {count!r}; leave it out "
            f"for one thread on each of the {os.cpu_count()} processors"
        )


def _count(name: str, text: str) -> int:
    _require_count(name, int(text) if text.isdecimal() else text)
    return int(text)


def _require_count(name: str, count: object) -> None:
    least = 0 if name.lower().endswith("fusion_after") else 1
    if type(count) is not int or count < least:
        raise ArgumentError(f"{name} requires a whole number of {least} or more, got {count!r}")


#: How a setting is read from the environment, by its annotation; a text as it is.
_READERS: dict[str, Callable[[str, str], object]] = {
    "bool": _flag, "int | None": _threads, "Guard | None": _guard, "int": _count,
}  # fmt: skip

config = Config.from_environment(dict(os.environ))
