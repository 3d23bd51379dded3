"""The applications of examples/apps as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

APPS = Path(__file__).parents[2] / "examples" / "apps"


def app(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, APPS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module there.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
