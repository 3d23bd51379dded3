"""A program ends with its exit status and in silence, whatever is still under way."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyrite.backend.device import device_problem

HEAD = """
import sys, threading
import pyrite

pyrite.set_default_device(sys.argv[1])
x = pyrite.ones((1 << 16,))
for _ in range(100):
    x = x.sin()
"""

ENDS = {
    "work under way": "",
    "a thread that reads on": """
def read(started):
    while True:
        (x + 1.0).numpy()
        started.set()

for _ in range(3):
    started = threading.Event()
    threading.Thread(target=read, args=(started,), daemon=True).start()
    started.wait()
""",
    "a thread to wait for": """
threading.Thread(target=lambda: [(x + 1.0).numpy() for _ in range(20)]).start()
""",
    "minutes of work under way": """
from pyrite.extension import kernel

@kernel
def slow(k, x, out):
    with k.for_(0, 3_000_000, carried=[x[k.at]]) as loop:
        loop.yield_(k.fma(loop.carried[0], 0.9999999, 1e-7))
    out[k.at] = loop.results[0]

@pyrite.custom_op(infer=lambda x: x, kernels=[slow])
def slowly(x, /):
    "x, after a while."

if sys.argv[1] == "cpu":  # A driver finishes what it was given.
    for _ in range(900):
        x = slowly(x)
""",
    "a cycle": "cycle = [x]; cycle.append(cycle)",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.sample(2, by="device")
def test_a_program_ends_in_silence(device: str, end: str) -> None:
    problem = device_problem(device)
    if problem is not None:
        pytest.skip(f"device does not work here: {problem}")

    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", HEAD + ENDS[end] + "\nsys.exit(3)", device],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
