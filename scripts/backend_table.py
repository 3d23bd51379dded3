"""Writes what each backend can do, from its class, into README.md and docs/backends.md.

    python scripts/backend_table.py            writes both
    python scripts/backend_table.py --check    says which is out of date, and exits with 1

It needs every package that a backend needs, and no device.  What stands between the two markers of
each file is made here; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from pyrite.backend.device import BACKENDS, Entry
from pyrite.backend.protocol import Backend
from pyrite.op import Op
from pyrite.testing import all_records
from pyrite.testing.support import families, support_of
from pyrite.types import DTYPES

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- made by scripts/backend_table.py -->"
END = "<!-- end of what was made -->"

Classes = dict[str, type[Backend]]


def main(arguments: list[str]) -> int:
    """Write the files, or check them; return the exit status."""
    stale = [path for path, text in wanted().items() if path.read_text() != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run scripts/backend_table.py")
        return bool(stale)
    for path in stale:
        path.write_text(wanted()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def wanted() -> dict[Path, str]:
    """Return the text that each file should have."""
    classes = {name: entry.load() for name, entry in BACKENDS.items()}
    tables = {"README.md": features(classes), "docs/backends.md": by_op(classes)}
    return {ROOT / name: inserted(ROOT / name, table) for name, table in tables.items()}


def inserted(path: Path, made: str) -> str:
    """Return the text of a file with what was made between its markers."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


# ---- backends by features ----


def features(classes: Classes) -> str:
    """Return the table of backends by features."""
    rows = [
        row("devices", (devices(name, BACKENDS[name]) for name in classes)),
        row("needs", (need(BACKENDS[name]) for name in classes)),
        row("dtypes", map(dtypes, classes.values())),
        *(
            row(what, (counted(cls, ops) for cls in classes.values()))
            for what, ops in kinds().items()
        ),
        row("ops that may run in NumPy", (len(cls.falls_back) for cls in classes.values())),
        row("`Autodiff`, to any order", ("yes" for _ in classes)),
        row("shares memory with NumPy, both ways", map(shares, classes.values())),
        *(row(what, map(overrides(method), classes.values())) for what, method in MORE.items()),
    ]
    return "\n".join([*header("", classes), *rows])


#: What else a backend may do, by the method that it then has of its own.
MORE = {
    "works while Python goes on": "synchronize",
    "gives PyTorch its memory": "export",
    "an application's buffers and kernels": "renew",
}


def kinds() -> dict[str, list[Op]]:
    """Return the ops by how they are declared."""
    ops = list(all_records().values())
    return {
        "elementwise ops, native": [op for op in ops if op.is_elementwise],
        "other primitives, native": [
            op for op in ops if not op.is_elementwise and not op.is_composite
        ],
        "composites kept whole": [op for op in ops if op.is_composite],
    }


def counted(cls: type[Backend], ops: list[Op]) -> str:
    """Return how many of the ops are native, of how many."""
    return f"{sum(support_of(cls, op) == 'native' for op in ops)} / {len(ops)}"


def devices(name: str, entry: Entry) -> str:
    """Return the names of a backend's devices."""
    found = [f"`{name}:{kind}`" if kind else f"`{name}`" for kind in entry.kinds]
    return ", ".join([*found, f"`{name}:1`"] if entry.numbered == ("",) else found)


def need(entry: Entry) -> str:
    """Return what pip is to install for a backend, and where it can."""
    if entry.install is None:
        return ""
    package = entry.install.strip("'")
    return f"`{package}`, {entry.only}" if entry.only else f"`{package}`"


def dtypes(cls: type[Backend]) -> str:
    """Return how many dtypes a backend has, and which it lacks."""
    lacking = [d.name for d in DTYPES if d not in cls.dtypes]
    return f"all but {', '.join(lacking)}" if lacking else f"all {len(DTYPES)}"


def shares(cls: type[Backend]) -> str:
    """Return where a backend shares memory with NumPy; a test looks at the addresses."""
    return "" if not cls.shares_with_numpy else "`torch:cpu`" if cls.__name__ == "Torch" else "yes"


def overrides(method: str) -> Callable[[type[Backend]], str]:
    """Return the function that says whether a class has a method of its own."""
    return lambda cls: "yes" if getattr(cls, method) is not getattr(Backend, method) else ""


# ---- backends by ops ----


def by_op(classes: Classes) -> str:
    """Return a table of every family of ops: what each backend does of each op."""
    sections = [by_family(name, ops, classes) for name, ops in families().items()]
    return "\n\n".join(["", *sections, ""])


def by_family(name: str, ops: list[Op], classes: Classes) -> str:
    """Return the table of one family."""
    rows = [row(f"`{op.name}`", (told(cls, op) for cls in classes.values())) for op in ops]
    return "\n".join([f"## {name.capitalize()}", "", *header("op", classes), *rows])


def told(cls: type[Backend], op: Op) -> str:
    """Return how a backend runs an op, with the inputs for which it is in NumPy."""
    support = support_of(cls, op)
    if support == "in part":
        return f"NumPy for {cls.falls_back[op.name]}" if op.name in cls.falls_back else "in part"
    return f"**{support}**" if support == "NumPy" else support


# ---- markdown ----


def header(first: str, classes: Classes) -> list[str]:
    """Return the two lines over the rows."""
    return [row(first, classes), "|" + " --- |" * (len(classes) + 1)]


def row(first: str, cells: Iterable[object]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join([first, *map(str, cells)])} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
