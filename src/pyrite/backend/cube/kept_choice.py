"""Choices of configs that another process made: see `pyrite.kernel.choice.kept`.

What was chosen is a record of numbers.  It is written as JSON with the names of its classes, which
are ours, and read again only by the sources that wrote it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from pyrite.backend.cube.kept import Kept
from pyrite.content import content_of
from pyrite.kernel.choice import FINDERS
from pyrite.runtime.kernel_cache import KernelCache


def keep_choices(cache: KernelCache | None) -> None:
    """Have choices found in a cache from now on, which are the same for all devices like these."""
    if cache is None:
        return
    kept: Kept[Any] = Kept(
        cache, "choice", encoded, decoded, lambda x, y: bool(x == y), is_small=True
    )

    def find(name: str, arguments: tuple[Any, ...], choose: Callable[[], Any]) -> Any:
        return kept.found((name, content_of(arguments)), choose)

    FINDERS[:] = [find]


def encoded(choice: Any) -> bytes:
    """Return a choice as JSON."""
    return json.dumps(_plain(choice)).encode()


def decoded(text: bytes) -> Any | None:
    """Return the choice of which `encoded` made JSON; None for what is none.

    >>> from pyrite.kernel.machine import Machine
    >>> decoded(encoded((Machine.cpu(16), 3))) == (Machine.cpu(16), 3)
    True
    """
    try:
        return _choice(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) is tuple:
        return [_plain(x) for x in value]
    kind = type(value)
    if not is_dataclass(value) or not kind.__module__.startswith("pyrite."):
        raise TypeError(f"a kept choice requires numbers and records of ours, got {value!r}")
    return {
        "class": [kind.__module__, kind.__qualname__],
        **{f.name: _plain(getattr(value, f.name)) for f in fields(value)},
    }


def _choice(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_choice, value))
    if not isinstance(value, dict):
        return value
    module, name = value.pop("class")
    kind = getattr(sys.modules[module], name)
    if not (module.startswith("pyrite.") and isinstance(kind, type) and is_dataclass(kind)):
        raise TypeError(f"a kept choice requires a record of ours, got {name}")
    return kind(**{name: _choice(x) for name, x in value.items()})
