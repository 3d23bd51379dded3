"""What the wgpu runtime costs the host: µs for a launch, a submission, a read-back, an upload.

The kernel does next to nothing, so on a software adapter too these are times of the host alone.
Each is the median of many.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np

from pyrite.errors import DeviceError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.pace import SUBMIT_AFTER
from pyrite.types import float32, int32

#: Launches of a submission: fewer than are submitted by themselves.
BATCH = SUBMIT_AFTER - 1


def main() -> None:
    """Print the times."""
    try:
        runtime = WgpuRuntime()
    except DeviceError as error:
        print(error)
        return
    print(runtime.device.name)
    for name, microseconds in measure(runtime).items():
        print(f"{name:42} {microseconds:8.2f} µs")
    runtime.close()


def measure(runtime: WgpuRuntime) -> dict[str, float]:
    """The medians by name, in µs."""
    first = seconds(lambda: runtime.compile(scale("first", 2.0)), 1)
    compiles = iter(range(1000))
    executable = runtime.compile(scale("second", 0.5))
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    small = np.ones(64, np.float32)
    large = np.ones(4 << 20, np.float32)
    on_device = runtime.upload(large)

    def launch() -> None:
        for _ in range(BATCH):
            runtime.launch(executable, [x, y, 64, 2.0], [1])

    def launch_new() -> None:
        for _ in range(BATCH):
            runtime.launch(executable, [x, runtime.allocate(256), 64, 2.0], [1])

    def submit_one() -> None:
        runtime.launch(executable, [x, y, 64, 2.0], [1])
        runtime.flush()

    def upload_large() -> None:
        runtime.upload(large)
        runtime.synchronize()

    launched, flushed = launches(runtime, launch)
    new, _ = launches(runtime, launch_new)
    one = seconds(submit_one, 300)
    runtime.synchronize()
    return {
        "first kernel, compiled": first * 1e6,
        "another kernel, compiled": 1e6
        * seconds(lambda: runtime.compile(scale("other", float(next(compiles)))), 50),
        "launch": launched / BATCH * 1e6,
        "launch and allocate": new / BATCH * 1e6,
        f"submission of {BATCH} launches": flushed * 1e6,
        "the same for each launch": flushed / BATCH * 1e6,
        "launch and submission of one": one * 1e6,
        "read-back of 256 bytes": 1e6 * seconds(lambda: runtime.read(x, float32, (64,)), 300),
        "read-back of 16 MiB": 1e6
        * seconds(lambda: runtime.read(on_device, float32, large.shape), 20),
        "upload of 256 bytes": 1e6 * seconds(lambda: runtime.upload(small), 300),
        "upload of 16 MiB, until it is there": 1e6 * seconds(upload_large, 20),
        "allocate": 1e6 * seconds(lambda: runtime.allocate(1000), 3000),
    }


def launches(runtime: WgpuRuntime, batch: Callable[[], None]) -> tuple[float, float]:
    """Seconds that a batch of launches takes, and then its submission."""
    launched, flushed = [], []
    for _ in range(200):
        runtime.synchronize()
        start = perf_counter()
        batch()
        middle = perf_counter()
        runtime.flush()
        launched.append(middle - start)
        flushed.append(perf_counter() - middle)
    return statistics.median(launched), statistics.median(flushed)


def seconds(run: Callable[[], object], count: int) -> float:
    """The median time of so many runs."""
    times = []
    for _ in range(count):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return statistics.median(times)


def scale(name: str, factor: float) -> Kernel:
    """y = x * n * factor for n elements."""
    b = KernelBuilder(name, workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n, more = b.scalar("n", int32), b.scalar("more", float32)
    i = b.global_id()
    with b.if_(i < n):
        y[i] = x[i] * more * factor
    return b.build()


if __name__ == "__main__":
    main()
