"""The names that a function's code reads outside itself, from its bytecode."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

#: A name, and the attributes that are read of it: ``settings.size.width``.
Path = tuple[str, ...]

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

#: Modules that no application changes while it runs; NumPy's and PyTorch's functions are as fixed
#: as Python's.
LIBRARIES = frozenset({"pyrite", "numpy", "ml_dtypes", "scipy", "torch", "llvmlite", "wgpu"})


class Names(NamedTuple):
    """What code reads: globals, cells of enclosing functions, and modules that it imports."""

    globals: tuple[Path, ...]
    cells: tuple[Path, ...]
    imports: tuple[str, ...]


@lru_cache(maxsize=1024)
def names_of(code: CodeType) -> Names:
    """Return the names that code reads, with the functions that are written inside it.

    >>> names_of((lambda x: x * settings.scale).__code__).globals
    (('settings', 'scale'),)
    """
    found: dict[str, dict[Path, None]] = {"globals": {}, "cells": {}, "imports": {}}
    for inner in _codes(code):
        for kind, path in _reads(inner):
            found[kind][path] = None
    imports = tuple(path[0] for path in found["imports"])
    return Names(tuple(found["globals"]), tuple(found["cells"]), imports)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _reads(code: CodeType) -> Iterator[tuple[str, Path]]:
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for at, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            yield "imports", (instruction.argval,)
        for kind, names in (("globals", _GLOBALS), ("cells", _CELLS)):
            # No program has such a name: pytest puts its own for what an assert says.
            if instruction.opname in names and not instruction.argval.startswith("@"):
                path = [instruction.argval]
                for following in instructions[at + 1 :]:
                    if following.opname not in _ATTRIBUTES:
                        break
                    path.append(following.argval)
                yield kind, tuple(path)


def is_of_library(module: object) -> bool:
    """Whether a module of that name is Python's own, ours, or one that we build on."""
    if not isinstance(module, str):
        return False
    root = module.partition(".")[0]
    return root in LIBRARIES or root in sys.stdlib_module_names
