"""Writes by what each op runs, read from its record and from the backends, into docs/design.

    python scripts/rule_table.py            writes docs/design/rule-classes.md
    python scripts/rule_table.py --check    says whether it is out of date, and then exits with 1

The examples of each op are recorded as kernels of a device that runs nothing, so no device is
needed.  What stands between the two markers of the file is made here; a test compares.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.lowering import LOWERINGS
from pyrite.backend.cube.registry import REASONS
from pyrite.backend.device import BACKENDS, Device
from pyrite.backend.means import BODY, means_chosen
from pyrite.errors import PyriteError
from pyrite.kernel.machine import Machine
from pyrite.op import Op
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.testing import Example, all_records, examples
from pyrite.types import float32

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "design" / "rule-classes.md"
BEGIN = "<!-- made by scripts/rule_table.py -->"
END = "<!-- end of what was made -->"

#: By how much what is its own is faster: the least and the greatest ratio, by device and op.
RATIOS = json.loads((ROOT / "docs" / "design" / "own-ratios.json").read_text())

#: Backends with native implementations, and the device on which they are measured.
NATIVE = {"torch": "torch:cpu", "candle": "candle"}


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit status."""
    text = wanted()
    if PATH.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PATH.relative_to(ROOT)} is out of date; run scripts/rule_table.py")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


def wanted() -> str:
    """Return the text that the file should have."""
    before, _, rest = PATH.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


# ---- by what ops run ----


class Idle(InterpreterRuntime):
    """A device that runs no kernel: for the choice of kernels alone."""

    name = "idle"

    def launch(self, *_: Any) -> None:
        """Run nothing."""


def means_by_op() -> dict[str, set[str]]:
    """Return by what the examples of each op run on the devices with Pyrite's own kernels."""
    device = Device(CubeBackend(Idle(Machine.gpu())))
    for example in examples():
        if not example.op.sync:
            record(example, device)
    found: dict[str, set[str]] = {}
    for choice in means_chosen():
        if choice.device == Idle.name:
            found.setdefault(choice.op, set()).add(choice.means)
    return found


def record(example: Example, device: Device) -> None:
    """Have the kernels of an example chosen, as far as it goes without values."""
    # A composite that waits for a count gets what lies in memory that nobody wrote.
    with suppress(PyriteError, ValueError):
        example.run(float32, device)


def class_of(op: Op, means: set[str]) -> str:
    """Return the class of an op, or why it has none."""
    if op.rule_class is not None:
        return op.rule_class
    if op.is_composite:
        return "row" if BODY in means else "its body's ops"
    return "none: waits for values" if op.sync else "none"


def own_of(op: Op) -> list[str]:
    """Return for each kind of backend whether it has something of its own for an op."""
    classes = [BACKENDS[name].load() for name in NATIVE]
    natives = [
        own_on(op, cls._implementations, device)
        for cls, device in zip(classes, NATIVE.values(), strict=True)
    ]
    return [own_on(op, LOWERINGS, "cpu", "wgpu"), *natives]


def own_on(op: Op, known: Collection[str], *devices: str) -> str:
    """Return whether there is something of an op's own, and by how much it is faster."""
    if op.name not in known:
        return ""
    found = [(d, RATIOS.get(d, {}).get(op.name)) for d in devices]
    ratios = [
        f"{f'{device} ' if len(devices) > 1 else ''}{least:g} to {greatest:g}"
        for device, (least, greatest) in ((d, r) for d, r in found if r)
    ]
    return f"own: {', '.join(ratios)}" if ratios and op.is_classed else "own"


# ---- text ----


def table() -> str:
    """Return the summary and the table of all ops."""
    means, records = means_by_op(), all_records()
    classes = {name: class_of(op, means.get(name, set())) for name, op in records.items()}
    rows = [
        line(f"`{name}`", "composite" if records[name].is_composite else "primitive", found,
             *own_of(records[name]))
        for name, found in classes.items()
    ]  # fmt: skip
    head = line("op", "kind", "class", "cpu, wgpu, cuda", *NATIVE)
    return "\n".join(
        [*summary(classes), "", head, line(*["---"] * (4 + len(NATIVE))), *rows, "", *reasons()]
    )


def reasons() -> list[str]:
    """Return why there are lowerings under the names of ops."""
    return [
        line("lowered under its name on cpu, wgpu, cuda", "why"),
        line("---", "---"),
        *(line(f"`{name}`", REASONS[name]) for name in sorted(REASONS)),
    ]


def summary(classes: dict[str, str]) -> list[str]:
    """Return how many ops each class has."""
    kinds, records = ("primitive", "composite"), all_records()
    counts = Counter((found, kinds[records[name].is_composite]) for name, found in classes.items())
    found = sorted({name for name, _ in counts}, key=lambda n: (n.startswith(("none", "its")), n))
    return [
        line("class", "primitives", "composites"),
        line("---", "---", "---"),
        *(line(name, *(counts[name, kind] or "" for kind in kinds)) for name in found),
    ]


def line(*cells: Any) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
