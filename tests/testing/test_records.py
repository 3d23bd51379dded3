"""The table of all ops, whatever was imported before it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyrite
from pyrite.testing import all_records
from pyrite.testing.records import FAMILIES

PACKAGE = Path(pyrite.__file__).parent


def declaring_modules() -> Iterator[Path]:
    """Give the files of Pyrite in which `primitive` or `composite` decorates something."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(node, "decorator_list", ()):
                name = mark.func if isinstance(mark, ast.Call) else mark
                if isinstance(name, ast.Name) and name.id in ("primitive", "composite"):
                    yield path.relative_to(PACKAGE)


def test_every_package_that_declares_ops_is_a_family() -> None:
    packages = {path.parts[0] for path in declaring_modules()}

    assert packages == {family.__name__.removeprefix("pyrite.") for family in FAMILIES}


def test_tools_for_tests_know_the_ops_of_optimisers_by_themselves() -> None:
    program = "from pyrite.testing import all_records; print(*all_records())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    names = done.stdout.split()
    assert names == sorted(names)
    assert {"exp", "adamw_update", "newton_schulz", "norm_of_all"} <= set(names)
    assert set(names) <= set(all_records())
