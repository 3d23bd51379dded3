"""Names of a file as paths of a module: ``/layer.0/weight`` is ``layer.0.weight``."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

_SEPARATOR = re.compile(r"[./:]+")
_FOREIGN = re.compile(r"[^0-9A-Za-z_]+")


def paths(names: Iterable[str]) -> dict[str, str]:
    """Return a path for each name, no two equal, and none within another.

    >>> paths(["conv1.weight", "onnx::MatMul_12", "a", "a/b"])
    {'conv1.weight': 'conv1.weight', 'onnx::MatMul_12': 'onnx.MatMul_12', 'a': 'a_', 'a/b': 'a.b'}
    """
    wanted = {name: _path(name) for name in names}
    groups = {prefix for path in wanted.values() for prefix in _prefixes(path)}
    taken: set[str] = set()
    found = {}
    for name, path in wanted.items():
        unique = path
        while unique in taken or unique in groups:
            unique += "_"
        taken.add(unique)
        found[name] = unique
    return found


def identifier(name: str) -> str:
    """Return a name as one that Python takes.

    >>> identifier("output 0"), identifier("class"), identifier("2")
    ('output_0', 'class_', '_2')
    """
    found = _FOREIGN.sub("_", name).strip("_") or "value"
    found = f"_{found}" if found[0].isdigit() else found
    return f"{found}_" if keyword.iskeyword(found) else found


def _path(name: str) -> str:
    parts = [_FOREIGN.sub("_", part).strip("_") for part in _SEPARATOR.split(name)]
    return ".".join(filter(None, parts)) or "weight"


def _prefixes(path: str) -> Iterable[str]:
    parts = path.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))
