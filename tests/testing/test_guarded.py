"""A sample of the ops runs on the guarded CPU, on dense inputs and on views."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

#: One of so many examples and views: 2 s.
EVERY = 30


@pytest.mark.parametrize("guard", ["after", "before"])
def test_examples_of_ops_stay_inside_of_their_operands(
    guard: str, full: bool, rng: random.Random
) -> None:
    seed = str(rng.randrange(1000))
    every = "1" if full else str(EVERY)
    found = subprocess.run(
        [sys.executable, "-m", "pyrite.testing.guarded", "cpu", "--every", every, "--seed", seed],
        env={**os.environ, "PYRITE_GUARD": guard},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    last = found.stderr[-3000:]
    assert found.returncode == 0, f"seed {seed}: {found.stdout}\n{last}"
    assert int(found.stdout.split()[-4]) > 0
