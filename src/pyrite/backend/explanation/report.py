"""`explain`: which kernels a block ran, for which lines, how long, and what it waited for."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Literal

from pyrite.backend.explanation.bandwidth import copy_bandwidth
from pyrite.backend.explanation.launched import Launched, listeners
from pyrite.backend.explanation.operations import peak_operations
from pyrite.backend.explanation.trace import chrome_event
from pyrite.backend.fallback import fallbacks
from pyrite.backend.fusion.decorator import FUSED
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.kernel import Kernel
from pyrite.kernel.text import to_text
from pyrite.runtime.protocol import Runtime
from pyrite.synchronization import sync_count

#: So many kernels are named that read what one writes.
NAMED = 2


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel with all its runs for the same ops and lines.

    ``ops`` are those that it computes, as they were called; ``lines`` the user's, as file:line;
    ``seconds`` is the sum of all ``launches``, ``nbytes`` the memory of one.  ``taken_by`` says why
    fusion ended here: the kernels that read what it writes, and "held" for what a handle has.
    """

    name: str
    device: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    launches: int
    seconds: float
    nbytes: int
    kernel: Kernel = field(repr=False)
    taken_by: tuple[str, ...] = ()
    #: Whether the seconds are of the device's own clock, without the launch.
    has_device_time: bool = False
    #: About how many operations on floats one makes: additions, products, quotients and roots.
    operations: float = 0.0
    _runtime: Runtime | None = field(default=None, repr=False)

    @property
    def source(self) -> str:
        """The kernel as text of the IR."""
        return to_text(self.kernel)

    @property
    def device_source(self) -> str:
        """What it is compiled from on its device: WGSL, or LLVM IR."""
        return self.source if self._runtime is None else self._runtime.source(self.kernel)

    @property
    def share(self) -> float:
        """How near it comes to its roof: to what the device can do at most of what limits it.

        The roofline model: a kernel takes at least as long as a copy of its memory, and as its
        operations at the peak of the device; both are measured when this is first asked.  Above 1
        its memory was in a cache.  Williams, Waterman and Patterson, "Roofline", 2009.
        """
        return max(self._shares)

    @property
    def roof(self) -> Literal["memory", "operations"]:
        """What limits it: its memory, or its operations."""
        of_memory, of_operations = self._shares
        return "memory" if of_memory >= of_operations else "operations"

    @property
    def _shares(self) -> tuple[float, float]:
        if self._runtime is None:
            return 0.0, 0.0
        peak = peak_operations(self._runtime)
        return (
            self.bytes_per_second / copy_bandwidth(self._runtime),
            self.operations_per_second / peak,
        )

    @property
    def operations_per_second(self) -> float:
        """How fast it computed, about."""
        return self.launches * self.operations / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """How fast it went through its memory: beside the device's bandwidth, what is left."""
        return self.launches * self.nbytes / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Explanation:
    """What `explain` found: kernels in the order of the program, and what was waited for.

    ``syncs`` are reads that waited, ``fallbacks`` ops that NumPy ran.  Under `Fusion` ``plans`` are
    the programs that were made, ``hits`` the runs of those that were there, and ``as_ops`` how
    often calls ran one by one, as they were new.  Printed it is a table.
    """

    launched: list[Launched] = field(default_factory=list, repr=False)
    syncs: int = 0
    fallbacks: dict[tuple[str, str], int] = field(default_factory=dict)
    plans: int = 0
    hits: int = 0
    as_ops: int = 0

    @property
    def kernels(self) -> list[KernelUse]:
        """Every kernel in the order in which they first ran: that of a program is always the same.

        The one that took longest is ``max(found.kernels, key=lambda use: use.seconds)``.
        """
        groups: dict[tuple[object, ...], list[Launched]] = {}
        for one in self.launched:
            key = (one.device, one.kernel.digest, one.ops, one.lines, one.taken_by)
            groups.setdefault(key, []).append(one)
        return [
            KernelUse(
                of[0].kernel.name, of[0].device, of[0].ops, of[0].lines, len(of),
                sum(one.seconds for one in of), max(one.nbytes for one in of), of[0].kernel,
                of[0].taken_by, all(one.has_device_time for one in of),
                max(one.operations for one in of), of[0].runtime,
            )
            for of in groups.values()
        ]  # fmt: skip

    @property
    def seconds(self) -> float:
        """The time of all kernels, each alone."""
        return sum(one.seconds for one in self.launched)

    def to_json(self) -> str:
        """Return everything but the kernels' text as JSON."""
        kernels = [
            {
                "name": use.name, "device": use.device, "ops": use.ops, "lines": use.lines,
                "launches": use.launches, "seconds": use.seconds, "bytes": use.nbytes,
                "operations": use.operations, "share": use.share, "roof": use.roof,
                "taken_by": use.taken_by,
                "has_device_time": use.has_device_time,
            }
            for use in self.kernels
        ]  # fmt: skip
        fallen = {f"{device}: {op}": n for (device, op), n in self.fallbacks.items()}
        counts = {
            "syncs": self.syncs, "plans": self.plans, "hits": self.hits, "as_ops": self.as_ops,
        }  # fmt: skip
        return json.dumps({"kernels": kernels, **counts, "fallbacks": fallen}, indent=1)

    def chrome_trace(self) -> str:
        """Return the launches in order as JSON for chrome://tracing or Perfetto."""
        first = self.launched[0].start if self.launched else 0.0
        events = [
            chrome_event(
                one.kernel.name, one.device, one.device, one.start - first, one.seconds,
                ops=one.ops, lines=one.lines, bytes=one.nbytes, taken_by=one.taken_by,
            )
            for one in self.launched
        ]  # fmt: skip
        return json.dumps({"traceEvents": events})

    def __str__(self) -> str:
        # Imported here for their weight: a program that prints none needs no tables.
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("ms", "runs", "speed", "of roof"):
            table.add_column(name, justify="right")
        for name in ("kernel", "ops", "line", "written for"):
            table.add_column(name, overflow="fold")
        for use in self.kernels:
            table.add_row(
                f"{use.seconds * 1e3:.3f}",
                str(use.launches),
                _speed(use),
                f"{use.share:.0%}",
                Text(use.name),
                Text(_counted(use.ops)),
                Text(", ".join(_short(line) for line in use.lines)),
                Text(_few(use.taken_by)),
            )
        waited = f"{len(self.launched)} launches, {self.seconds * 1e3:.3f} ms each alone, "
        waited += f"{self.plans} new programs, {self.hits} known, "
        if self.as_ops:
            waited += f"{self.as_ops} ran as ops: new, "
        waited += f"{self.syncs} reads that waited"
        for (device, op), count in self.fallbacks.items():
            waited += f", {op} {count} times in NumPy for {device}"
        out = StringIO()
        console = Console(file=out, width=shutil.get_terminal_size().columns, color_system=None)
        console.print(table)
        console.print(Text(waited))
        return out.getvalue().rstrip()


def _speed(use: KernelUse) -> str:
    """Return how fast it is in what limits it."""
    if use.roof == "memory":
        return f"{use.bytes_per_second / 1e9:.1f} GB/s"
    return f"{use.operations_per_second / 1e9:.1f} GF/s"


def _counted(ops: tuple[str, ...]) -> str:
    counts = Counter(ops)
    return " ".join(f"{op}×{n}" if n > 1 else op for op, n in counts.items())


def _few(names: tuple[str, ...]) -> str:
    """Return names, of many the first ones."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _short(line: str) -> str:
    path, _, number = line.rpartition(":")
    return f"{Path(path).name}:{number}"


def _recorded() -> dict[int, RecordedCalls]:
    """Return what was recorded on each device with fusion that there is, by identity."""
    return {id(b.recorded): b.recorded for b in list(FUSED)}


def _runs(of: Iterable[RecordedCalls]) -> Counter[str]:
    """Return how often calls ran, how, and what was made for that."""
    counts: Counter[str] = Counter()
    for recorded in of:
        new, made = recorded.new_runs, recorded.compiled
        counts.update(new=new, plans=made)
        counts["hits"] += recorded.runs - new - (made - recorded.compiled_ahead)
    return counts


@contextmanager
def explain() -> Iterator[Explanation]:
    """Tell which kernels the block runs on `cpu` and `wgpu`, for which ops and lines, how long.

    Each kernel is waited for and timed alone, so the block is slower than without.  On `wgpu` times
    are the device's own, by timestamp queries where it has them; on `cpu` launch and wait are in
    them, and short kernels seem longer than they are.  A gradient's line is that of the call
    that took it.  Kernels of an application are not seen, those of other threads are.

    >>> import pyrite
    >>> x = pyrite.ones((64, 64), device=pyrite.fusion("cpu", after=0))
    >>> with pyrite.explain() as e:
    ...     y = ((x * 2 + 1).tanh() * x).sum(-1).numpy()
    >>> [use.ops for use in e.kernels]
    [('full', 'multiply', 'add', 'tanh', 'multiply', 'sum')]
    """
    found = Explanation()
    before, fallen, recorded = sync_count(), fallbacks(), _recorded()
    ran = _runs(recorded.values())
    listeners.append(found.launched.append)
    try:
        yield found
    finally:
        # By identity: two explanations may have told the same so far.
        listeners[:] = [x for x in listeners if getattr(x, "__self__", None) is not found.launched]
        found.syncs = sync_count() - before
        # Held from the start: a device that is gone by now has run what it ran.
        now = _runs({**recorded, **_recorded()}.values())
        now.subtract(ran)
        found.plans, found.hits, found.as_ops = now["plans"], now["hits"], now["new"]
        found.fallbacks = {
            k: n - fallen.get(k, 0) for k, n in fallbacks().items() if n > fallen.get(k, 0)
        }
