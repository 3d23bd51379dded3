"""Functions are the ops that tensors have: the file that says so is what its script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_functions_are_those_of_the_ops() -> None:
    command = [sys.executable, ROOT / "scripts" / "functions.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
