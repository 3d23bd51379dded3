"""The CPU runtime: order, threads, memory, the cache between processes, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite.binding.ffi import ObjectRef

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Kernel
from pyrite.recent import Recent
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.protocol import Runtime
from pyrite.types import bool_, float32, int32, int64, uint32

#: Elements of a workgroup of the kernels below.
BLOCK = 256

#: To what `slow` counts, until it lasts long enough for a machine that is fast, or held up.
COUNTS = [25_000_000 << n for n in range(6)]

#: Seconds after which a process that hangs fails its test.
LONG = 300


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[CpuRuntime]:
    runtime = CpuRuntime(cache=tmp_path / "cache")
    yield runtime
    runtime.close()


def update(name: str = "update", *, factor: int = 3) -> Kernel:
    """y = factor * y + c, which tells in which order its launches ran."""
    b = KernelBuilder(name, index=int64)
    y, c = b.buffer("y", int32, "read_write"), b.scalar("c", int32)
    start = b.workgroup_id() * BLOCK
    with b.for_(start, start + BLOCK, step=16) as loop:
        v = y.load(loop.index, width=16)
        y.store(loop.index, v * factor + c)
    return b.build()


def slow() -> Kernel:
    """Counts to n in each workgroup."""
    b = KernelBuilder("slow", index=int64)
    y, n = b.buffer("y", int32, "read_write"), b.scalar("n", int64)
    i = b.workgroup_id()
    with b.for_(0, n) as loop:
        y[i] = y[i] + 1
        del loop
    return b.build()


def zeros(runtime: CpuRuntime, count: int) -> Any:
    return runtime.upload(np.zeros(count, np.int32))


def test_it_is_a_runtime(runtime: CpuRuntime) -> None:
    as_protocol: Runtime = runtime

    assert as_protocol.name == "cpu"
    assert "pyrite.runtime.cpu" not in str(as_protocol.memory_report())


# ---- order ----


@pytest.mark.parametrize("groups", [1, 2, 7, 300])
def test_launches_run_in_order_on_all_workgroups(runtime: CpuRuntime, groups: int) -> None:
    kernel, y = runtime.compile(update()), zeros(runtime, groups * BLOCK)
    expected = 0
    for c in range(200):
        runtime.launch(kernel, [y, c], [groups])
        expected = (expected * 3 + c + 2**31) % 2**32 - 2**31

    assert (runtime.read(y, int32, (groups * BLOCK,)) == expected).all()


def test_every_workgroup_runs_once_whatever_their_number(runtime: CpuRuntime) -> None:
    b = KernelBuilder("once")
    y = b.buffer("y", int32, "atomic")
    y.atomic("add", b.workgroup_id(), 1)
    kernel = runtime.compile(b.build())
    for groups in (0, 1, 2, 3, 1000, 12345):
        y_buffer = zeros(runtime, max(groups, 1))
        runtime.launch(kernel, [y_buffer], [groups])
        assert (runtime.read(y_buffer, int32, (groups,)) == 1).all()


def test_several_reads_wait_once(runtime: CpuRuntime) -> None:
    kernel = runtime.compile(update())
    buffers = [zeros(runtime, BLOCK) for _ in range(3)]
    for c, y in enumerate(buffers):
        runtime.launch(kernel, [y, c], [1])

    values = runtime.read_all([(y, int32, (2,)) for y in buffers])

    assert [v.tolist() for v in values] == [[0, 0], [1, 1], [2, 2]]
    assert runtime.report()["submissions"] == 1


def test_a_read_is_a_copy(runtime: CpuRuntime) -> None:
    kernel, y = runtime.compile(update()), zeros(runtime, BLOCK)
    before = runtime.read(y, int32, (BLOCK,))
    runtime.launch(kernel, [y, 5], [1])
    runtime.synchronize()

    assert (before == 0).all()


def test_copies_stand_in_the_stream(runtime: CpuRuntime) -> None:
    count = 3 << 20
    kernel, y = runtime.compile(update()), zeros(runtime, count)
    saved = runtime.allocate(4 * count)
    runtime.launch(kernel, [y, 7], [count // BLOCK])
    runtime.copy(y, saved)
    runtime.launch(kernel, [y, 0], [count // BLOCK])

    got = runtime.read_all([(saved, int32, (count,)), (y, int32, (count,))])

    assert [set(x.tolist()) for x in got] == [{7}, {21}]


def test_an_upload_does_not_overwrite_what_a_launch_still_reads(runtime: CpuRuntime) -> None:
    kernel, n = runtime.compile(slow()), 3_000_000
    results = []
    for i in range(20):
        y = runtime.upload(np.full(64, i, np.int32))
        runtime.launch(kernel, [y, n // 64], [64])
        saved = runtime.allocate(256)
        runtime.copy(y, saved)
        results.append((saved, int32, (64,)))
        runtime.flush()
        del y  # its block is free, but its launch is not done

    assert [set(x.tolist()) for x in runtime.read_all(results)] == [
        {i + n // 64} for i in range(20)
    ]


def test_a_flush_returns_before_the_work_is_done(runtime: CpuRuntime) -> None:
    def is_under_way(count: int) -> bool:
        y = zeros(runtime, 1)
        runtime.launch(runtime.compile(slow()), [y, count], [1])
        number = runtime.flush()
        under_way = not runtime.is_done(number)
        runtime.wait(number)
        assert runtime.is_done(number)
        assert runtime.read(y, int32, (1,)).tolist() == [count]
        return under_way

    assert any(is_under_way(count) for count in COUNTS)


def test_more_programs_than_the_ring_holds(runtime: CpuRuntime) -> None:
    kernel, y = runtime.compile(update(factor=1)), zeros(runtime, BLOCK)
    runtime.launch(runtime.compile(slow()), [zeros(runtime, 1), 20_000_000], [1])
    for _ in range(3000):
        runtime.launch(kernel, [y, 1], [1])
        runtime.flush()

    assert (runtime.read(y, int32, (BLOCK,)) == 3000).all()


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_any_number_of_threads_gives_the_same(tmp_path: Path, threads: int) -> None:
    runtime = CpuRuntime(threads=threads, cache=tmp_path)
    kernel, y = runtime.compile(update()), zeros(runtime, 64 * BLOCK)
    for _ in range(50):
        for c in range(20):
            runtime.launch(kernel, [y, c], [64])
        runtime.synchronize()
    got = runtime.read(y, int32, (64 * BLOCK,))
    runtime.close()

    expected = 0
    for i in range(1000):
        expected = (expected * 3 + i % 20 + 2**31) % 2**32 - 2**31
    assert (got == expected).all()


def test_many_threads_submit_and_read(runtime: CpuRuntime) -> None:
    kernel = runtime.compile(update(factor=1))
    wrong: list[object] = []

    def work(c: int) -> None:
        y = zeros(runtime, 8 * BLOCK)
        for i in range(200):
            runtime.launch(kernel, [y, c], [8])
            if i % 10 == 0:
                runtime.flush()
            if i % 50 == 49 and (runtime.read(y, int32, (8 * BLOCK,)) != c * (i + 1)).any():
                wrong.append((c, i))

    threads = [threading.Thread(target=work, args=(c,)) for c in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


def test_other_python_threads_run_while_one_waits(runtime: CpuRuntime) -> None:
    kernel, y = runtime.compile(slow()), zeros(runtime, 8)

    def rounds_during(count: int) -> int:
        rounds, is_waiting = 0, threading.Event()

        def wait() -> None:
            is_waiting.set()
            runtime.read(y, int32, (8,))

        runtime.launch(kernel, [y, count], [8])
        waiter = threading.Thread(target=wait)
        waiter.start()
        is_waiting.wait()
        while waiter.is_alive():
            rounds += 1
            time.sleep(0)
        waiter.join()
        return rounds

    assert any(rounds_during(count) > 10 for count in COUNTS)


# ---- kernels ----


def test_equal_kernels_are_compiled_once(runtime: CpuRuntime) -> None:
    first = runtime.compile(update("one name"))

    assert runtime.compile(update("another")) is first
    assert runtime.compile(update(factor=4)) is not first
    assert runtime.report()["compiled"] == 2


def test_code_that_nobody_holds_stays_until_its_launches_are_done(runtime: CpuRuntime) -> None:
    runtime._executables = Recent(1)
    data = runtime.upload(np.zeros(BLOCK, np.int32))
    for factor in range(1, 12):
        runtime.launch(runtime.compile(update(factor=factor)), [data, factor], [1])
    held = len(runtime._retired)
    got = runtime.read(data, int32, (BLOCK,))
    runtime.compile(update(factor=12))

    want = 0
    for factor in range(1, 12):
        want = factor * want + factor
    np.testing.assert_array_equal(got, np.full(BLOCK, want, np.int32))
    # All but two generations of one were forgotten, and those are gone once they have run.
    assert held == 9
    assert len(runtime._retired) <= 1
    assert runtime.report()["kernels"] == 2


def test_ctrl_c_in_a_finaliser_of_the_compiler_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at the n-th thing of LLVM that is let go of, for each n, while kernels come and go."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are the main thread's")
    runtime = CpuRuntime(threads=1, cache=tmp_path)
    runtime._executables = Recent(1)
    close, raised = ObjectRef.close, 0

    def work(first: int) -> None:
        for factor in range(first, first + 10):
            runtime.compile(update(factor=factor))

    work(0)
    for at in range(8):
        left = at

        def close_at(self: ObjectRef) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                signal.raise_signal(signal.SIGINT)
            close(self)

        monkeypatch.setattr(ObjectRef, "close", close_at)
        try:
            work(10 * (at + 1))
        except KeyboardInterrupt:
            raised += 1
        monkeypatch.setattr(ObjectRef, "close", close)
        assert left < 0
        assert raised == at + 1, f"lost at {at}"


def test_a_wide_workgroup_with_a_barrier(runtime: CpuRuntime) -> None:
    b = KernelBuilder("reverse", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    shared = b.shared(float32, 64)
    i = b.local_index()
    shared[63 - i] = x[b.global_id()]
    b.barrier()
    y[b.global_id()] = shared[i]
    data = np.arange(256, dtype=np.float32)
    out = runtime.allocate(1024)
    runtime.launch(runtime.compile(b.build()), [runtime.upload(data), out], [4])

    got = runtime.read(out, float32, (4, 64))

    np.testing.assert_array_equal(got, data.reshape(4, 64)[:, ::-1])


def test_an_illegal_kernel_is_refused_with_the_rule(runtime: CpuRuntime) -> None:
    b = KernelBuilder("illegal")
    y = b.buffer("y", float32, "read")
    y[0] = 1.0

    with pytest.raises(KernelError, match="store needs access write"):
        runtime.compile(b.build())


def test_bindings_and_grids_that_do_not_fit_are_refused(runtime: CpuRuntime) -> None:
    kernel, y = runtime.compile(update()), zeros(runtime, BLOCK)

    with pytest.raises(KernelError, match="requires 2 bindings, got 1"):
        runtime.launch(kernel, [y], [1])
    with pytest.raises(KernelError, match="'y' requires a buffer"):
        runtime.launch(kernel, [1, 1], [1])
    with pytest.raises(KernelError, match="'c' requires a number"):
        runtime.launch(kernel, [y, y], [1])
    with pytest.raises(KernelError, match=r"whole number.*int32.*2\.5"):
        runtime.launch(kernel, [y, 2.5], [1])
    with pytest.raises(KernelError, match="1 counts of workgroups"):
        runtime.launch(kernel, [y, 1], [1, 1])
    assert (runtime.read(y, int32, (BLOCK,)) == 0).all()


def test_a_read_or_copy_beyond_a_buffer_is_refused(runtime: CpuRuntime) -> None:
    y = zeros(runtime, 4)

    with pytest.raises(DeviceError, match="requires 20 bytes, got a buffer of 16"):
        runtime.read(y, int32, (5,))
    with pytest.raises(KernelError, match="requires 32 bytes, got 16"):
        runtime.copy(y, runtime.allocate(32))


def test_large_outputs_are_the_same_past_the_caches(runtime: CpuRuntime) -> None:
    b = KernelBuilder("double", index=int64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    start = b.workgroup_id() * 4096
    with b.for_(start, start + 4096, step=16) as loop:
        y.store(loop.index, x.load(loop.index, width=16) * 2.0, is_aligned=True)
    kernel, count = runtime.compile(b.build()), 5 << 20
    data = np.arange(count, dtype=np.float32)
    whole = runtime.allocate(4 * count + 256)
    for out in (runtime.allocate(4 * count), whole.view(4, 4 * count)):
        runtime.launch(kernel, [runtime.upload(data), out], [count // 4096])
        np.testing.assert_array_equal(runtime.read(out, float32, (count,)), data * 2)
    # Of the two only the aligned one may be stored so.
    assert runtime.report()["compiled"] == 2


def test_bools_are_one_byte(runtime: CpuRuntime) -> None:
    b = KernelBuilder("not")
    x, y = b.buffer("x", bool_, "read"), b.buffer("y", bool_, "write")
    y.store(0, ~x.load(0, width=4))
    out = runtime.allocate(4)
    data = np.array([True, False, False, True])
    runtime.launch(runtime.compile(b.build()), [runtime.upload(data), out], [1])

    assert runtime.read(out, bool_, (4,)).tolist() == [False, True, True, False]


# ---- memory ----


def test_memory_is_flat_over_many_steps(runtime: CpuRuntime) -> None:
    kernel = runtime.compile(update())
    reports = []
    for _ in range(300):
        y = zeros(runtime, 16 * BLOCK)
        for c in range(5):
            z = runtime.allocate(y.nbytes)
            runtime.launch(kernel, [z, c], [16])
        runtime.read(y, int32, (4,))
        del y, z
        reports.append(runtime.memory_report())

    assert reports[-1] == reports[10]
    assert reports[-1].live == 0


def test_trimming_waits_for_nothing_and_leaves_nothing(runtime: CpuRuntime) -> None:
    y = zeros(runtime, 1 << 20)
    del y
    runtime.trim()

    assert runtime.memory_report().reserved == 0


# ---- idleness, processes, the end ----


def test_an_idle_runtime_uses_no_processor(runtime: CpuRuntime) -> None:
    y = zeros(runtime, 64 * BLOCK)
    runtime.launch(runtime.compile(update()), [y, 1], [64])
    runtime.synchronize()

    def is_quiet() -> bool:
        before = time.process_time()
        time.sleep(0.1)
        return time.process_time() - before < 0.01

    # Workers look for more work for a moment, and other tests may have left some.
    assert any(is_quiet() for _ in range(100))


PROGRAM = """
import sys, numpy as np
from pathlib import Path
from pyrite.kernel.builder import KernelBuilder
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import int32
b = KernelBuilder("add")
y = b.buffer("y", int32, "read_write")
y.store(0, y.load(0, width=4) + 1)
runtime = CpuRuntime(cache=Path(sys.argv[1]))
kernel = runtime.compile(b.build())
x = runtime.upload(np.arange(4, dtype=np.int32))
runtime.launch(kernel, [x], [1])
report = runtime.report()
print(runtime.read(x, int32, (4,)).tolist(), report.get("compiled", 0))
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=LONG)
    # It was not closed: that it ends at once and silently is part of the test.
    assert (process.returncode, errors) == (0, "")
    return out.strip()


def test_another_process_loads_what_one_compiled(tmp_path: Path) -> None:
    assert finish(start(tmp_path)) == "[1, 2, 3, 4] 1"
    assert finish(start(tmp_path)) == "[1, 2, 3, 4] 0"


def test_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    finish(start(tmp_path))
    for file in [p for p in tmp_path.rglob("*") if p.is_file()]:
        file.write_bytes(file.read_bytes()[:-7])

    assert finish(start(tmp_path)) == "[1, 2, 3, 4] 1"


def test_processes_that_compile_the_same_at_once(tmp_path: Path) -> None:
    processes = [start(tmp_path) for _ in range(4)]

    assert {finish(p)[:12] for p in processes} == {"[1, 2, 3, 4]"}
    assert not list(tmp_path.rglob(".new-*"))


def test_after_close_every_method_is_one_clear_error(runtime: CpuRuntime) -> None:
    kernel, y = runtime.compile(update()), zeros(runtime, BLOCK)
    runtime.close()
    runtime.close()

    with pytest.raises(DeviceError, match="but it was closed"):
        runtime.launch(kernel, [y, 1], [1])
    with pytest.raises(DeviceError, match="but it was closed"):
        runtime.compile(update(factor=9))
    with pytest.raises(DeviceError, match="but it was closed"):
        runtime.read(y, int32, (1,))


def test_what_was_appended_is_done_before_the_end(runtime: CpuRuntime) -> None:
    y = zeros(runtime, 4)
    runtime.launch(runtime.compile(slow()), [y, 1000], [4])
    runtime.close()

    assert y.bytes().view(np.int32).tolist() == [1000] * 4


def test_a_runtime_that_nobody_holds_ends_its_threads(tmp_path: Path) -> None:
    runtime = CpuRuntime(cache=tmp_path)
    threads = [*runtime._executor._threads]
    assert threads
    assert all(thread.is_alive() for thread in threads)
    del runtime

    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_gets_a_clear_error(tmp_path: Path) -> None:
    program = f"""
import os, sys, warnings
warnings.simplefilter("ignore")  # that forking with threads is dangerous is the point
from pathlib import Path
from pyrite.errors import DeviceError
from pyrite.runtime.cpu.runtime import CpuRuntime
runtime = CpuRuntime(cache=Path({str(tmp_path)!r}))
child = os.fork()
if child == 0:
    try:
        runtime.synchronize()
    except DeviceError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True
    )

    assert "forked" in done.stdout
    assert "'spawn' or 'forkserver'" in done.stdout


def test_a_signal_reaches_python_while_it_waits(tmp_path: Path) -> None:
    program = f"""
import signal, threading, os, time, numpy as np
from pathlib import Path
from pyrite.kernel.builder import KernelBuilder
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import int32, int64
b = KernelBuilder("slow", index=int64)
y = b.buffer("y", int32, "read_write")
with b.for_(0, 100_000_000):
    y[0] = y[0] + 1
runtime = CpuRuntime(cache=Path({str(tmp_path)!r}))
kernel, x = runtime.compile(b.build()), runtime.upload(np.zeros(1, np.int32))
for _ in range(3_000):  # minutes of work on any machine; the child leaves it behind
    runtime.launch(kernel, [x], [1])
number = runtime.flush()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    runtime.wait(number)
except KeyboardInterrupt:
    print("interrupted, done:", runtime.is_done(number), flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True
    )

    assert done.stdout == "interrupted, done: False\n", done.stderr


@pytest.mark.parametrize("groups", [0, 1, 7, 5000])
def test_a_buffer_counts_the_workgroups_of_a_launch_when_its_turn_comes(
    runtime: CpuRuntime, groups: int
) -> None:
    counting = KernelBuilder("counting", index=int64)
    grid, n = counting.buffer("grid", uint32, "write"), counting.scalar("n", uint32)
    grid[0] = n
    for axis in (1, 2):
        grid[axis] = counting.const(1, uint32)
    counts, y = runtime.allocate(12), zeros(runtime, 5000 * BLOCK)

    runtime.launch(runtime.compile(counting.build()), [counts, groups], [1])
    runtime.launch_counted(runtime.compile(update()), [y, 1], counts)
    runtime.launch(runtime.compile(update("then")), [y, 5], [1])

    got = runtime.read(y, int32, (5000, BLOCK))
    wanted = (np.arange(5000) < groups).astype(np.int32)
    wanted[0] = 3 * wanted[0] + 5
    assert (got == wanted[:, None]).all()
