"""Generated files as tests use them: written, imported in a namespace of their own, judged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.python.writing import write_with

ROOT = Path(__file__).parents[2]


def written(model: Any, folder: Path) -> tuple[ModuleType, str]:
    """The module that a model becomes, and its text."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    path = write_with(content, folder, inspect_here, force=True)
    spec = importlib.util.spec_from_file_location("generated_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, path.read_text()


def require_tidy(*paths: Path) -> None:
    """Ruff would change nothing at its own width and at ours, and finds no fault."""
    for width in ("88", "100"):
        command = ["ruff", "format", "--check", "--isolated", f"--line-length={width}"]
        done = run([*command, *map(str, paths)], paths[0].parent)
        assert done.returncode == 0, done.stdout + done.stderr
    # In a folder of their own, as Pyrite is installed for those who import them.
    done = run(["ruff", "check", "--isolated", "--select=E,F,I,B,UP", "--ignore=E501",
                *map(str, paths)], paths[0].parent)  # fmt: skip
    assert done.returncode == 0, done.stdout


def require_typed(*paths: Path) -> None:
    """Mypy finds nothing in strict mode."""
    for path in paths:
        done = run(["mypy", "--strict", "--config-file=", str(path)])
        assert done.returncode == 0, done.stdout


def run(command: list[str], folder: Path = ROOT) -> Any:
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder, check=False
    )
