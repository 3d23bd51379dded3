"""Every setting of Pyrite, typed and printable, in one place.

A setting comes from ``PYRITE_<NAME>`` in the environment when the package is imported, and may be
changed afterwards: ``pyrite.config.full_traceback = True``.  Print it to see all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields

from pyrite.errors import ArgumentError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


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
    #: Threads of the device ``cpu``, None for one on each processor; they change no result.
    #: Read when the device is first used.
    threads: int | None = None

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


def _count(name: str, text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ArgumentError(f"{name} requires a whole number from 1 on, got {text!r}")


#: How a setting is read from the environment, by its annotation; a text as it is.
_READERS: dict[str, Callable[[str, str], object]] = {"bool": _flag, "int | None": _count}

config = Config.from_environment(dict(os.environ))
