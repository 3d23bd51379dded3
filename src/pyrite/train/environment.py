"""What a run ran on: versions and platform, for its manifest and for ``pyrite doctor``."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pyrite._version import __version__

DEPENDENCIES = (
    "numpy", "ml_dtypes", "safetensors", "opt_einsum", "typer", "rich", "Pillow", "psutil",
    "llvmlite", "wgpu",
)  # fmt: skip
"""What every install of Pyrite has."""


def installed(package: str) -> str | None:
    """Return the version of a package, without importing it; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def environment() -> dict[str, Any]:
    """Return versions and platform as JSON values."""
    return {
        "pyrite": __version__,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": platform.platform(),
        "dependencies": {name: installed(name) for name in DEPENDENCIES},
    }
