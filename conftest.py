"""What pytest is to do before it collects doctests from Pyrite's files.

Pyrite is imported under its own name: otherwise the first file given on pytest's command line runs
twice, and declares its ops twice.  Modules of optional packages that are missing are left out.
The reference is the default device, of doctests as of tests.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pyrite as pyrite
from pyrite.config import config

_NEEDS = {
    "torch": ["src/pyrite/backend/torch"],
    "candle": ["src/pyrite/backend/candle"],
    "onnx": ["src/pyrite/onnx"],
    "IPython": ["src/pyrite/train/view/notebook.py"],
    "textual": [f"src/pyrite/train/view/watch/{name}.py" for name in ("screen", "dialog")],
    "llvmlite": ["src/pyrite/runtime/cpu", "src/pyrite/backend/cube/cpu.py"],
}
collect_ignore = [path for name, paths in _NEEDS.items() if not find_spec(name) for path in paths]


def pytest_configure() -> None:
    # In the processes that tests start, too.
    config.device = os.environ.setdefault("PYRITE_DEVICE", "numpy")
    # Tests count kernels, and mostly end before a second size could come.
    config.ahead = os.environ.setdefault("PYRITE_AHEAD", "0") == "1"
    # Tests look at how kernels are written.
    config.kept_kernels = os.environ.setdefault("PYRITE_KEPT_KERNELS", "off")
