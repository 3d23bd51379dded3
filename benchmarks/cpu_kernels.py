"""Ops of the CPU backend against PyTorch in float32, in one run, on two threads each.

    python benchmarks/cpu_kernels.py [name ...]

PyTorch writes into outputs that it is given where it has such a form; Pyrite takes them from its
allocator, which after the first call has a block of the size.  They take turns, with pauses, since
each one's threads look for work for a while after the last.  Printed are the median and the best
of a call in microseconds, of several calls one after another that are waited for once; PyTorch's
time by Pyrite's, of the medians and of the bests: above 1 Pyrite is the faster (other programs on
the machine hurt PyTorch's medians more); the same of one call alone, which Pyrite hands to another
thread and waits for; then the limit: the bytes that must be moved, at the bandwidth of the best
copy.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.optim.adam import adam_update
from pyrite.optim.sgd import sgd_update
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor

RUNTIME = CpuRuntime(threads=2)
DEVICE = Device(CubeBackend(RUNTIME))
RANDOM = np.random.default_rng(0)
ATEN: Any = torch.ops.aten
ROUNDS = 15
#: The fewest calls that are made one after another.
LEAST = 5


@dataclass(frozen=True)
class Case:
    """One op: what both do, and how many floats must move between memory and the processor."""

    name: str
    floats: int
    ours: Callable[[], object]
    torchs: Callable[[], object]


def pair(*shape: int) -> tuple[Any, torch.Tensor]:
    """The same normal numbers for both, each in memory of its own allocator.

    NumPy's, which `torch.from_numpy` would share, lies in huge pages as Pyrite's does; PyTorch's
    own, in which its results are, does not.
    """
    array = RANDOM.standard_normal(shape).astype(np.float32)
    return tensor(array, device=DEVICE), torch.from_numpy(array).clone()


# ---- cases ----


def copies() -> Iterator[Case]:
    """Sixteen million elements, from one buffer to another."""
    n = 1 << 24
    (x, t), out, buffer = pair(n), torch.empty(n), RUNTIME.allocate(4 * n)
    yield Case("copy 16M", 2 * n, lambda: RUNTIME.copy(x._handle.buffer, buffer),
               lambda: out.copy_(t))  # fmt: skip


def maps() -> Iterator[Case]:
    """GELU and its gradient, a sum of two, of large and small tensors."""
    for n, size in ((1 << 24, "16M"), (1 << 20, "1M"), (1 << 16, "64K"), (1 << 10, "1K")):
        (x, t), (y, u), out = pair(n), pair(n), torch.empty(n)
        backward = partial(ATEN.gelu_backward.grad_input, u, t, grad_input=out)
        yield Case(f"gelu {size}", 2 * n, x.gelu, partial(ATEN.gelu.out, t, out=out))
        yield Case(f"gelu backward {size}", 3 * n, partial(y._gelu_backward, x), backward)
        yield Case(f"add {size}", 3 * n, partial(x.add, y), partial(torch.add, t, u, out=out))


def scores() -> Iterator[Case]:
    """exp and softmax of scores of which a mask takes none, half or all, or that nearly vanish.

    What underflows takes a processor up to ten times as long where it is computed with denormals.
    """
    n, out = 1 << 19, torch.empty(512, 1024)
    plain = RANDOM.uniform(-20, 0, (512, 1024)).astype(np.float32)
    masked = np.where(np.tri(512, 1024, 512, dtype=bool), plain, np.float32(-1e4))
    kinds = {"": plain, "half masked": masked, "masked": masked - 2e4, "denormal": plain / 2 - 90}
    for kind, array in kinds.items():
        x, t = tensor(array, device=DEVICE), torch.from_numpy(array).clone()
        yield Case(f"exp scores {kind}", 2 * n, x.exp, partial(torch.exp, t, out=out))
        softmax = partial(torch.softmax, t, -1, out=out)
        yield Case(f"softmax scores {kind}", 2 * n, x.softmax, softmax)


def angles() -> Iterator[Case]:
    """Sines of small and of large angles."""
    for name, size in (("", 1e3), ("large ", 1e20)):
        array = RANDOM.uniform(-size, size, 1 << 19).astype(np.float32)
        x, t, out = tensor(array, device=DEVICE), torch.from_numpy(array), torch.empty(1 << 19)
        yield Case(f"sin {name}512K", 1 << 20, x.sin, partial(torch.sin, t, out=out))


def rows() -> Iterator[Case]:
    """Softmax and layer norm, both ways."""
    n = 4096 * 4096
    (x, t), (g, u), out = pair(4096, 4096), pair(4096, 4096), torch.empty(4096, 4096)
    yield Case("softmax 4096²", 2 * n, x.softmax, lambda: torch.softmax(t, -1, out=out))
    backward = partial(ATEN._softmax_backward_data.out, u, t, -1, torch.float32, grad_input=out)
    yield Case("softmax backward", 3 * n, partial(g._softmax_backward, x), backward)
    n = 4096 * 1024
    (x1, t1), (g1, u1), (w, v), (b, c) = pair(4096, 1024), pair(4096, 1024), pair(1024), pair(1024)
    out1, mean, rate = torch.empty_like(t1), torch.empty(4096, 1), torch.empty(4096, 1)
    yield Case("layer norm 4096×1024", 2 * n, lambda: x1.layer_norm(w, b),
               lambda: ATEN.native_layer_norm.out(t1, [1024], v, c, 1e-5, out0=out1, out1=mean,
                                                  out2=rate))  # fmt: skip
    outs = [torch.empty_like(z) for z in (t1, v, c)]
    yield Case("layer norm backward", 3 * n,
               lambda: g1._layer_norm_backward(x1, w, axis=-1, eps=1e-5, argnums=(0, 1, 2)),
               lambda: ATEN.native_layer_norm_backward.out(
                   u1, t1, [1024], mean, rate, v, c, [True] * 3, out0=outs[0], out1=outs[1],
                   out2=outs[2]))  # fmt: skip


def groups() -> Iterator[Case]:
    """Group norm, both ways: of a few channels, and of images as an encoder has them."""
    for shape, count in (((8, 64, 32, 32), 8), ((4, 128, 64, 64), 32)):
        n, c, *sizes = shape
        size, name = sizes[0] * sizes[1], f"group norm {sizes[0]}²"
        (x, t), (g, u), (w, v), (b, z) = pair(*shape), pair(*shape), pair(c), pair(c)
        forward = partial(ATEN.native_group_norm, t, v, z, n, c, size, count, 1e-5)
        _, mean, rate = forward()
        floats = n * c * size
        yield Case(name, 2 * floats, partial(x.group_norm, w, b, num_groups=count), forward)
        ours = partial(g._group_norm_backward, x, w, num_groups=count, eps=1e-5, argnums=(0, 1, 2))
        theirs = partial(
            ATEN.native_group_norm_backward, u, t, mean, rate, v, n, c, size, count, [True] * 3
        )
        yield Case(f"{name} backward", 3 * floats, ours, theirs)


def reductions() -> Iterator[Case]:
    """Sums and maxima over either axis, and of fewer rows."""
    n = 4096 * 4096
    (x, t), out = pair(4096, 4096), torch.empty(4096)
    for axis in (0, 1):
        total, largest = partial(torch.sum, t, axis, out=out), partial(torch.amax, t, axis)
        yield Case(f"sum over axis {axis}", n, partial(x.sum, axis), total)
        yield Case(f"max over axis {axis}", n, partial(x.max, axis), largest)
    memory = torch.frombuffer(x._handle.buffer.lease(), dtype=torch.float32)
    same, out = memory.reshape(4096, 4096), torch.empty(4096)
    yield Case("sum over axis 1, one memory", n, partial(x.sum, 1),
               partial(torch.sum, same, 1, out=out))  # fmt: skip
    for rows in (2048, 512):
        (x, t), out = pair(rows, 4096), torch.empty(rows)
        for name, ours, torchs in (
            ("sum", partial(x.sum, 1), partial(torch.sum, t, 1, out=out)),
            ("max", partial(x.max, 1), partial(torch.amax, t, 1, out=out)),
        ):
            yield Case(f"{name} over axis 1, {rows}", rows * 4096, ours, torchs)


def steps() -> Iterator[Case]:
    """Optimisers' steps of four million weights; PyTorch's are fused and in place."""
    n = 1 << 22
    (p, t), (g, u) = pair(n), pair(n)
    m, v = p * 0, p * 0
    moments, count = [torch.zeros(n), torch.zeros(n)], torch.tensor(1.0)
    betas: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
    yield Case("adam 4M", 7 * n, lambda: adam_update(p, g, m, v, None, 1e-3, 0.1, 0.01, **betas),
               lambda: torch._fused_adam_([t], [u], moments[:1], moments[1:], [], [count], lr=1e-3,
                                          amsgrad=False, maximize=False, **betas))  # fmt: skip
    yield Case("sgd 4M", 3 * n, lambda: sgd_update(p, g, 1e-3, weight_decay=0.0),
               lambda: t.add_(u, alpha=-1e-3))  # fmt: skip


GROUPS = (copies, maps, scores, angles, rows, groups, reductions, steps)

# ---- measuring ----


def nothing() -> None:
    """What PyTorch's calls leave to wait for."""


@dataclass
class Times:
    """Seconds of a call of one of the two: of several together, and of one alone."""

    together: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)


def alternate(case: Case) -> tuple[Times, Times]:
    """Measure both, in turns."""
    torch.set_num_threads(2)
    contestants = ((case.ours, RUNTIME.synchronize), (case.torchs, nothing))
    case.torchs()
    start = perf_counter()
    case.torchs()
    count = max(LEAST, min(1000, int(2e-3 / (perf_counter() - start))))
    times = Times(), Times()
    for _ in range(ROUNDS):
        for (run, wait), found in zip(contestants, times, strict=True):
            sleep(0.01)
            run()
            wait()
            found.together.append(seconds(run, wait, count))
            found.alone.append(seconds(run, wait, 1))
    return times


def seconds(run: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    """Seconds of each of so many calls, one after another."""
    start = perf_counter()
    for _ in range(count):
        run()
    wait()
    return (perf_counter() - start) / count


def faults_of(run: Callable[[], object]) -> float:
    """Page faults of a call, once its outputs have been allocated before."""
    for _ in range(3):
        run()
    RUNTIME.synchronize()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        run()
    RUNTIME.synchronize()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10


def print_table(names: list[str]) -> None:
    """One line for each case, of those whose name begins like one of the given."""
    print(f"{'':>22} {'pyrite':>17} {'torch':>17} {'ratio':>6} {'of best':>7} {'alone':>6} "
          f"{'limit':>8} {'faults':>6}")  # fmt: skip
    bandwidth = 0.0
    for group in GROUPS:
        for case in group():
            if names and group is not copies and not any(map(case.name.startswith, names)):
                continue
            ours, torchs = alternate(case)
            nbytes = 4 * case.floats
            best = min(ours.together), min(torchs.together)
            bandwidth = bandwidth or nbytes / min(best)
            cells = [f"{median(t.together) * 1e6:8.1f} {least * 1e6:8.1f}"
                     for t, least in zip((ours, torchs), best, strict=True)]  # fmt: skip
            print(
                f"{case.name:>22} {cells[0]} {cells[1]} "
                f"{median(torchs.together) / median(ours.together):6.2f} {best[1] / best[0]:7.2f} "
                f"{median(torchs.alone) / median(ours.alone):6.2f} "
                f"{nbytes / bandwidth * 1e6:8.1f} {faults_of(case.ours):6.1f}",
                flush=True,
            )


def print_idle() -> None:
    """Whether an idle runtime holds PyTorch up: threads that look for work would."""
    x = torch.randn(512, 512)
    torch.set_num_threads(2)

    def best() -> float:
        found = []
        for _ in range(200):
            start = perf_counter()
            x @ x
            found.append(perf_counter() - start)
        return median(found) * 1e6

    busy = tensor(np.ones(1 << 20, np.float32), device=DEVICE)
    with_idle, without = [], []
    other = CpuRuntime(threads=2)
    for _ in range(5):
        busy.gelu()
        RUNTIME.synchronize()
        sleep(0.01)
        with_idle.append(best())
    other.close()
    RUNTIME.close()
    for _ in range(5):
        sleep(0.01)
        without.append(best())
    print(f"torch matmul 512: {min(with_idle):.1f} µs beside an idle runtime, "
          f"{min(without):.1f} µs alone")  # fmt: skip


if __name__ == "__main__":
    print_table(sys.argv[1:])
    print_idle()
