"""Where the time of a compiled step on a GPU goes: to its caller, submission, device, and reads.

    python benchmarks/gpu_step.py [mlp cnn gpt] [--steps 200] [--kernels 10]

The networks are those of `fusion.py`.  Steps per second are by the wall clock: without a read, with
a read of the loss each 20th step and at each, and with a read of the step's before.  Of one step
stand below what the call takes, the flush after it, the wait for the device, and a read of what is
computed already: the least that a read takes.  The device's own times are by timestamp queries,
for which each kernel has a pass of its own: they are more than it takes otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

from fusion import Training, training

from pyrite.backend.cube.wgpu import Wgpu
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.timestamps import Timestamps

#: Steps before any that is timed: the first are recorded, and all sets of buffers are met.
WARM = 40
#: Steps whose parts are timed.
PARTS = 40


def main() -> None:
    """Print what each network's step takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["mlp", "cnn", "gpt"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kernels", type=int, default=10, help="how many kernels are listed")
    given = parser.parse_args()
    backend = Wgpu()
    runtime = cast(WgpuRuntime, backend.runtime)
    print(runtime.device.name)
    for name in given.networks:
        begin = time.perf_counter()
        step = training(name, Device(Fusion(backend)), is_compiled=True)
        for n in range(WARM):
            loss = step()
            if n < WARM // 2:
                loss.item()
        runtime.synchronize()
        print(f"{name}: {WARM} steps at first {time.perf_counter() - begin:.2f} s")
        print(f"  {launches(runtime, step)}")
        for title, every in (("no read", 0), ("a read each 20th", 20), ("a read of each", 1)):
            seconds = paced(runtime, step, given.steps, every)
            print(f"  {title:18} {1e3 * seconds:7.3f} ms, {1 / seconds:7.0f} steps/s")
        seconds = behind(runtime, step, given.steps)
        print(f"  {'a read of the last':18} {1e3 * seconds:7.3f} ms, {1 / seconds:7.0f} steps/s")
        print(f"  {parts(runtime, step)}")
        of_device(runtime, step, given.kernels)


def launches(runtime: WgpuRuntime, step: Training) -> str:
    """Return how many launches and submissions a step has."""
    before = runtime.report()
    step()
    runtime.flush()
    after = runtime.report()
    runtime.synchronize()
    return ", ".join(f"{after[n] - before[n]} {n}" for n in ("launches", "submissions"))


def paced(runtime: WgpuRuntime, step: Training, count: int, every: int) -> float:
    """Return the seconds of a step of many, of which each so many-th is read."""
    begin = time.perf_counter()
    for n in range(count):
        loss = step()
        if every and n % every == 0:
            loss.item()
    runtime.synchronize()
    return (time.perf_counter() - begin) / count


def behind(runtime: WgpuRuntime, step: Training, count: int) -> float:
    """Return the seconds of a step of many, each of which is read after the next one's call."""
    begin = time.perf_counter()
    last = step()
    for _ in range(count):
        loss = step()
        last.item()
        last = loss
    runtime.synchronize()
    return (time.perf_counter() - begin) / count


def parts(runtime: WgpuRuntime, step: Training) -> str:
    """Return the microseconds of the parts of a step, of which the device has done all before."""
    found: defaultdict[str, list[float]] = defaultdict(list)

    def timed(name: str, run: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = run()
        found[name].append(1e6 * (time.perf_counter() - begin))
        return result

    for _ in range(PARTS):
        loss = timed("call", step)
        timed("flush", runtime.flush)
        timed("wait", runtime.synchronize)
        timed("read", loss.item)
    return ", ".join(f"{name} {statistics.median(t):.0f} µs" for name, t in found.items())


def of_device(runtime: WgpuRuntime, step: Training, count: int) -> None:
    """Print the kernels of a step that take the most, by the device's clock."""
    if "timestamp-query" not in runtime.device.features:
        print("  the device has no timestamp queries")
        return
    totals: defaultdict[str, list[float]] = defaultdict(list)
    timestamps = Timestamps(runtime.device)
    with runtime.timed(timestamps):
        step()
    runtime.synchronize()
    times = timestamps.read()
    for one, begin, end in times:
        totals[one.name].append(1e6 * (end - begin))
    total, span = sum(map(sum, totals.values())), 1e6 * (times[-1][2] - times[0][1])
    print(f"  the device: {len(times)} kernels {total:.0f} µs, from first to last {span:.0f} µs")
    for name, own in sorted(totals.items(), key=lambda item: -sum(item[1]))[:count]:
        print(f"    {sum(own):8.1f} µs  {len(own):4} of {name[:80]}")


if __name__ == "__main__":
    main()
