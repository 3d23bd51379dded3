"""Whole training steps beside PyTorch, torch.compile and jax.jit, in turns of one run.

    python benchmarks/steps.py [mlp cnn gpt lstm gelu] [--device cpu] [--json FILE]
    python benchmarks/steps.py --first [mlp cnn gpt lstm] [--device cpu]

An MLP (784-512-256-10, batch 128), a CNN (1x28x28, batch 64, 8/16/24 channels with batch norm and
GELU), a GPT (4 layers of 128, 4 heads, 128 long, batch 8) and a language model of LSTMs (2 x 200,
35 steps of 20, 10,000 words), each with Adam and cross-entropy, in float32.  All start from the
same weights; a peer whose losses of the first steps are not ours is named at the end, and not
counted.

``pyrite`` is the step as anyone would write it, ``compiled`` that of `pyrite.compile`; ``torch`` is
eager with the fused Adam, ``compile`` torch.compile of the network and its loss, ``graph`` the
eager step as a CUDA graph, ``jax`` the whole step by jax.jit with donated parameters.  The device
is ``cpu``, or ``wgpu``, whose peers run on CUDA.  Printed are medians in milliseconds of steps of
which none is read, waited for a few at a time; ``best`` is the best peer's time by ours, so that
above 1 Pyrite is ahead; the limit is the products' operations over the rate of the fastest product,
measured here.

``gelu`` is GELU by its formula in single ops, beside the peers' formula, PyTorch's own kernel
(``own``), and as its limit a copy of as many elements; there each call is waited for.  ``--first``
starts processes: what first steps take with an empty cache of kernels, and with that of the process
before.

On a machine that others use take one thread and the processor's time, which counts no waiting:
OMP_NUM_THREADS=1 PYRITE_THREADS=1 ... --clock process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fusion import RATE, step_of
from peers import CLOCKS, Compiled, Jax, Peer, Table, Torch, cell
from step_networks import JaxOps, Network, TorchOps, network, stacked

import pyrite
from pyrite.types import Array

NAMES = ("mlp", "cnn", "gpt", "lstm")
#: Losses that are compared, and by how much they may differ.
COMPARED, TOLERANCE = 3, 2e-3
#: Seconds of a turn, at least, and those between turns, so that nobody's threads still spin.
TURN, PAUSE = 0.1, 0.05

#: A step: it returns its loss, which may not be computed yet.
Step = Callable[[], Any]


# ---- a step of each ----


def ours(given: Network, device: str, *, is_compiled: bool) -> tuple[dict[str, Array], Step]:
    """Return the parameters that ours starts with, and its step."""
    with pyrite.random_stream(0):
        model = given.ours()
    start = {name: p.numpy() for name, p in model.named_parameters()}
    return start, step_of(model, given.inputs, given.labels, device, is_compiled=is_compiled)


def of_torch(peer: Torch, given: Network, start: Mapping[str, Array], kind: str) -> Step:
    """Return PyTorch's step: eager, compiled, or as a graph of CUDA."""
    torch = peer.torch
    p = {name: peer.hold(w).requires_grad_() for name, w in stacked(start).items()}
    x, y = peer.hold(given.inputs), peer.hold(given.labels)
    ops = TorchOps(start, is_gpu=peer.is_gpu)
    is_graph = kind == "graph"
    optimizer = torch.optim.Adam(p.values(), RATE, fused=True, capturable=is_graph)

    def loss_of(p: Mapping[str, Any], x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(given.theirs(ops, p, x), y)

    if kind == "compile":
        torch._dynamo.reset()
        loss_of = torch.compile(loss_of, dynamic=False)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(p, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return _graph(torch, step) if is_graph else step


def _graph(torch: Any, step: Step) -> Step:
    """Return the step as one graph of CUDA; its first steps are run plain, as PyTorch asks."""
    side = torch.cuda.Stream()
    first: list[Any] = []
    with torch.cuda.stream(side):
        first = [step().detach().clone() for _ in range(COMPARED)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Any:
        if first:
            return first.pop(0)
        graph.replay()
        return loss

    replay.step = step  # type: ignore[attr-defined]  # the graph reads what it holds

    return replay


def of_jax(peer: Jax, given: Network, start: Mapping[str, Array]) -> Step:
    """Return JAX's step."""
    jax, numpy = peer.jax, peer.jax.numpy
    p = {name: peer.hold(w) for name, w in stacked(start).items()}
    x, y = peer.hold(given.inputs), peer.hold(given.labels)
    ops = JaxOps()

    def loss_of(p: Any) -> Any:
        scores = jax.nn.log_softmax(given.theirs(ops, p, x))
        return -numpy.take_along_axis(scores, y[:, None], axis=1).mean()

    def train(p: Any, first: Any, second: Any, count: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(p)
        tree, count = jax.tree.map, count + 1
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        less, least = 1 - 0.9**count, 1 - 0.999**count
        p = tree(
            lambda w, m, v: w - RATE * (m / less) / (numpy.sqrt(v / least) + 1e-8),
            p, first, second,
        )  # fmt: skip
        return p, first, second, count, loss

    whole = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    # Zeros of their own for each, as all are donated.
    moments = [jax.tree.map(numpy.zeros_like, p) for _ in range(2)]
    state: Any = (p, *moments, numpy.zeros((), numpy.float32))

    def step() -> Any:
        nonlocal state
        *state, peer.last = whole(*state)
        return peer.last

    return step


# ---- the table ----


class Turns:
    """Who takes part in a case, and how long each of its steps took."""

    def __init__(self, clock: Callable[[], float], rounds: int) -> None:
        self.clock, self.rounds = clock, rounds
        self.steps: dict[str, tuple[Step, Peer]] = {}

    def add(self, name: str, step: Step, peer: Peer) -> None:
        """Let a step take part."""
        self.steps[name] = step, peer

    def medians(self) -> dict[str, float]:
        """Return the median milliseconds of a step of each."""
        counts = {name: self._count(name) for name in self.steps}
        times: dict[str, list[float]] = {name: [] for name in self.steps}
        for _ in range(self.rounds):
            for name, found in times.items():
                time.sleep(PAUSE)
                self._seconds(name, 2)  # its threads and memory are warm again
                found.append(self._seconds(name, counts[name]))
        return {name: 1e3 * statistics.median(found) for name, found in times.items()}

    def _count(self, name: str) -> int:
        self._seconds(name, 8)
        return max(3, int(TURN / self._seconds(name, 4)))

    def _seconds(self, name: str, count: int) -> float:
        step, peer = self.steps[name]
        begin = self.clock()
        for _ in range(count):
            step()
        peer.wait()
        return (self.clock() - begin) / count


class Steps:
    """The table, and what was measured for it."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.clock = given, CLOCKS[given.clock]
        self.machine = Table(argparse.Namespace(**vars(given), compiling=0.0))
        self.machine.calibrate()
        self.own = self.machine.ours[given.device]
        self.rows: list[dict[str, Any]] = []
        self.wrong: list[str] = []

    def network(self, name: str) -> None:
        """Time the steps of a network."""
        given, turns = network(name), Turns(self.clock, self.given.rounds)
        start, step = ours(given, self.given.device, is_compiled=False)
        want = losses(step)
        turns.add("pyrite", step, self.own)
        making: list[tuple[str, Peer, Callable[[], Step]]] = [
            ("compiled", self.own, lambda: ours(given, self.given.device, is_compiled=True)[1])
        ]
        for peer in self.machine.peers:
            if isinstance(peer, Jax):
                making.append(("jax", peer, partial(of_jax, peer, given, start)))
            elif isinstance(peer, Torch):
                making += [
                    (kind, peer, partial(of_torch, peer, given, start, kind))
                    for kind in self.kinds(peer)
                ]
        for who, peer, make in making:
            self.take_in(turns, name, who, peer, want, make)
        self.row(name, turns.medians(), 1e3 * given.operations / self.machine.rate)

    def kinds(self, peer: Torch) -> list[str]:
        """Return how PyTorch's steps run."""
        if isinstance(peer, Compiled):
            return ["compile"] if self.given.compile else []
        return ["torch", "graph"] if peer.is_gpu else ["torch"]

    def take_in(
        self, turns: Turns, name: str, who: str, peer: Peer, want: Array, make: Callable[[], Step]
    ) -> None:
        """Let a step take part whose first losses are as ours."""
        try:
            step = make()
            found = losses(step)
        except Exception as e:  # a peer that fails here, as a compiler without its compiler
            self.wrong.append(f"{who} of {name}: {type(e).__name__}: {str(e).splitlines()[0][:90]}")
            return
        if not np.allclose(found, want, rtol=TOLERANCE):
            self.wrong.append(f"{who} of {name}: losses {found}, ours {want}")
            if peer is not self.own:
                return
        turns.add(who, step, peer)

    def gelu(self, count: int) -> None:
        """Time a GELU by its formula."""
        x = np.random.default_rng(0).standard_normal(count, np.float32)
        turns = Turns(self.clock, self.given.rounds)
        turns.add("pyrite", _waited(formula, x, self.own), self.own)
        turns.add("compiled", _waited(pyrite.compile(formula), x, self.own), self.own)
        turns.add("copy", _waited(lambda x: -x, x, self.own), self.own)
        for peer in self.machine.peers:
            if isinstance(peer, Compiled) and not self.given.compile:
                continue
            turns.add(peer.name, _waited(formula, x, peer), peer)
            if type(peer) is Torch:
                own = partial(peer.torch.nn.functional.gelu, approximate="tanh")
                turns.add("own", _waited(own, x, peer), peer)
        title = f"gelu {count >> 20}M" if count >> 20 else f"gelu {count >> 10}K"
        found = turns.medians()
        self.row(title, found, found.pop("copy"))

    def row(self, name: str, times: dict[str, float], limit: float) -> None:
        """Print a row, and keep it."""
        mine = min(times[n] for n in ("pyrite", "compiled") if n in times)
        others = [t for n, t in times.items() if n not in ("pyrite", "compiled")]
        row = {"name": name, **times, "best": min(others) / mine if others else None,
               "limit": limit, "of it": limit / mine}  # fmt: skip
        self.rows.append(row)
        cells = [cell(times.get(n), 3) for n in COLUMNS]
        cells += [cell(row["best"], 2), cell(limit, 3), cell(row["of it"], 2)]
        print(f"{name:10}{''.join(cells)}", flush=True)


COLUMNS = ("pyrite", "compiled", "torch", "own", "compile", "graph", "jax")


def formula(x: Any) -> Any:
    """GELU as a user writes it, in single ops."""
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    if hasattr(x, "tanh"):
        return 0.5 * x * (1 + inner.tanh())
    import jax

    return 0.5 * x * (1 + jax.numpy.tanh(inner))


def _waited(function: Callable[[Any], Any], x: Array, peer: Peer) -> Step:
    """Return a call that ends when its result is there."""
    call = peer.prepare(function, [peer.hold(x)])

    def run() -> Any:
        result = call()
        peer.wait()
        return result

    return run


def losses(step: Step) -> Array:
    """Return the losses of the first steps."""
    return np.array([float(step().item()) for _ in range(COMPARED)])


# ---- first steps ----


def first(name: str, device: str) -> None:
    """Print the seconds of the first steps of this process."""
    _, step = ours(network(name), device, is_compiled=True)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        float(step().item())
        times.append(time.perf_counter() - begin)
    print(f"{name:10}" + "".join(f"{t:10.2f}" for t in (times[0], times[1], times[2], sum(times))))


def firsts(names: list[str], device: str) -> None:
    """Print what first steps take in processes of their own, without and with kernels on disk."""
    print(f"seconds{'':14}" + "".join(f"{t:>10}" for t in ("first", "second", "third", "five")))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for which in ("empty", "warm"):
                print(f"{which:11}", end="", flush=True)
                subprocess.run(
                    [sys.executable, __file__, "--one", name, "--device", device],
                    env={**os.environ, "PYRITE_CACHE": folder}, check=True,
                )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", default=[*NAMES, "gelu"])
    parser.add_argument("--device", default="cpu", help="cpu, or wgpu")
    parser.add_argument("--json", type=Path, help="write the table to this file, too")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--compile", action="store_true", help="ask torch.compile, a minute each")
    parser.add_argument("--first", action="store_true", help="time first steps of new processes")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        first(given.one, given.device)
        return
    if given.first:
        firsts([n for n in given.only if n in NAMES], given.device)
        return
    steps = Steps(given)
    print(f"{given.device}: {steps.machine.rate / 1e9:,.0f} GFLOP/s")
    print(f"{'ms':10}" + "".join(f"{name:>10}" for name in (*COLUMNS, "best", "limit", "of it")))
    for name in given.only:
        if name == "gelu":
            for count in (1 << 16, 1 << 24):
                steps.gelu(count)
        else:
            steps.network(name)
    for line in steps.wrong:
        print(f"not counted: {line}")
    if given.json:
        given.json.write_text(json.dumps(steps.rows, indent=1))


if __name__ == "__main__":
    main()
