"""What is said of each backend's ops is true of its class, and the committed tables say it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest

from pyrite.backend.device import BACKENDS
from pyrite.backend.numpy import NumPy
from pyrite.backend.protocol import Backend, implements
from pyrite.op import OPS
from pyrite.testing.support import families, parts_of, support_of

ROOT = Path(__file__).parent.parent.parent
MISSING = sorted({e.needs for e in BACKENDS.values() if e.needs and not find_spec(e.needs)})


class Partial(NumPy):
    """NumPy that declares it lacks some ops, and keeps one composite whole."""

    falls_back: ClassVar = {"erf": "always", "argsort": "always", "pow": "negative exponents"}

    @implements("softmax")
    def softmax(self) -> None:
        """Never called."""


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", "native"),
        ("matmul", "native"),
        ("softmax", "native"),
        ("log_softmax", "composed"),
        ("pow", "in part"),
        ("erf", "NumPy"),
        ("sort", "in part"),
    ],
)
def test_an_op_is_as_its_class_and_its_parts_are(op: str, expected: str) -> None:
    assert support_of(Partial, OPS[op]) == expected


def test_the_parts_of_a_composite_stop_at_what_is_kept_whole() -> None:
    whole, expanded = (parts_of(b, OPS["softmax"]) for b in (Partial, NumPy))
    assert whole == {"softmax"}
    assert {"max_of_numbers", "exp", "sum"} <= expanded
    assert "softmax" in parts_of(Partial, OPS["cross_entropy_backward"])


def test_every_op_is_of_one_family() -> None:
    """Those that tests have declared apart, as an application declares its composites."""
    meanings = {n: op.body or op.scalar or op.reference for n, op in OPS.items()}
    ours = [n for n, f in meanings.items() if f is not None and f.__module__.startswith("pyrite.")]
    of_families = [op.name for ops in families().values() for op in ops]
    assert sorted(of_families) == sorted(ours)


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_what_a_class_has_nothing_for_it_declares(name: str) -> None:
    needs = BACKENDS[name].needs
    if needs:
        pytest.importorskip(needs)
    backend: type[Backend] = BACKENDS[name].load()
    nothing = {op.name for op in OPS.values() if not backend.has(op) and not op.is_composite}
    assert sorted(nothing - set(backend.falls_back)) == []


@pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}")
def test_the_committed_tables_are_those_of_the_code() -> None:
    command = [sys.executable, ROOT / "scripts" / "backend_table.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
