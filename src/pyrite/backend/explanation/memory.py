"""`memory_report`: how much memory the devices have in use, by which tensors, of which lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from pyrite.backend.device import DeviceLike, device, opened
from pyrite.backend.fusion.decorator import FUSED
from pyrite.backend.memory import LARGE, DeviceMemory, ProgramMemory, TensorMemory, counted
from pyrite.backend.protocol import Backend
from pyrite.op import public
from pyrite.types import TensorType

#: So many lines of a table are shown.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """What `memory_report` found, device by device.  Printed it is tables."""

    devices: tuple[DeviceMemory, ...]

    def to_json(self) -> str:
        """Return everything as JSON: bytes, shapes, dtypes, lines."""
        found = [
            {
                "device": of.device, "live": of.live, "reserved": of.reserved, "peak": of.peak,
                "tensors": [_facts(t) for t in of.tensors],
                "programs": [_program_facts(p) for p in of.programs],
            }
            for of in self.devices
        ]  # fmt: skip
        return json.dumps(found, indent=1)

    def __str__(self) -> str:
        # Imported here for its weight: a program that prints none needs no tables.
        from rich.console import Console

        out = StringIO()
        width = shutil.get_terminal_size().columns
        console = Console(file=out, width=width, color_system=None, highlight=False)
        for of in self.devices:
            console.print(
                f"{of.device}: {_mib(of.live)} live, {_mib(of.peak)} at most, "
                f"{_mib(of.reserved)} reserved",
                markup=False,
            )
            _print(console, of.tensors)
            for program in [p for p in of.programs if p.planned >= LARGE][:1]:
                console.print(_sentence(program))
                _print(console, program.largest)
        return out.getvalue().rstrip()


@public
def memory_report(*devices: DeviceLike) -> MemorySummary:
    """Return how much memory devices have in use, and the largest tensors with their lines.

    By default those are all that were used so far and know it.  Bytes are ``live`` in tensors that
    somebody holds, a tape among them, ``peak`` at most at a time, and ``reserved`` from the system.
    Types and lines are those of tensors of 4 MiB and more, 16 on GPUs; of all in a block of
    `explain`.  Under `Fusion` the largest programs are told too: what is in memory within a run
    when it takes most.  Nothing waits, and what only was recorded takes no memory yet.

    >>> import pyrite
    >>> x = pyrite.ones((1024, 1024), device="cpu") * 2
    >>> found = pyrite.memory_report("cpu").devices[0].tensors[0]
    >>> found.nbytes, found.type.shape
    (4194304, (1024, 1024))
    """
    backends = [device(of).backend.root for of in devices] or [*dict.fromkeys(_roots())]
    return MemorySummary(tuple([m for b in backends if (m := _of(b)) is not None]))


def _roots() -> list[Backend]:
    return [backend.root for backend in (*opened(), *FUSED)]


def _of(root: Backend) -> DeviceMemory | None:
    """Return the memory of a device, with the programs of all that fuse there."""
    found = root.memory()
    if found is None:
        return None
    programs = [p for b in list(FUSED) if b.root is root for p in b.recorded.largest]
    return replace(found, programs=tuple(sorted(programs, key=lambda p: -p.planned)))


def _print(console: Any, tensors: Sequence[TensorMemory]) -> None:
    from rich.table import Table
    from rich.text import Text

    alike: dict[tuple[TensorType | None, str | None], list[int]] = {}
    for t in tensors:
        alike.setdefault((t.type, t.line), []).append(t.nbytes)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("MiB", "tensors"):
        table.add_column(name, justify="right")
    for name in ("dtype", "shape", "line"):
        table.add_column(name, overflow="fold")
    groups = sorted(alike.items(), key=lambda item: -sum(item[1]))
    for (type, line), sizes in groups[:SHOWN]:
        dtype, shape = ("", "") if type is None else (type.dtype.name, str(type.shape))
        total = f"{sum(sizes) / 2**20:.2f}"
        table.add_row(total, str(len(sizes)), dtype, Text(shape), Text(_short(line)))
    if groups:
        console.print(table)
    if left := [n for _, sizes in groups[SHOWN:] for n in sizes]:
        console.print(f"and {len(left)} tensors of other lines, {_mib(sum(left))} in all")


def _sentence(program: ProgramMemory) -> str:
    over = f"{program.planned / program.least:.2f} times " if program.least else ""
    return (
        f"a program of {counted(program.launches)} takes {_mib(program.planned)}, {over}the "
        f"{_mib(program.least)} that are in use at once, the largest of them:"
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.1f} MiB"


def _short(line: str | None) -> str:
    path, _, number = (line or "").rpartition(":")
    return f"{Path(path).name}:{number}" if path else line or ""


def _facts(t: TensorMemory) -> dict[str, Any]:
    known = {} if t.type is None else {"dtype": t.type.dtype.name, "shape": t.type.shape}
    return {"bytes": t.nbytes, **known, "line": t.line}


def _program_facts(p: ProgramMemory) -> dict[str, Any]:
    return {
        "launches": p.launches, "planned": p.planned, "least": p.least,
        "largest": [_facts(t) for t in p.largest],
    }  # fmt: skip
