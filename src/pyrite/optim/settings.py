"""Settings of optimisers and schedules: their ranges, and how they are written down in a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pyrite.errors import ArgumentError


def require(owner: object, condition: str, value: object, holds: bool) -> None:
    """Raise ArgumentError in the owner's name unless a condition on one of its settings holds."""
    if not holds:
        raise ArgumentError(f"{type(owner).__name__} requires {condition}, got {value}")


def non_negative(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the settings of these names are numbers >= 0."""
    _each(owner, names, "{} >= 0", lambda x: x >= 0)


def positive(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the settings of these names are numbers > 0."""
    _each(owner, names, "{} > 0", lambda x: x > 0)


def fraction(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the settings of these names are decay rates, 0 <= x < 1."""
    _each(owner, names, "0 <= {} < 1", lambda x: 0 <= x < 1)


def _each(
    owner: object, names: tuple[str, ...], condition: str, holds: Callable[[Any], bool]
) -> None:
    for name in names:
        value = getattr(owner, name)
        require(owner, condition.format(name), f"{name}={value}", holds(value))


def settings_of(owner: Any) -> dict[str, Any]:
    """Return the arguments with which a dataclass was made, by name."""
    return {f.name: getattr(owner, f.name) for f in fields(owner) if f.init}


def description(value: object) -> Any:
    """Return a setting as JSON values, so that two records can be told apart.

    Functions, which have no settings, are known by their names.

    >>> from pyrite.optim.schedule import Exponential
    >>> description(Exponential(0.1, gamma=0.5))
    {'type': 'Exponential', 'learning_rate': 0.1, 'gamma': 0.5}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [description(item) for item in value]
    if is_dataclass(value):
        settings = {name: description(item) for name, item in settings_of(value).items()}
        return {"type": type(value).__name__, **settings}
    return getattr(value, "__qualname__", type(value).__name__)


def difference(recorded: object, own: object, where: str) -> str | None:
    """Return the first setting in which two descriptions differ, in words, or None."""
    if isinstance(recorded, Mapping) and isinstance(own, Mapping):
        for name in {**recorded, **own}:
            found = difference(recorded.get(name), own.get(name), f"{where}.{name}")
            if found:
                return found
        return None
    return None if recorded == own else f"{where}={own}, recorded as {recorded}"
