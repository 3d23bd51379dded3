"""The thread that encodes: the same values in the same order, and the errors that others see."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from struct import Struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu import WgpuRuntime, open_device
from pyrite.runtime.wgpu.encoding_thread import EncodingThread
from pyrite.runtime.wgpu.launches import BoundLaunch
from pyrite.runtime.wgpu.memory import Storage
from pyrite.runtime.wgpu.native_calls import HEAD, LAUNCHES_BEFORE, later
from pyrite.runtime.wgpu.queue import LOOK_AFTER
from pyrite.types import float32

ONES = np.ones(64, np.float32)
LAUNCHES = 40


@pytest.fixture(autouse=True)
def none_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an application has a buffer in hand the caller's thread encodes."""
    monkeypatch.setattr(Storage, "is_any_lent", False)


@pytest.fixture
def early(device: Any) -> Iterator[WgpuRuntime]:
    """A runtime that takes the device for one in hardware."""
    if EncodingThread.of(device.raw) is None:
        pytest.skip("no machine code, or no semaphores of C")
    runtime = WgpuRuntime(replace(device, is_software=False))
    yield runtime
    runtime.close()


class Doubling:
    """A program that multiplies what it is given LAUNCHES times by a number."""

    def __init__(self, runtime: WgpuRuntime, scale: Kernel) -> None:
        executable = runtime.compile(scale)
        steps = [
            BundledLaunch(executable, (n, n + 1, Fixed(64), LAUNCHES + 1), (1,))
            for n in range(LAUNCHES)
        ]
        self.memory = runtime.bundle_memory([256] * LAUNCHES, range(LAUNCHES - 1))
        self.bundle = runtime.bundle(steps)

    def __call__(self, x: Any, number: float) -> Any:
        operands = [x, *self.memory.buffers(), number]
        self.bundle.launch(operands)
        return operands[LAUNCHES]


def started(runtime: WgpuRuntime, program: Doubling) -> Any:
    """Run a program until the thread has a job; return the last result."""
    y = runtime.upload(ONES)
    for _ in range(40):
        y = program(y, 1.0)
        if runtime._queue._begun is not None:
            return y
    raise AssertionError("no job was begun")


def test_results_are_those_of_the_callers_thread(early: WgpuRuntime, scale: Kernel) -> None:
    program = Doubling(early, scale)
    y, wanted, jobs = early.upload(ONES), 1.0, 0
    for n in range(60):
        number = 1.0 + (n % 7 - 3) / 4096
        y = program(y, number)
        wanted = wanted * number**LAUNCHES
        jobs += early._queue._begun is not None
        if n % 25 == 24:
            np.testing.assert_allclose(early.read(y, float32, (64,)), wanted, rtol=1e-3)
    assert jobs > 10
    np.testing.assert_allclose(early.read(y, float32, (64,)), wanted, rtol=1e-3)


def test_numbers_of_runs_that_overlap_are_their_own(early: WgpuRuntime, scale: Kernel) -> None:
    program = Doubling(early, scale)
    y = started(early, program)
    x, found = early.upload(ONES), []
    for n in range(30):
        found.append(program(x, 1.0 + n / 256))
    del y

    for n, one in enumerate(found):
        wanted = (1.0 + n / 256) ** LAUNCHES
        np.testing.assert_allclose(early.read(one, float32, (64,)), wanted, rtol=1e-4)


@pytest.mark.parametrize("how", ["wait", "is_done", "copy", "upload", "timed", "lent"])
def test_what_comes_next_comes_after_a_job(early: WgpuRuntime, scale: Kernel, how: str) -> None:
    program = Doubling(early, scale)
    started(early, program)
    y = program(early.upload(ONES), 1.01)
    begun = early._queue.submitted
    if how == "wait":
        early.wait(begun)
        assert early.is_done(begun)
    elif how == "is_done":
        while not early.is_done(begun):
            pass
    elif how == "copy":
        copy = early.allocate(256)
        early.copy(y, copy)
        y = copy
    elif how == "upload":
        y = program(program(early.upload(2 * ONES), 1.0), 1.01)
        y = program(y, 1.0)
    elif how == "lent":
        early.get_resource(y)
        y = program(y, 1.0)
    else:
        early.flush()
    wanted = 1.01**LAUNCHES * (2 if how == "upload" else 1)
    np.testing.assert_allclose(early.read(y, float32, (64,)), wanted, rtol=1e-4)


class Alone:
    """A program of one launch, as a call of an op is: y = x * number."""

    def __init__(self, runtime: WgpuRuntime, scale: Kernel) -> None:
        later.after(LAUNCHES_BEFORE)
        later.join()
        steps = [BundledLaunch(runtime.compile(scale), (0, 1, Fixed(64), 2), (1,))]
        self.memory, self.bundle = runtime.bundle_memory([256], ()), runtime.bundle(steps)

    def __call__(self, x: Any, number: float) -> Any:
        operands = [x, *self.memory.buffers(), number]
        self.bundle.launch(operands)
        return operands[1]


def started_alone(runtime: WgpuRuntime, program: Alone) -> None:
    """Run a program until the thread has a job."""
    x = runtime.upload(ONES)
    for _ in range(200):
        program(x, 1.0)
        if runtime._queue._begun is not None:
            return
    raise AssertionError("no job was begun")


def test_calls_of_one_launch_are_encoded_too(early: WgpuRuntime, scale: Kernel) -> None:
    program = Alone(early, scale)
    y, wanted, jobs = early.upload(ONES), 1.0, set()
    for n in range(1000):
        number = 1.0 + (n % 7 - 3) / 512
        y = program(y, number)
        wanted *= number
        if early._queue._begun is not None:
            jobs.add(early._queue._begun.number)
        if n == 500:
            np.testing.assert_allclose(early.read(y, float32, (64,)), wanted, rtol=1e-4)
    assert len(jobs) > 3
    np.testing.assert_allclose(early.read(y, float32, (64,)), wanted, rtol=1e-4)


def test_a_job_with_an_illegal_launch_poisons_what_it_writes_and_what_comes_after(
    early: WgpuRuntime, scale: Kernel
) -> None:
    program = Alone(early, scale)
    x = early.upload(ONES)
    started_alone(early, program)
    y = program(x, 2.0)
    bad = early._queue.pending.commands[-1]
    assert isinstance(bad, BoundLaunch)
    head = Struct("@" + HEAD)
    row = [*head.unpack_from(bad.row)]
    row[3] = 100_000  # more workgroups than an axis may have
    bad.row = head.pack(*row) + bad.row[head.size :]
    before = early._queue.pending.number
    good = program(x, 3.0)
    z = y
    while early._queue.submitted < before + 1:  # the job is begun, and that behind it
        z = program(y, 2.0)

    np.testing.assert_allclose(early.read(good, float32, (64,)), 3.0)
    for poisoned in (y, z):
        with pytest.raises(KernelError, match=r"scale requires a legal command(.|\n)*100000"):
            early.read(poisoned, float32, (64,))
    np.testing.assert_allclose(early.read(program(x, 5.0), float32, (64,)), 5.0)


def test_what_was_encoded_is_submitted_before_the_next_is_full(
    early: WgpuRuntime, scale: Kernel
) -> None:
    program = Alone(early, scale)
    x = early.upload(ONES)
    started_alone(early, program)
    number = early._queue.submitted
    while not early._queue._away.is_done:  # type: ignore[union-attr]
        pass
    for _ in range(LOOK_AFTER):
        program(x, 1.0)
    assert early._queue.encoded == number
    assert early._queue._begun is None


def test_threads_take_turns(early: WgpuRuntime, scale: Kernel) -> None:
    errors: list[Any] = []

    def work(number: float) -> None:
        program = Doubling(early, scale)
        x = early.upload(ONES)
        for n in range(40):
            y = program(x, number)
            if n % 13 == 12:
                got = early.read(y, float32, (64,))[0]
                if abs(got / number**LAUNCHES - 1) > 1e-3:
                    errors.append((number, got))

    threads = [threading.Thread(target=work, args=(1 + n / 100,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_memory_that_is_given_back_stays_until_the_job_is_done(
    early: WgpuRuntime, scale: Kernel
) -> None:
    for _ in range(5):
        program = Doubling(early, scale)
        y = started(early, program)
        program.memory = program.bundle = None  # type: ignore[assignment]
        early.trim()
        np.testing.assert_allclose(early.read(y, float32, (64,)), 1.0)


def test_a_runtime_that_is_closed_has_no_thread(device: Any, scale: Kernel) -> None:
    before = set(threading.enumerate())
    runtime = WgpuRuntime(replace(device, is_software=False))
    started(runtime, Doubling(runtime, scale))
    runtime.close()
    assert set(threading.enumerate()) == before


def test_a_runtime_that_is_let_go_of_ends_its_thread(device: Any, scale: Kernel) -> None:
    runtime = WgpuRuntime(replace(device, is_software=False))
    started(runtime, Doubling(runtime, scale))
    runtime.synchronize()
    thread = runtime._queue._away._thread  # type: ignore[union-attr]
    gone = weakref.ref(runtime)
    del runtime
    gc.collect()
    thread.join(10)
    assert gone() is None
    assert not thread.is_alive()


def test_a_device_that_is_destroyed_meanwhile_is_an_error(scale: Kernel) -> None:
    device = open_device()
    runtime = WgpuRuntime(replace(device, is_software=False))
    y = started(runtime, Doubling(runtime, scale))
    device.gpu.destroy()

    with pytest.raises(DeviceError):
        runtime.read(y, float32, (64,))
    with pytest.raises(DeviceError):
        runtime.flush()
    runtime.close()


def test_a_process_may_end_in_the_middle(program: Callable[[str], str]) -> None:
    for end in ("", "os.fork() or os._exit(0); os.wait()", "runtime.close()"):
        assert program(f"""
            from dataclasses import replace
            from pyrite.runtime.protocol import BundledLaunch, Fixed
            runtime = WgpuRuntime(replace(open_device(), is_software=False))
            kernel = runtime.compile(scale())
            fixed = Fixed(64), Fixed(1.0)
            steps = [BundledLaunch(kernel, (n, n + 1, *fixed), (1,)) for n in range(40)]
            bundle, memory = runtime.bundle(steps), runtime.bundle_memory([256] * 40, range(39))
            y = runtime.upload(ones)
            while runtime._queue._begun is None:
                operands = [y, *memory.buffers()]
                bundle.launch(operands)
                y = operands[40]
            {end}
            print("alive")
        """) == "alive\n"  # fmt: skip
