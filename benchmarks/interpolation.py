"""Images resized and the gradients of that, on the CPU: against PyTorch, in one run, two threads.

Both take turns; printed are the median and the least of a call in milliseconds, and torch's time
by Pyrite's, of the medians and of the least: above 1 Pyrite is the faster.  A result is new memory
for both.

    python benchmarks/interpolation.py [--only bilinear "x 2"] [--rounds 9]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

import pyrite
from pyrite.tensor.creation import tensor
from pyrite.tensor.interpolation import Mode

Contest = tuple[str, Callable[[], Any], Callable[[], Any]]

CPU = pyrite.device("cpu")
SHAPES = ((1, 3, 512, 512), (4, 32, 64, 64), (8, 64, 16, 16))
MODES: tuple[Mode, ...] = ("nearest", "bilinear", "bicubic")
#: What torch and Pyrite call the gradients.
BACKWARD = {
    "nearest": (torch.ops.aten.upsample_nearest2d_backward, "nearest"),
    "bilinear": (torch.ops.aten.upsample_bilinear2d_backward, "linear"),
    "bicubic": (torch.ops.aten.upsample_bicubic2d_backward, "cubic"),
}


def contests() -> Iterator[Contest]:
    """Every mode, enlarging and shrinking, with gradients of enlarged images."""
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        array = rng.standard_normal(shape).astype(np.float32)
        x, y = tensor(array, device=CPU), torch.from_numpy(array)
        for mode in MODES:
            for scale in (2.0, 0.5):
                yield (
                    f"{mode} {shape} x {scale:g}",
                    partial(x.interpolate, scale_factor=scale, mode=mode),
                    partial(torch.nn.functional.interpolate, y, scale_factor=scale, mode=mode),
                )
            yield gradient(shape, mode, rng)


def gradient(shape: tuple[int, ...], mode: Mode, rng: np.random.Generator) -> Contest:
    """The gradient of an image that was enlarged to twice its size."""
    sizes = tuple(2 * n for n in shape[2:])
    array = rng.standard_normal((*shape[:2], *sizes)).astype(np.float32)
    g, h = tensor(array, device=CPU), torch.from_numpy(array)
    theirs, canonical = BACKWARD[mode]
    corners = () if mode == "nearest" else (False,)
    return (
        f"{mode} backward {shape} x 2",
        partial(
            g._interpolate_backward, sizes=shape[2:], scale_factor=(2.0, 2.0), mode=canonical,
            align_corners=False,
        ),
        partial(theirs, h, sizes, shape, *corners, 2.0, 2.0),
    )  # fmt: skip


def measure(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int
) -> tuple[list[float], list[float]]:
    """The seconds of each, by round; they take turns, so that both see the same noise."""
    times: tuple[list[float], list[float]] = ([], [])

    def run() -> Any:
        result = ours()
        CPU.synchronize()
        return result

    for _ in range(rounds):
        for function, found in zip((run, theirs), times, strict=True):
            # The other's threads go on looking for work for a while.
            sleep(0.005)
            function()
            start = perf_counter()
            function()
            found.append(perf_counter() - start)
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(f"{'':38} {'pyrite ms':>9} {'least':>9} {'torch ms':>9} {'least':>9}  ratio  of least")
    for name, ours, theirs in contests():
        if any(part in name for part in arguments.only):
            found = measure(ours, theirs, arguments.rounds)
            cells = [f"{f(t) * 1e3:9.3f}" for t in found for f in (statistics.median, min)]
            ratios = [f(found[1]) / f(found[0]) for f in (statistics.median, min)]
            print(f"{name:38} {' '.join(cells)} {ratios[0]:6.2f} {ratios[1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
