"""Writes the functions of `pyrite` from the ops of tensors: ``pyrite.exp`` is ``Tensor.exp``.

    python scripts/functions.py            writes src/pyrite/tensor/functions.py
    python scripts/functions.py --check    says whether it is out of date, and then exits with 1

Every public method of the families of ops is a function too, and every public function of
pyrite.tensor is exported; what is not is named below.  The file is text, and not made at import, so
that type checkers and editors see each name and its signature; a test compares.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

# The file that is written is not read: it may name methods that went.
EMPTY = ModuleType("pyrite.tensor.functions")
EMPTY.__all__ = []  # type: ignore[attr-defined]
sys.modules[EMPTY.__name__] = EMPTY

from pyrite.op import TensorBase  # noqa: E402
from pyrite.tensor.spelling import Spellings  # noqa: E402
from pyrite.tensor.tensor import Tensor  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "src" / "pyrite" / "tensor" / "functions.py"

#: Classes of Tensor's chain whose methods are no functions.
NO_FAMILIES = (Tensor, TensorBase, Spellings, object)
#: Methods whose function is another, of the same name or none.
METHODS_ONLY = {"astype", "expand", "reshape", "select_assign", "where"}
#: Spellings that are functions too.
SPELLINGS = {
    "amax", "amin", "bitwise_not", "clamp", "clamp_max", "clamp_min", "cumprod", "cumsum", "div",
    "gather", "index_select", "logcumsumexp", "movedim", "mul", "neg", "sub", "swapaxes",
    "unsqueeze", "var_bias", "var_mean_bias",
}  # fmt: skip
#: Public functions that are no ops; `pyrite` itself imports two of them.
NO_FUNCTIONS = {"random_stream", "read", "replaying_draws"}
#: What is exported and is not marked as public, because it raises no error at the user's line.
MORE = {
    "inspection": {"FloatInfo", "IntegerInfo"},
    "namespace": {"NamespaceInfo", "__array_api_version__", "__array_namespace_info__"},
    "printing": {"check_closeness", "set_print_options"},
}
#: Constants of the array API standard.
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")

HEAD = '''\
"""Ops as functions, under the names of the array API standard: ``pyrite.exp(x)`` is ``x.exp()``.

What takes several tensors or none, as ``concat`` and ``zeros``, is a function only.
Written by scripts/functions.py from the ops that tensors have: do not edit.
"""

import math
'''


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit status."""
    text = wanted()
    if PATH.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PATH.relative_to(ROOT)} is out of date; run scripts/functions.py")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


def wanted() -> str:
    """Return the text that the file should have."""
    functions, methods = functions_by_module(), methods_of_ops()
    imports = [
        f"from pyrite.tensor.{module} import {name} as {name}"
        for module, names in sorted(functions.items())
        for name in sorted(names, key=order)
    ]
    exported = {*CONSTANTS, *methods, *(name for names in functions.values() for name in names)}
    quoted = ", ".join(f'"{name}"' for name in sorted(exported, key=order))
    lines = [
        HEAD,
        *sorted([*imports, "from pyrite.tensor.tensor import Tensor"], key=module_of),
        "",
        "#: Constants of the array API standard.",
        "e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None",
        "",
        *(f"{name} = Tensor.{name}" for name in sorted(methods)),
        "",
        "__all__ = [",
        *textwrap.wrap(f"{quoted},", 100, initial_indent="    ", subsequent_indent="    "),
        "]  # fmt: skip",
    ]
    return "\n".join(lines) + "\n"


def methods_of_ops() -> set[str]:
    """Return the methods of tensors that are functions too."""
    families = [cls for cls in Tensor.__mro__ if cls not in NO_FAMILIES]
    found = {
        name
        for family in families
        for name, method in vars(family).items()
        if inspect.isfunction(method)
        and not name.startswith("_")
        and not inspect.iscoroutinefunction(inspect.unwrap(method))
    }
    return (found - METHODS_ONLY) | SPELLINGS


def functions_by_module() -> dict[str, set[str]]:
    """Return the public functions of each module of pyrite.tensor."""
    package = importlib.import_module("pyrite.tensor")
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        if f"pyrite.tensor.{info.name}" == EMPTY.__name__:
            continue
        module = importlib.import_module(f"pyrite.tensor.{info.name}")
        public = {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and hasattr(value, "__wrapped__")
            and not name.startswith("_")
        }
        names = (public - NO_FUNCTIONS) | MORE.get(info.name, set())
        if names:
            found[info.name] = names
    return found


def order(name: str) -> tuple[object, ...]:
    """Return by what names are sorted: classes first, and log2 before log10."""
    parts = re.split(r"(\d+)", name)
    return (not name[0].isupper(), [(int(p), "") if p.isdigit() else (10**9, p) for p in parts])


def module_of(line: str) -> str:
    """Return the module from which a line imports."""
    return line.split()[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
