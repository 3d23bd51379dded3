"""Settings of optimisers and schedules: their ranges, and how they are written down in a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Self

from pyrite.errors import ArgumentError
from pyrite.op import located


class Configured:
    """What is made of its settings alone.  Raises ArgumentError for others.

    PyTorch's optimisers take parameters, and lr.
    """

    def __new__(cls, *given: object, **named: object) -> Self:
        """Return a new one, if all that is given to ``__init__`` is a setting."""
        _require_settings(cls, given, named)
        return super().__new__(cls)


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


def require_rate(owner: object, rate: object, what: str) -> None:
    """Raise ArgumentError unless a learning rate is a number."""
    if not isinstance(rate, int | float):
        raise located(
            ArgumentError(
                f"{type(owner).__name__} requires {what} as learning_rate, got "
                f"{type(rate).__name__}; write {type(owner).__name__}(learning_rate=...), and give "
                "the model to step"
            )
        )


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


def _require_settings(rule: type, given: Sequence[object], named: Mapping[str, object]) -> None:
    parameters = list(inspect.signature(rule).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    names = [p.name for p in parameters]
    positions = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
    wrong = [f"{name}={value!r:.40}" for name, value in named.items() if name not in names]
    if len(given) > positions:
        wrong.insert(0, f"{len(given)} without a name")
    if wrong:
        raise located(
            ArgumentError(
                f"{rule.__name__} requires settings among {', '.join(names)}, got "
                f"{', '.join(wrong)}; write {rule.__name__}(learning_rate=...), and give the model "
                "to step"
            )
        )
