"""Square float32 products on the CPU: Pyrite's kernel beside torch's and NumPy's, in one run.

Each round times every peer in turn with a pause between, so that nobody's threads still spin when
the next one starts, and all write to memory that is there already. The figures are GFLOP/s, medians
over rounds and (after the slash) the most; the ratios are to the better of the peers that are
installed, of the medians and of the most.

    python benchmarks/matmul.py [--sizes 64 128 …] [--turned y] [--rounds 5] [--all]

``--turned`` says which operands lie transposed; ``--all`` times every candidate config.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.kernel.template.operand import OperandMap, row_major_map
from pyrite.kernel.template.panel_config import (
    PanelConfig,
    candidates,
    select,
    workgroups,
)
from pyrite.kernel.template.panel_gemm import panel_gemm
from pyrite.kernel.template.product import Product
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import Array, float32

#: Seconds between peers: longer than their threads spin.
PAUSE = 0.1
#: Seconds that a peer is timed in a round.
SPAN = 0.08

Run = Callable[[], object]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--turned", default="", choices=["", "x", "y", "xy"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    runtime = CpuRuntime()
    for size in arguments.sizes:
        measure(runtime, size, arguments.turned, arguments.rounds, every=arguments.all)
    runtime.close()


def measure(runtime: CpuRuntime, size: int, turned: str, rounds: int, *, every: bool) -> None:
    """Print the rates of one size."""
    random = np.random.default_rng(size)
    x, y = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    left, right = (a.T if name in turned else a for name, a in (("x", x), ("y", y)))
    peers: dict[str, tuple[Run, Run]] = {}
    product = Product(
        _map(size, "x" in turned), _map(size, "y" in turned), row_major_map(float32, (), size, size)
    )
    machine = runtime.machine
    configs = candidates(product, machine) if every else [select(product, machine)]
    for config in dict.fromkeys(configs):
        name = _name(config) if every else "pyrite"
        peers[name] = _ours(runtime, product, config, x, y, left @ right)
    peers |= _others(left, right)
    rates: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, (run, wait) in peers.items():
            time.sleep(PAUSE)
            rates[name].append(2e-9 * size**3 / _seconds(run, wait))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    if not every:
        most = {name: max(found) for name, found in rates.items()}
        ratios = [_to_the_better(found) for found in (medians, most)]
        cells = "  ".join(f"{name} {medians[name]:6.1f}/{most[name]:6.1f}" for name in rates)
        print(f"{size:5}  {cells}  ratios {ratios[0]:.2f} {ratios[1]:.2f}  {_name(configs[0])}")
        return
    for name, rate in sorted(medians.items(), key=lambda item: -item[1]):
        print(f"{size:5}  {rate:6.1f}  {name}")


def _to_the_better(rates: dict[str, float]) -> float:
    return rates["pyrite"] / max(rate for name, rate in rates.items() if name != "pyrite")


def _map(size: int, is_turned: bool) -> OperandMap:
    dense = row_major_map(float32, (), size, size)
    return dense.transposed if is_turned else dense


def _name(c: PanelConfig) -> str:
    packs = "x" * c.packs_x + "y" * c.packs_y
    return f"{c.rows}x{c.vectors}x{c.width} in {c.block_m}x{c.block_n}x{c.block_k} {packs}"


def _ours(
    runtime: CpuRuntime, product: Product, config: PanelConfig, x: Array, y: Array, want: Array
) -> tuple[Run, Run]:
    executable = runtime.compile(panel_gemm(product, config))
    out = runtime.allocate(want.nbytes)
    bindings: Any = [runtime.upload(x), runtime.upload(y), out]
    grid = (workgroups(product, config),)

    def run() -> None:
        runtime.launch(executable, bindings, grid)

    run()
    got = runtime.read(out, float32, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5 * len(want))
    return run, runtime.synchronize


def _others(x: Array, y: Array) -> dict[str, tuple[Run, Run]]:
    out = np.empty((len(x), len(x)), np.float32)
    found: dict[str, tuple[Run, Run]] = {"numpy": (lambda: np.matmul(x, y, out=out), _nothing)}
    if importlib.util.find_spec("torch"):
        import torch

        left, right = torch.from_numpy(x), torch.from_numpy(y)
        result = torch.empty(out.shape)
        found["torch"] = (lambda: torch.matmul(left, right, out=result), _nothing)
    return found


def _nothing() -> None:
    """What a peer needs to be done: it is, when its call returns."""


def _seconds(run: Run, wait: Run) -> float:
    """Return the time of one call, of as many as fit in `SPAN`."""
    run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    count = max(int(SPAN / (time.perf_counter() - start)), 1)
    start = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    main()
