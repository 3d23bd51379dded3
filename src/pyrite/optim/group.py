"""Groups of parameters: chosen by path or by a predicate, stepped by a rule of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from pyrite.errors import ArgumentError
from pyrite.op import located
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tree import tree_paths

#: Whether a parameter of some path is chosen: ``lambda path, p: p.ndim < 2``.
Predicate = Callable[[str, Parameter], bool]


class GroupChoice(NamedTuple):
    """Which parameters a group has, and what it is called in records and by `learning_rates`."""

    name: str
    matches: Predicate


class Grouped(Protocol):
    """What is asked of a group here."""

    @property
    def choice(self) -> GroupChoice:
        """Which parameters it has."""
        ...


def choice(where: str | Predicate, name: str | None) -> GroupChoice:
    """Return the choice by a pattern of paths, as of ``Module.freeze``, or by a predicate.

    Raises ArgumentError for a predicate without a name: a record knows it by nothing else.
    """
    if isinstance(where, str):
        return GroupChoice(name or where, lambda path, parameter: fnmatchcase(path, where))
    if not callable(where):
        raise located(
            ArgumentError(
                "with_group requires a pattern of paths, or a function of path and parameter, got "
                f"{type(where).__name__}"
            )
        )
    if not name:
        raise located(
            ArgumentError(
                "with_group requires a name for a group by a function, got none; write "
                'with_group(lambda path, p: p.ndim < 2, name="no_decay", ...)'
            )
        )
    return GroupChoice(name, where)


def assigned(groups: Sequence[Grouped], model: Any) -> dict[int, int]:
    """Return the number of each parameter's group by id: from 1, the last that matches; 0 for none.

    A tied parameter is matched by any of its paths.  Raises ArgumentError when a group matches
    nothing.
    """
    named = [(path, t) for path, t in tree_paths(model) if isinstance(t, Parameter)]
    found = {parameter.id: 0 for _, parameter in named}
    for number, group in enumerate(groups, start=1):
        name, matches = group.choice
        matched = [p.id for path, p in named if matches(path, p)]
        if not matched:
            paths = ", ".join(path for path, _ in named)
            raise ArgumentError(f"with_group requires a path of a parameter, got {name!r}; {paths}")
        found.update(dict.fromkeys(matched, number))
    return found


def resolved(
    groups: Sequence[Grouped], parameters: Mapping[str, Parameter], numbers: Mapping[int, int]
) -> list[list[Any]]:
    """Return [name, paths] of each group, for a record: what a pattern or predicate came to mean.

    >>> resolved([], {}, {})
    []
    """
    return [
        [group.choice.name, [path for path, p in parameters.items() if numbers[p.id] == number]]
        for number, group in enumerate(groups, start=1)
    ]


def regrouping(recorded: Sequence[Sequence[Any]], own: Sequence[Sequence[Any]]) -> str | None:
    """Return the first group in which two of what `resolved` returns differ, in words, or None."""
    for (name, before), (_, now) in zip(recorded, own, strict=False):
        left = [f"without {path}" for path in before if path not in now]
        new = [f"with {path}" for path in now if path not in before]
        if left or new:
            return f"{name!r} {', '.join([*left, *new])}"
    return None
