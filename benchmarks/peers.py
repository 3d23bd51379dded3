"""Pyrite's kernels beside PyTorch, torch.compile and jax.jit: who wins, and by how much.

    python benchmarks/peers.py [--device cpu] [--only attention] [--json FILE] [--clock process]
    taskset -c 0,2 python benchmarks/peers.py --listed

The device is ``cpu`` or ``wgpu``; the peers of the latter run on CUDA.  Peers that are not here are
left out, and torch.compile is asked for what a compiler may do better than the library's own
kernels, as long as its compiling has not taken ``--compiling`` seconds in all.

Each case is one function (`peer_cases`), whose results are compared with PyTorch's first: a peer
that computes something else, as XLA does where it takes subnormal numbers for 0, is named at the
end and not counted.  Then all take turns.  Printed are medians in microseconds; ``best`` is the
best peer's time by ours, so that above 1 Pyrite is the faster; the limit is what the machine needs
at least, bytes over the bandwidth of a copy of as many or operations over the rate of the fastest
product, both measured here; ``of it`` is the limit by our time.  At the end stand the cases whose
``best`` is below 0.9.

``--listed`` times the cases that were behind when they were last counted (`LISTED`), beside the
peers that compile in no time: on two quiet cores in less than a minute.

On a machine that others use take one thread and the time of the processor, which counts no waiting:
OMP_NUM_THREADS=1 PYRITE_THREADS=1 taskset -c 0 ... --clock process.  It counts all threads, also
XLA's that still spin when others are timed: leave JAX out there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peer_cases import Case, Function, counts, groups, maps, rows
from peer_networks import attention, depthwise, dropout, products, recurrent

import pyrite
from pyrite.types import Array

CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter, "process": time.process_time,
}  # fmt: skip
FAMILIES: tuple[Callable[[bool], Iterator[Case]], ...] = (
    maps, rows, groups, products, depthwise, attention, recurrent, dropout, counts,
)  # fmt: skip
#: What a ratio to the best peer must not be below.
BOUND = 0.9
#: The cases of ``cpu`` that were below it, whole names.
LISTED = frozenset({
    "exp scores", "product 8", "product 48", "product 64", "(32,64)·(64,64)ᵀ",
    "(128,784)·(784,512)ᵀ", "(128,784)·(784,512)ᵀ + bias", "at[].add int", "at[].add float",
    "group norm channels last", "LSTM 1×512, 50×32", "LSTM 1×512, 50×32, step",
    *(f"torch:cpu {name}" for name in (
        "dropout 64×128, step", "LSTM 1×512, 50×32", "LSTM 1×512, 50×32, step",
        "RNN 2×200, 35×20", "GRU 1×512, 50×32",
    )),
})  # fmt: skip
#: Seconds of one sample, at least, and of one of a GPU, which takes calls ahead: of few calls most
#: is the wait at their end.  And seconds between peers, so that nobody's threads still spin.
SAMPLE, GPU_SAMPLE, PAUSE = 0.004, 0.02, 0.003
#: Seconds that the samples of a peer may take, of a case.
LONGEST = 0.5
#: Bytes of copies whose bandwidths are measured.
COPIES = (1 << 18, 1 << 22, 1 << 26)


class Peer:
    """A library on a device: how it holds arrays, runs functions, and is waited for."""

    name: str

    def hold(self, array: Array) -> Any:
        """Return the array as this library's tensor, with the same strides where it has them."""
        raise NotImplementedError

    def prepare(self, function: Function, inputs: Sequence[Any]) -> Callable[[], Any]:
        """Return a call of the function."""
        return lambda: function(*inputs)

    def wait(self) -> None:
        """Wait until all that was called is done."""


class Pyrite(Peer):
    """Ours, on a device of that name."""

    name = "pyrite"

    def __init__(self, device: str) -> None:
        self.device = pyrite.device(device)

    def hold(self, array: Array) -> Any:
        """Return a tensor on the device."""
        if array.ndim == 4 and not array.flags.c_contiguous:  # channels last
            rows = np.ascontiguousarray(array.transpose(0, 2, 3, 1))
            return pyrite.tensor(rows, device=self.device).permute_dims((0, 3, 1, 2))
        return pyrite.tensor(array, device=self.device)

    def wait(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


class Torch(Peer):
    """PyTorch, eager."""

    name = "torch"

    def __init__(self, *, is_gpu: bool) -> None:
        # One process that compiles: those of a pool take longer to start than the cases to compile.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        import torch

        self.torch, self.is_gpu = torch, is_gpu
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
        torch.backends.cuda.matmul.allow_tf32 = False  # which rounds the factors
        torch.backends.cudnn.allow_tf32 = False

    def hold(self, array: Array) -> Any:
        """Return a tensor in memory of its own."""
        found = self.torch.from_numpy(np.require(array, requirements="W"))
        return found.cuda() if self.is_gpu else found.clone()

    def wait(self) -> None:
        """Wait for the GPU; on a host a call returns when it is done."""
        if self.is_gpu:
            self.torch.cuda.synchronize()


class Compiled(Torch):
    """PyTorch, compiled."""

    name = "compile"

    def prepare(self, function: Function, inputs: Sequence[Any]) -> Callable[[], Any]:
        """Return a call of the compiled function."""
        self.torch._dynamo.reset()
        compiled = self.torch.compile(function, dynamic=False)
        return lambda: compiled(*inputs)


class Jax(Peer):
    """JAX, compiled by XLA."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
        jax.config.update("jax_enable_x64", True)
        self.jax = jax
        self.last: Any = None

    def hold(self, array: Array) -> Any:
        """Return an array on the default device; all of XLA's lie row by row."""
        return self.jax.device_put(np.ascontiguousarray(array))

    def prepare(self, function: Function, inputs: Sequence[Any]) -> Callable[[], Any]:
        """Return a call of the compiled function."""
        compiled = self.jax.jit(function)

        def call() -> Any:
            self.last = compiled(*inputs)
            return self.last

        return call

    def wait(self) -> None:
        """Wait for the last call, after all before it."""
        self.jax.block_until_ready(self.last)


def installed(*, is_gpu: bool) -> list[Peer]:
    """Return the peers that are here and reach the device."""
    found: list[Peer] = []
    if importlib.util.find_spec("torch"):
        import torch

        if not is_gpu or torch.cuda.is_available():
            found += [Torch(is_gpu=is_gpu), Compiled(is_gpu=is_gpu)]
    if importlib.util.find_spec("jax"):
        # Else it takes three quarters of the device's memory, which the others need.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if not is_gpu:
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
        jax = Jax()
        if is_gpu == (jax.jax.default_backend() == "gpu"):
            found.append(jax)
    return found


# ---- one case ----


class Table:
    """The peers, and what was measured of them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.is_gpu = given.device.startswith("wgpu")
        self.clock, self.rounds = CLOCKS[given.clock], given.rounds
        self.ours = {name: Pyrite(name) for name in (given.device,)}
        self.device = given.device
        self.peers = installed(is_gpu=self.is_gpu)
        self.compiling = given.compiling
        self.copies: dict[int, float] = {}
        self.rate = 0.0
        self.found: list[dict[str, Any]] = []
        #: Which peer's results are not PyTorch's, of which case; such a peer is not counted.
        self.wrong: list[str] = []

    def measure(self, case: Case) -> dict[str, Any]:
        """Return the medians of all peers in microseconds, and what they say."""
        where = case.device or self.device
        if where not in self.ours:
            self.ours[where] = Pyrite(where)
        calls: dict[str, tuple[Callable[[], Any], Peer]] = {}
        want = None
        for peer in (*self.peers, self.ours[where]):
            function = self.function(case, peer)
            if function is None:
                continue
            call = peer.prepare(function, [peer.hold(x) for x in case.inputs])
            begin = time.perf_counter()
            got = call()
            peer.wait()
            if isinstance(peer, Compiled):
                self.compiling -= time.perf_counter() - begin
            want = got if want is None else want
            if case.checks and differs(got, want, case.tolerance):
                self.wrong.append(f"{peer.name}: {case.name}")
                if peer.name != "pyrite":
                    continue
            calls[peer.name] = call, peer
        times = self.timed(calls)
        return self.judged(case, {name: statistics.median(t) * 1e6 for name, t in times.items()})

    def function(self, case: Case, peer: Peer) -> Function | None:
        """Return what a peer is to run."""
        if isinstance(peer, Compiled):
            return case.torchs if case.maps and self.compiling > 0 else None
        if isinstance(peer, Torch):
            return case.torchs
        return case.jaxs if isinstance(peer, Jax) else case.ours

    def timed(self, calls: dict[str, tuple[Callable[[], Any], Peer]]) -> dict[str, list[float]]:
        """Return the seconds of a call in each round, in which all take turns."""
        counts = {name: self.count(*call) for name, call in calls.items()}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(self.rounds):
            for name, (call, peer) in calls.items():
                if turn < 3 or sum(times[name]) * counts[name] < LONGEST:
                    time.sleep(PAUSE)
                    times[name].append(self.seconds(call, peer, counts[name]))
        return times

    def count(self, call: Callable[[], Any], peer: Peer) -> int:
        """Return how many calls fill a sample."""
        sample = GPU_SAMPLE if self.is_gpu else SAMPLE
        self.seconds(call, peer, 1)
        found = 2
        for _ in range(2):  # of two calls most may be the wait, and of a few what a pause left cold
            found = max(1, int(sample / max(self.seconds(call, peer, found), 1e-6)))
        return found

    def seconds(self, call: Callable[[], Any], peer: Peer, count: int) -> float:
        """Return the time of a call, of so many that are waited for once."""
        begin = self.clock()
        for _ in range(count):
            call()
        peer.wait()
        return (self.clock() - begin) / count

    def judged(self, case: Case, times: dict[str, float]) -> dict[str, Any]:
        """Return a row of the table."""
        ours = times["pyrite"]
        others = [t for name, t in times.items() if name != "pyrite"]
        limit = max(self.seconds_of(case.nbytes), case.operations / self.rate) * 1e6
        return {
            "name": case.name, **times, "best": min(others) / ours if others else None,
            "limit": limit or None, "of it": limit / ours if limit else None,
        }  # fmt: skip

    # ---- what the machine can do ----

    def calibrate(self) -> None:
        """Measure copies of several sizes, and the rate of the fastest product."""
        size = 4096 if self.is_gpu else 512
        x = np.random.default_rng(0).standard_normal((size, size), np.float32)
        self.rate = 2.0 * size**3 / self.fastest("product", x, lambda x: x @ x)
        for nbytes in (*COPIES, *([1 << 30] if self.is_gpu else [])):
            x = np.ones(nbytes // 8, np.float32)
            self.copies[nbytes] = nbytes / self.fastest("copy", x, lambda x: -x)

    def fastest(self, name: str, x: Array, function: Function) -> float:
        """Return the least seconds of a function of one array, of any peer."""
        calls = {}
        for peer in (self.ours[self.device], *self.peers):
            if not isinstance(peer, Compiled):
                calls[peer.name] = peer.prepare(function, [peer.hold(x)]), peer
        return min(min(times) for times in self.timed(calls).values())

    def seconds_of(self, nbytes: float) -> float:
        """Return what moving so many bytes takes, at the bandwidth of a copy of about as many."""
        nearest = min(self.copies, key=lambda size: abs(np.log(max(nbytes, 1) / size)))
        return nbytes / self.copies[nearest]


def differs(got: Any, want: Any, tolerance: float) -> bool:
    """Whether results are not the same, in parts of the greatest."""
    return any(
        not np.allclose(x, y, rtol=0, atol=tolerance * (np.abs(y).max() or 1.0))
        for x, y in zip(leaves(got), leaves(want), strict=True)
    )


def leaves(found: Any) -> list[Array]:
    """Return results as arrays of float64, of large ones a million elements."""
    many = found if isinstance(found, tuple | list) else [found]
    arrays = [x.detach().cpu() if hasattr(x, "cpu") else x for x in many]
    flat = [np.asarray(x.numpy() if hasattr(x, "numpy") else x).reshape(-1) for x in arrays]
    return [x[:: 1 + (x.size >> 20)].astype(np.float64) for x in flat]


# ---- the table ----


def main() -> int:
    """Print the table; return 1 where a case is below the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, or wgpu")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of cases")
    parser.add_argument("--listed", action="store_true", help="the cases that were behind")
    parser.add_argument("--json", type=Path, help="write the table to this file, too")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--compiling", type=float, default=60.0, help="seconds, in all")
    given = parser.parse_args()
    if given.listed:
        given.compiling = 0.0
    table = Table(given)
    table.calibrate()
    names = ["pyrite", *(peer.name for peer in table.peers)]
    print(f"{given.device}: {table.rate / 1e9:,.0f} GFLOP/s, copies of " + ", ".join(
        f"{n / 2**20:g} MiB {rate / 1e9:,.0f} GB/s" for n, rate in table.copies.items()
    ))  # fmt: skip
    print(f"{'':38}" + "".join(f"{name:>10}" for name in (*names, "best", "limit", "of it")))
    for case in chosen(table.is_gpu, given.only, listed=given.listed):
        row = table.measure(case)
        table.found.append(row)
        cells = [f"{row[n]:10.1f}" if n in row else f"{'-':>10}" for n in names]
        cells += [cell(row["best"], 2), cell(row["limit"], 1), cell(row["of it"], 2)]
        print(f"{row['name']:38}{''.join(cells)}", flush=True)
    behind = [r for r in table.found if r["best"] is not None and r["best"] < BOUND]
    behind.sort(key=lambda row: row["best"])
    print(f"\nbelow {BOUND} of the best peer: {len(behind)} of {len(table.found)}")
    for row in behind:
        print(f"  {row['best']:.2f}  {row['name']}")
    if table.wrong:
        print(f"other results than PyTorch's: {', '.join(table.wrong)}")
    if given.json:
        given.json.write_text(json.dumps(table.found, indent=1, ensure_ascii=False))
    return 1 if behind else 0


def chosen(is_gpu: bool, only: list[str], *, listed: bool) -> Iterator[Case]:
    """Yield the cases that are asked for."""
    for family in FAMILIES:
        for case in family(is_gpu):
            if any(part in case.name for part in only) and (case.name in LISTED or not listed):
                yield case


def cell(value: float | None, digits: int) -> str:
    """Return a number of a column, or that there is none."""
    return f"{'-':>10}" if value is None else f"{value:10.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
