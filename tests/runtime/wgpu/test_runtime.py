"""The runtime as a whole: order, errors, threads, event loops, and that the process lives on."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.protocol import Runtime
from pyrite.runtime.wgpu import WgpuRuntime, init_device, open_device
from pyrite.runtime.wgpu.runtime import SUBMIT_AFTER
from pyrite.runtime.wgpu.submission import Launch
from pyrite.types import float32, int32

Program = Callable[[str], str]


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


def test_dispatches_share_one_submission(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(64, np.float32))
    runtime.flush()
    for _ in range(10):
        runtime.launch(kernel, [x, x, 64, 2.0], [1])

    runtime.flush()

    assert runtime.report()["submissions"] == 2
    assert runtime.flush() == 2


def test_many_launches_submit_by_themselves(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    for i in range(5 * SUBMIT_AFTER):
        runtime.launch(kernel, [x, y, 64, float(i)], [1])

    assert runtime.report()["submissions"] == 5
    assert runtime.read(y, float32, (64,))[0] == 5 * SUBMIT_AFTER - 1


def test_memory_is_used_again_within_a_submission(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(1 << 20, np.float32))
    for _ in range(20):
        y = runtime.allocate(4 << 20)
        runtime.launch(kernel, [x, y, 1 << 20, 2.0], [1 << 14])
        x = y

    assert runtime.read(x, float32, (1 << 20,))[-1] == 2.0**20
    assert runtime.memory_report().reserved <= 3 * (4 << 20)


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


def test_a_submission_can_be_waited_for(runtime: WgpuRuntime, scale: Kernel) -> None:
    x = runtime.upload(np.ones(64, np.float32))
    runtime.launch(runtime.compile(scale), [x, x, 64, 2.0], [1])

    submission = runtime.flush()
    runtime.wait(submission)

    assert runtime.is_done(submission)
    with pytest.raises(DeviceError, match="requires a submission that was made, got 5; the last"):
        runtime.wait(5)


def test_an_illegal_command_poisons_what_it_writes_and_nothing_else(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    """Launches are checked, so it is made here by hand."""
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(64, np.float32))
    y, z, good = (runtime.allocate(256) for _ in range(3))
    runtime.launch(kernel, [x, y, 64, 2.0], [1])
    bad = runtime._pending.commands[-1]
    assert isinstance(bad, Launch)
    bad.grid = (100_000, 1, 1)
    runtime.launch(kernel, [y, z, 64, 2.0], [1])
    runtime.launch(kernel, [x, good, 64, 3.0], [1])

    assert runtime.read(good, float32, (64,))[0] == 3.0
    for poisoned in (y, z):
        with pytest.raises(KernelError, match=r"scale requires a legal command(.|\n)*100000"):
            runtime.read(poisoned, float32, (64,))
    runtime.launch(kernel, [y, x, 64, 2.0], [1])
    with pytest.raises(KernelError, match="scale requires a legal command"):
        runtime.read(x, float32, (64,))


# ---- waiting ----


def slow() -> Kernel:
    """Some tenths of a second on lavapipe."""
    b = KernelBuilder("slow", workgroup_size=64)
    x = b.buffer("x", float32, "read_write")
    i = b.global_id()
    with b.for_(0, 20_000, carried=[x[i]]) as loop:
        loop.yield_(loop.carried[0] * 0.999 + x[0])
    x[i] = loop.results[0]
    return b.build()


def test_an_event_loop_runs_on_while_values_are_awaited(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(1 << 16, np.float32))
    kernel = runtime.compile(slow())
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async def read() -> Any:
        ticker = asyncio.create_task(tick())
        runtime.launch(kernel, [x], [1 << 10])
        values = await runtime.read_all_async([(x, float32, (1 << 16,))])
        await runtime.synchronize_async()
        ticker.cancel()
        return values[0]

    assert asyncio.run(read())[-1] > 1.0
    assert ticks > 10


def test_a_read_that_is_cancelled_does_no_harm(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(1 << 16, np.float32))

    async def give_up() -> None:
        runtime.launch(runtime.compile(slow()), [x], [1 << 10])
        task = asyncio.create_task(runtime.read_all_async([(x, float32, (1 << 16,))]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    gc.collect()
    runtime.synchronize()

    assert runtime.read(x, float32, (1 << 16,))[0] > 1.0


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


def test_default_limits_suffice(device: Any, scale: Kernel) -> None:
    runtime = WgpuRuntime(open_device(limits="default"))
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    # More launches than the uniform buffer has room for arguments.
    for i in range(600):
        runtime.launch(kernel, [x, y, 64, float(i)], [1])

    assert runtime.read(y, float32, (64,))[0] == 599.0
    runtime.close()


# ---- the end ----


def test_a_closed_runtime_says_so(device: Any, scale: Kernel) -> None:
    runtime = WgpuRuntime(device, name="wgpu:7")
    kernel, x = runtime.compile(scale), runtime.upload(np.ones(64, np.float32))
    runtime.close()
    runtime.close()

    for call in (
        lambda: runtime.allocate(1),
        lambda: runtime.upload(np.ones(1)),
        lambda: runtime.compile(scale),
        lambda: runtime.launch(kernel, [x, x, 1, 1.0], [1]),
        lambda: runtime.read(x, float32, (64,)),
        lambda: runtime.flush(),
        lambda: runtime.synchronize(),
        lambda: runtime.is_done(1),
    ):
        with pytest.raises(
            DeviceError, match="wgpu:7 requires a device that works, got: it was clo"
        ):
            call()


def test_a_device_destroyed_under_it_is_an_error_of_every_call(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        runtime.device.gpu.destroy()
        for call in (
            lambda: runtime.flush(),
            lambda: runtime.read(y, float32, (64,)),
            lambda: runtime.upload(ones),
            lambda: runtime.launch(kernel, [x, y, 64, 2.0], [1]),
            lambda: runtime.synchronize(),
            lambda: runtime.compile(scale()),
        ):
            try:
                call()
            except DeviceError as error:
                print(error)
        runtime.close()
    """)

    assert printed.splitlines() == ["wgpu requires a device that works, got: it was destroyed"] * 6


def test_a_device_that_is_lost_unseen_is_found_out_before_the_submit(program: Program) -> None:
    """Destroyed through the C library, so that no flag in Python says it."""
    printed = program("""
        from pyrite.runtime.wgpu.native import lib
        runtime = WgpuRuntime(open_device())
        kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        lib.wgpuDeviceDestroy(runtime.device.raw)
        for _ in range(2):
            try:
                runtime.read(y, float32, (64,))
            except DeviceError as error:
                print(error)
    """)

    message = "wgpu requires a device that works, got: it was lost (Parent device is lost)"
    assert printed.splitlines() == [message] * 2


def test_external_buffers_may_be_destroyed_before_a_submit(program: Program) -> None:
    printed = program("""
        device = open_device()
        runtime = WgpuRuntime(init_device(device.gpu))
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        kernel, y = runtime.compile(scale()), runtime.allocate(256)
        for _ in range(3):
            own = device.gpu.create_buffer(size=256, usage=usage)
            external = runtime.from_buffer(own)
            runtime.launch(kernel, [external, y, 64, 2.0], [1])
            own.destroy()
            runtime.launch(kernel, [external, y, 64, 2.0], [1])
        try:
            runtime.read(y, float32, (64,))
        except DeviceError as error:
            print(error)
    """)

    assert "scale requires external buffers that it can use, got one that was destroyed" in printed


@pytest.mark.parametrize("closed", [True, False])
def test_sixty_four_devices_come_and_go(program: Program, closed: bool) -> None:
    printed = program(f"""
        for i in range(64):
            runtime = WgpuRuntime(open_device())
            kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
            runtime.launch(kernel, [x, y, 64, float(i)], [1])
            if i % 2:
                assert runtime.read(y, float32, (64,))[0] == i
            if {closed}:
                runtime.close()
            del runtime, kernel, x, y
            if i % 8 == 0:
                gc.collect()
        print("alive")
    """)

    assert printed == "alive\n"


def test_a_process_may_end_with_work_under_way(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel, x = runtime.compile(scale()), runtime.upload(np.ones(1 << 20, np.float32))
        for _ in range(200):
            runtime.launch(kernel, [x, x, 1 << 20, 1.0], [1 << 14])
        runtime.flush()
        print("end")
    """)

    assert printed == "end\n"


def test_a_forked_child_is_told_to_open_its_own(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        x = runtime.upload(ones)
        runtime.synchronize()
        pid = os.fork()
        if pid == 0:
            try:
                runtime.read(x, float32, (64,))
            except DeviceError as error:
                print(error, flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print(runtime.read(x, float32, (64,))[0])
    """)

    first, second = printed.splitlines()
    assert "this process is a fork of the one that opened it; open it in the child" in first
    assert second == "1.0"


def test_an_applications_device_outlives_the_runtime(device: Any, scale: Kernel) -> None:
    own = device.gpu.adapter.request_device_sync()
    runtime = WgpuRuntime(init_device(own))
    runtime.read(runtime.upload(np.ones(4, np.float32)), float32, (4,))
    runtime.close()

    usage = wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffer = own.create_buffer_with_data(data=b"12345678", usage=usage)
    assert bytes(own.queue.read_buffer(buffer)) == b"12345678"


def test_two_devices_work_side_by_side(device: Any, scale: Kernel) -> None:
    runtimes = [WgpuRuntime(open_device(), name=f"wgpu:{i}") for i in range(2)]
    buffers = [r.upload(np.full(64, i, np.float32)) for i, r in enumerate(runtimes)]
    for r, x in zip(runtimes, buffers, strict=True):
        r.launch(r.compile(scale), [x, x, 64, 2.0], [1])

    assert [r.read(x, float32, (64,))[0] for r, x in zip(runtimes, buffers, strict=True)] == [0, 2]
    with pytest.raises(KernelError, match=r"requires buffers to bind, got\n"):
        runtimes[0].launch(runtimes[0].compile(scale), [*buffers, 64, 2.0], [1])
    for r in runtimes:
        r.close()


def test_counts_say_what_happened(runtime: WgpuRuntime, scale: Kernel) -> None:
    b = KernelBuilder("unused")
    b.buffer("x", int32, "read")
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
