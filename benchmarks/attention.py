"""Attention: Pyrite beside torch on the CPU, in turns of one run.

Forward alone, and forward with the gradients of query, key and value, plain, causal, and with a
mask.  The figures are milliseconds, the least and the median over rounds; the last columns are
Pyrite's time by torch's: below 1 Pyrite is the faster.  On a machine that others use take one
thread and the time of the processor: OMP_NUM_THREADS=1 PYRITE_THREADS=1 ... --clock process.

    python benchmarks/attention.py [--only causal] [--rounds 15] [--clock process]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import pyrite
from pyrite.autodiff import value_and_grad

Run = Callable[[], object]

#: Batch, heads, length, size of a head.
SIZES = ((2, 4, 512, 64), (3, 5, 384, 48), (1, 8, 2048, 64), (16, 4, 64, 32))
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
#: Seconds between peers, so that nobody's threads still spin when the other starts.
PAUSE = 0.005
UNCOUNTED = 3


class Case(NamedTuple):
    """The same work by both."""

    name: str
    theirs: Run
    ours: Run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(f"{'':36}{'torch':>16}{'pyrite':>18}{'ratio of':>12}")
    print(f"{'':36}{'least':>8}{'median':>8}{'least':>10}{'median':>8}{'least':>7}{'median':>8}")
    for case in cases(options.device):
        if all(word in case.name for word in options.only):
            report(case, CLOCKS[options.clock], options.rounds)


def report(case: Case, clock: Callable[[], float], rounds: int) -> None:
    """Print the times of a case."""
    theirs, ours = measured((case.theirs, case.ours), clock, rounds)
    least, median = min(ours) / min(theirs), statistics.median(ours) / statistics.median(theirs)
    times = "".join(f"{min(t):10.2f}{statistics.median(t):8.2f}" for t in (theirs, ours))
    print(f"{case.name:34}{times}{least:7.2f}{median:8.2f}", flush=True)


def measured(runs: tuple[Run, ...], clock: Callable[[], float], rounds: int) -> list[list[float]]:
    """Return the milliseconds of each, which take turns; the first rounds do not count."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + UNCOUNTED):
        for run, found in zip(runs, times, strict=True):
            time.sleep(PAUSE)
            begin = clock()
            run()
            if turn >= UNCOUNTED:
                found.append(1e3 * (clock() - begin))
    return times


def cases(device: str) -> Iterator[Case]:
    """Yield what is measured."""
    for size in SIZES:
        length = size[2]
        mask = torch.rand(length, length) < 0.9
        yield from attention(device, size, "plain", None, is_causal=False)
        yield from attention(device, size, "causal", None, is_causal=True)
        yield from attention(device, size, "mask", mask, is_causal=False)


def attention(
    device: str, size: tuple[int, ...], name: str, mask: Any, *, is_causal: bool
) -> Iterator[Case]:
    """Yield forward, and forward with gradients."""
    theirs = [torch.randn(size, requires_grad=True) for _ in range(3)]
    ours = [pyrite.tensor(x.detach().numpy(), device=device) for x in theirs]
    our_mask = None if mask is None else pyrite.tensor(mask.numpy(), device=device)

    def their_attention() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            *theirs, attn_mask=mask, is_causal=is_causal
        )

    def our_attention(q: Any, k: Any, v: Any) -> Any:
        return q.scaled_dot_product_attention(k, v, our_mask, is_causal=is_causal)

    def their_forward() -> None:
        with torch.no_grad():
            their_attention()

    def their_step() -> None:
        for x in theirs:
            x.grad = None
        their_attention().sum().backward()

    step = value_and_grad(lambda *inputs: our_attention(*inputs).sum(), (0, 1, 2))
    title = f"{'x'.join(map(str, size))} {name}"
    yield Case(f"{title}, forward", their_forward, lambda: done(our_attention(*ours)))
    yield Case(f"{title}, step", their_step, lambda: done(*step(*ours)[1]))


def done(*tensors: Any) -> None:
    """Wait until all values are computed."""
    for x in tensors:
        x.device.backend.wait(x._handle)


if __name__ == "__main__":
    main()
