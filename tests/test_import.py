"""`import pyrite` is light: what is heavy is imported by those who use it, when they do."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "torch",
    "wgpu",
    "llvmlite",
    "rich",
    "matplotlib",
    "PIL",
    "typer",
    "scipy",
    "textual",
    "pynvml",
    "tensorboardX",
    "onnx",
    "google",
}


def test_importing_pyrite_imports_nothing_heavy() -> None:
    program = "import sys, pyrite; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite" in loaded
    assert not HEAVY & set(loaded)


def test_importing_the_training_imports_no_terminal_library() -> None:
    program = "import sys, pyrite.train; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite.train" in loaded
    assert not {"textual", "rich"} & set(loaded)


def test_importing_the_training_imports_no_extra() -> None:
    program = "import sys, pyrite.train, pyrite.train.report, pyrite.cli; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite.train.report" in loaded
    extras = {"matplotlib", "tensorboardX", "pynvml", "textual", "onnx"}
    assert not extras & set(loaded)
