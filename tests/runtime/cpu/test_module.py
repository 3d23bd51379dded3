"""What the name of compiled code depends on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.module import SOURCES, Compiler

_IMPORTED = """
import sys
import pyrite.runtime.cpu.runtime
print(*(n for n in sys.modules if n.startswith(("pyrite.kernel", "pyrite.runtime.cpu"))))
"""


def test_every_file_that_makes_code_is_a_part_of_its_name() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, check=True)
    imported = done.stdout.decode().split()

    packages = {name if name in SOURCES else name.rpartition(".")[0] for name in imported}

    assert "pyrite.kernel.target.llvm" in packages
    assert packages - {"pyrite.runtime"} <= set(SOURCES)


@pytest.mark.parametrize(
    "change",
    [{"cpu": "x86-64-v2"}, {"features": "-fma"}, {"vector_bytes": 8}, {"has_fma": None}],
    ids=lambda change: next(iter(change)),
)
def test_code_for_another_target_has_another_name(change: dict[str, object]) -> None:
    target = host_target()
    if "cpu" in change and not target.triple.startswith("x86"):
        change = {"cpu": "generic"}
    other = replace(target, **change)

    assert Compiler(target, DiskCache(None)).key("x") != Compiler(other, DiskCache(None)).key("x")
