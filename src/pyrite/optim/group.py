"""Groups of parameters: chosen by path, stepped by a rule of their own."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from pyrite.errors import ArgumentError
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tree import tree_paths


def assigned(patterns: Sequence[str], model: Any) -> dict[int, int]:
    """Return the number of each parameter's group by id: from 1, the last that matches; 0 for none.

    A tied parameter is matched by any of its paths.  Raises ArgumentError when a pattern matches
    nothing.
    """
    named = [(path, t) for path, t in tree_paths(model) if isinstance(t, Parameter)]
    found = {parameter.id: 0 for _, parameter in named}
    for number, pattern in enumerate(patterns, start=1):
        matched = [p.id for path, p in named if fnmatchcase(path, pattern)]
        if not matched:
            paths = ", ".join(path for path, _ in named)
            raise ArgumentError(
                f"with_group requires a path of a parameter, got {pattern!r}; {paths}"
            )
        found.update(dict.fromkeys(matched, number))
    return found
