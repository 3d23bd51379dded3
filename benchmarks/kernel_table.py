"""Kernels of applications beside Taichi and numba: the same programs, in turns, by medians.

    python benchmarks/kernel_table.py --peers /tmp/peers/bin/python

``--peers`` is a Python that has the peers, as far as they install (``pip install taichi numba``):
they need not stand in one environment with Pyrite.  Each library has a process; they compute in
turns, so that a busy machine is busy for all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from kernel_cases import cases

HERE = Path(__file__).parent


class Worker:
    """The process of one library."""

    def __init__(self, python: str, module: str, device: str) -> None:
        self._process = subprocess.Popen(
            [python, "kernel_worker.py", module, device], cwd=HERE, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def times(self, case: str, runs: int) -> list[float]:
        """Return seconds of so many runs; nothing where the library has not the case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"case": case, "runs": runs}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line or "null") or []

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def main() -> None:
    """Print the table, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--devices", default="cpu,wgpu")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    workers = {d: Worker(sys.executable, "kernel_pyrite", d) for d in options.devices.split(",")}
    workers |= {n: Worker(options.peers, f"kernel_{n}", "cpu") for n in ("numba", "taichi")}
    print(f"{'ms':<14}" + "".join(f"{name:>10}" for name in workers) + "   cpu/best peer")
    for case in cases():
        if options.only not in case.name:
            continue
        found: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(options.turns):
            for name, worker in workers.items():
                found[name] += worker.times(case.name, 3)
        middle = {n: statistics.median(t) * 1e3 for n, t in found.items() if t}
        cells = [f"{middle[n]:10.2f}" if n in middle else f"{'-':>10}" for n in workers]
        peers = [middle[n] for n in ("numba", "taichi") if n in middle]
        ratio = f"{middle['cpu'] / min(peers):10.2f}" if peers and "cpu" in middle else ""
        print(f"{case.name:<14}" + "".join(cells) + ratio, flush=True)
    for worker in workers.values():
        worker.close()


if __name__ == "__main__":
    main()
