"""The runtime as a whole: launches and copies, what does not fit, threads, counts."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.protocol import Runtime
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.types import float32


def test_it_is_a_runtime(runtime: WgpuRuntime) -> None:
    used: Runtime = runtime  # mypy judges

    assert used.name == "wgpu"


def test_launches_run_in_order(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    for _ in range(3):
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        runtime.launch(kernel, [y, x, 64, 3.0], [1])

    assert runtime.read(x, float32, (8, 8)).tolist() == [[216.0] * 8] * 8


def test_an_equal_kernel_is_compiled_once(runtime: WgpuRuntime, scale: Kernel) -> None:
    other = KernelBuilder("empty").build()

    assert runtime.compile(scale) is runtime.compile(scale)
    assert runtime.compile(other) is not runtime.compile(scale)
    assert runtime.compile(scale).kernel is scale
    assert runtime.report()["kernels"] == 2


def test_an_empty_grid_launches_nothing(runtime: WgpuRuntime, scale: Kernel) -> None:
    x = runtime.upload(np.ones(64, np.float32))

    runtime.launch(runtime.compile(scale), [x, x, 64, 2.0], [0])

    assert runtime.read(x, float32, (64,))[0] == 1.0


def test_parts_of_one_buffer_are_read_and_written_in_one_launch(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    whole = runtime.upload(np.arange(128, dtype=np.float32))

    runtime.launch(runtime.compile(scale), [whole.view(0, 256), whole.view(256, 256), 64, 2.0], [1])

    got = runtime.read(whole, float32, (2, 64))
    np.testing.assert_array_equal(got[1], got[0] * 2)


@pytest.mark.parametrize(
    ("bindings", "grid", "message"),
    [
        ("x", [1], r"kernel 'scale' requires 4 bindings, got 1"),
        ("xy5", [1], r"requires 4 bindings, got 3"),
        ("x5y5", [1], r"requires a buffer of a wgpu runtime as binding 1, got 5"),
        ("xyx5", [1], r"requires a number \(int32\) as binding 2"),
        ("xy5.", [1], r"requires numbers of its parameters' dtypes, got \[5, '\.'\]"),
        ("xy55", [1, 1], r"requires a grid of 1 axes, got \[1, 1\]"),
        ("xy55", [-1], r"requires a grid of 1 axes, got \[-1\]"),
        ("xy55", [1 << 33], r"requires at most 65535 workgroups on an axis"),
    ],
)
def test_a_launch_that_does_not_fit_is_an_error_at_once(
    runtime: WgpuRuntime, scale: Kernel, bindings: str, grid: list[int], message: str
) -> None:
    buffers = {"x": runtime.allocate(256), "y": runtime.allocate(256), "5": 5}

    with pytest.raises(KernelError, match=message):
        runtime.launch(runtime.compile(scale), [buffers.get(b, b) for b in bindings], grid)


def test_an_illegal_kernel_is_refused(runtime: WgpuRuntime) -> None:
    b = KernelBuilder("wrong", workgroup_size=64)
    x = b.buffer("x", float32, "read_write")
    with b.if_(b.local_index() < 3):
        b.barrier()
    x[0] = 1.0

    with pytest.raises(KernelError, match="barrier"):
        runtime.compile(b.build())


def test_a_copy_keeps_to_its_target(runtime: WgpuRuntime) -> None:
    x, y = (
        runtime.upload(np.arange(256, dtype=np.float32)),
        runtime.upload(np.zeros(256, np.float32)),
    )

    runtime.copy(x.view(256, 256), y.view(512, 64))

    got = runtime.read(y, float32, (256,))
    np.testing.assert_array_equal(got[128:144], np.arange(64, 80))
    assert got.sum() == np.arange(64, 80).sum()


def test_a_copy_of_less_than_words_into_a_part_is_refused(runtime: WgpuRuntime) -> None:
    x, y = runtime.allocate(1000), runtime.allocate(1000)

    with pytest.raises(
        DeviceError, match="copy requires a source as long as the target, and whole"
    ):
        runtime.copy(x, y.view(0, 3))
    with pytest.raises(DeviceError, match="got 1000 and 2000 bytes"):
        runtime.copy(x, runtime.allocate(2000))


def test_threads_share_a_runtime(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                x = runtime.upload(np.full(1000, number, np.float32))
                y = runtime.allocate(4000)
                runtime.launch(kernel, [x, y, 1000, 2.0], [16])
                got = runtime.read(y, float32, (1000,))
                assert (got == 2.0 * number).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def test_steps_leave_memory_and_caches_as_they_were(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    weights = runtime.upload(np.ones(5000, np.float32))

    def step() -> tuple[Any, Any]:
        nonlocal weights
        batch, new = runtime.upload(np.ones(3000, np.float32)), runtime.allocate(20_000)
        runtime.launch(kernel, [batch, batch, 3000, 2.0], [47])
        runtime.launch(kernel, [weights, new, 5000, 0.5], [79])
        weights = new
        runtime.read(weights.view(0, 4), float32, (1,))
        report = runtime.report()
        return runtime.memory_report(), (report["bind_groups"], report["staging_bytes"])

    states = [step() for _ in range(60)]

    assert len(set(states[10:])) == 1


def test_counts_say_what_happened(runtime: WgpuRuntime, scale: Kernel) -> None:
    x = runtime.upload(np.ones(64, np.float32))
    for _ in range(3):
        runtime.launch(runtime.compile(scale), [x, x, 64, 1.0], [1])
    runtime.read(x, float32, (64,))

    report = runtime.report()

    wanted = {
        "launches": 3, "uploads": 1, "read_backs": 1, "submissions": 1, "kernels": 1,
        "bind_groups": 1, "bind_group_hits": 2, "bind_group_misses": 1,
    }  # fmt: skip
    assert {name: report[name] for name in wanted} == wanted


def test_a_buffer_counts_the_workgroups_of_a_launch_also_a_part_of_what_it_writes(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    whole = runtime.upload(np.ones(256, np.float32))
    runtime.copy(runtime.upload(np.array((1, 1, 1), np.uint32)), whole.view(0, 12))
    x, y = whole.view(256, 256), whole.view(512, 256)
    none = runtime.upload(np.array((0, 1, 1), np.uint32))

    runtime.launch_counted(runtime.compile(scale), [x, y, 64, 2.0], whole.view(0, 12))
    runtime.launch_counted(runtime.compile(scale), [x, y, 64, 5.0], none)

    assert (
        runtime.read(whole, float32, (256,))[64:].tolist() == [1.0] * 64 + [2.0] * 64 + [1.0] * 64
    )
