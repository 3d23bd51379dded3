"""Kernels of applications beside their peers: the same programs, in turns, by medians.

    python benchmarks/kernel_table.py --peers /tmp/peers/bin/python

``--peers`` is a Python that has the peers, as far as they install (``pip install numba taichi
warp-lang wgpu``): they need not stand in one environment with Pyrite.  Each library has a process
for each device; they compute in turns, so that a busy machine is busy for all.  What is not there
says so in a line of its own.

Beside ``cpu`` stand numba, Taichi and Warp on the processor, all with as many threads as
``--threads`` says (Warp has one); beside ``wgpu`` kernels written in WGSL by hand and run by
wgpu-py alone, Taichi by Vulkan, and Warp where there is CUDA.  With ``--devices cpu`` or ``wgpu``
one half is told.  Compiling is in no time: each case is run, and compared with NumPy, before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernel_cases import cases

HERE = Path(__file__).parent

#: Of each device of Pyrite, its peers: a name, the module and the device that it is asked for.
PEERS = {
    "cpu": (("numba", "numba", "cpu"), ("taichi", "taichi", "cpu"), ("warp", "warp", "cpu")),
    "wgpu": (
        ("raw wgpu", "wgpu", "wgpu"), ("taichi vk", "taichi", "vulkan"), ("warp", "warp", "cuda"),
    ),
}  # fmt: skip


#: Seconds of a case that is run nine times in a turn, and not three: the first run of each finds
#: the caches full of what others left.
SHORT = 0.005


class Worker:
    """The process of one library on one device."""

    def __init__(self, python: str, module: str, device: str, threads: int) -> None:
        names = ("PYRITE_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "TI_NUM_THREADS")
        # Threads of OpenMP that wait for work would take the processor from those that have some.
        of_threads = dict.fromkeys(names, str(threads)) | {"OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen(
            [python, "kernel_worker.py", f"kernel_{module}", device], cwd=HERE, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | of_threads,
        )  # fmt: skip
        #: Why there is nothing of it; empty where there is.
        self.absence: str = self._line() or "its process ended"

    def _line(self) -> str | None:
        assert self._process.stdout is not None
        found: str | None = json.loads(self._process.stdout.readline() or "null")
        return found

    def times(self, case: str, runs: int) -> list[float]:
        """Return seconds of so many runs; nothing where the library has not the case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"case": case, "runs": runs}) + "\n")
        self._process.stdin.flush()
        found: list[float] | None = json.loads(self._process.stdout.readline() or "null")
        return found or []

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def tell(device: str, options: argparse.Namespace) -> None:
    """Print the table of one device, in milliseconds."""
    threads = options.threads
    asked = {device: Worker(sys.executable, "pyrite", device, threads)}
    for name, module, of in PEERS[device]:
        asked[name] = Worker(options.peers, module, of, threads)
    workers = {name: worker for name, worker in asked.items() if worker.absence == "ready"}
    for name in asked.keys() - workers.keys():
        print(f"{name} is absent beside {device}: {asked[name].absence}")
    print(f"{'ms':<14}" + "".join(f"{name:>10}" for name in workers) + f"   {device}/best peer")
    for case in cases():
        if options.only in case.name:
            found = timed(workers, case.name, options.turns)
            print(f"{case.name:<14}" + row(found, list(workers), device), flush=True)
    for worker in workers.values():
        worker.close()


def timed(workers: dict[str, Worker], case: str, turns: int) -> dict[str, float]:
    """Return the median of each library that has a case, in milliseconds."""
    found: dict[str, list[float]] = {name: [] for name in workers}
    first = [min(times) for worker in workers.values() if (times := worker.times(case, 1))]
    runs = 9 if min(first) < SHORT else 3
    for _ in range(turns):
        for name, worker in workers.items():
            found[name] += worker.times(case, runs)
    return {name: statistics.median(times) * 1e3 for name, times in found.items() if times}


def row(found: dict[str, float], names: Sequence[str], device: str) -> str:
    """Return the cells of a case, and how many times the best peer's time the device took."""
    cells = [f"{found[n]:10.2f}" if n in found else f"{'-':>10}" for n in names]
    peers = [time for name, time in found.items() if name != device]
    return "".join(cells) + (f"{found[device] / min(peers):10.2f}" if peers else "")


def main() -> None:
    """Print a table for each device."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--devices", default="cpu,wgpu")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for device in options.devices.split(","):
        tell(device, options)


if __name__ == "__main__":
    main()
