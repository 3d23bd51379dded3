"""`import pyrite` is light: what is heavy is imported by those who use it, when they do."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pyrite

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
    "pyarrow",
}


def test_importing_pyrite_imports_nothing_heavy() -> None:
    program = "import sys, pyrite; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite" in loaded
    assert not HEAVY & set(loaded)


def test_importing_pyrite_imports_only_what_tensors_and_gradients_need() -> None:
    # The time is that of the modules, 0.4 ms for each of Pyrite's, of which there were 300; of what
    # they bring along, 3 ms for hashlib's OpenSSL.  `benchmarks/import_time.py` measures it.
    program = """
import sys, numpy
before = {*sys.modules}
import pyrite
print(*sys.modules.keys() - before)
"""
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    own = [name for name in loaded if name.startswith("pyrite")]
    assert {name.split(".")[1] for name in own if "." in name} == {
        *("_version", "autodiff", "backend", "cached", "columns", "config", "content", "errors"),
        *("op", "philox", "products", "recent", "sized", "symbol", "synchronization", "tensor"),
        "types",
    }
    assert len(own) <= 175
    assert len(loaded) - len(own) <= 20, sorted(set(loaded) - set(own))
    assert "hashlib" not in loaded


@pytest.mark.parametrize(
    "name", ["nn", "optim", "data", "explain", "compile", "CacheWarning", "Fusion", "fusion"]
)
def test_what_is_imported_when_it_is_named_is_completed_and_the_same_each_time(name: str) -> None:
    assert name in dir(pyrite)
    assert getattr(pyrite, name) is getattr(pyrite, name)


def test_importing_the_training_imports_no_terminal_library() -> None:
    program = "import sys, pyrite.train; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite.train" in loaded
    assert not {"textual", "rich", "IPython"} & set(loaded)


def test_importing_the_training_imports_no_extra() -> None:
    program = "import sys, pyrite.train, pyrite.train.report, pyrite.cli; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pyrite.train.report" in loaded
    extras = {"matplotlib", "tensorboardX", "pynvml", "textual", "onnx", "pyarrow"}
    assert not extras & set(loaded)


def test_no_module_takes_the_name_that_its_package_gives_to_something_else() -> None:
    # The first import of a module sets its name in the package, over a function's of that name.
    program = """
import importlib, pkgutil, sys, pyrite, pyrite.extension, pyrite.onnx, pyrite.train
for package in [module for name, module in sys.modules.items() if hasattr(module, "__path__")]:
    if package.__name__.partition(".")[0] == "pyrite":
        names = {*getattr(package, "__all__", ())}
        for name in names & {module.name for module in pkgutil.iter_modules(package.__path__)}:
            before = getattr(package, name)
            importlib.import_module(f"{package.__name__}.{name}")
            if getattr(package, name) is not before:
                print(package.__name__, name)
"""

    taken = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert taken == ""
