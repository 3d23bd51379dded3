"""The executor: which thread runs which chunks of a command, and when it begins."""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from pyrite.errors import DeviceError
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.executor import CommandBuffer, Executor, command
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.stream import Stream

#: Seconds after which a test that waits for a thread fails.
LONG = 60
#: The word of the state in `executor.ll` that counts workers asleep.
SLEEPERS = 33
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Submit = Callable[..., None]


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    """Two threads that sleep as soon as they have nothing to do."""
    executor = Executor(Compiler(host_target(), DiskCache(tmp_path)), 2, patience=0)
    yield executor
    executor.close()


class Chunks:
    """A command that runs a Python function of the number of a chunk."""

    def __init__(self, function: Callable[[int], None], count: int) -> None:
        self._function = function
        self._undone, self._done = threading.Semaphore(count - 1), threading.Event()
        self._native = _FUNCTION(self._run)
        address = ctypes.cast(self._native, ctypes.c_void_p).value
        assert address is not None
        self.words = array("q", command(address, (count, 1, 1), b"", 1))

    def _run(self, _slots: int, begin: int, end: int) -> None:
        assert end == begin + 1
        self._function(begin)
        if not self._undone.acquire(blocking=False):
            self._done.set()

    def wait(self) -> None:
        """Not `Executor.wait`, which would take part."""
        assert self._done.wait(LONG)


@pytest.fixture
def submit(executor: Executor) -> Iterator[Submit]:
    """Run chunks by two workers and nobody else."""
    held = []

    def run(function: Callable[[int], None], count: int) -> None:
        chunks, program = Chunks(function, count), CommandBuffer()
        held.append(chunks)
        program.words.extend(chunks.words)
        executor.submit(program)
        chunks.wait()

    yield run
    # Threads may be on their way out of the last chunk.
    executor.wait(executor.submitted)


@pytest.mark.parametrize(("chunks", "second"), [(2, 1), (4, 2), (5, 3), (100, 50)])
def test_each_thread_begins_with_its_own_share(submit: Submit, chunks: int, second: int) -> None:
    both = threading.Barrier(2, timeout=LONG)
    first: dict[str, int] = {}

    def note(chunk: int) -> None:
        name = threading.current_thread().name
        if name not in first:
            first[name] = chunk
            both.wait()

    submit(note, chunks)

    assert first == {"pyrite-cpu-0": 0, "pyrite-cpu-1": second}


@pytest.mark.parametrize("chunks", [1, 2, 3, 64, 1001])
def test_every_chunk_is_run_once(submit: Submit, chunks: int) -> None:
    run: list[int] = []
    for _ in range(3):
        submit(run.append, chunks)

    assert sorted(run) == sorted([*range(chunks)] * 3)


def test_a_thread_that_is_held_up_is_helped(submit: Submit) -> None:
    others = threading.Semaphore(0)
    run: list[int] = []

    def note(chunk: int) -> None:
        run.append(chunk)
        if chunk:
            others.release()
            return
        for _ in range(7):
            assert others.acquire(timeout=LONG)

    submit(note, 8)

    assert sorted(run) == list(range(8))


# ---- when launches are handed over ----


def test_launches_that_are_work_enough_together_are_handed_over(executor: Executor) -> None:
    stream = Stream(executor, together=100.0)
    run: list[int] = []
    chunks = [Chunks(run.append, 1), Chunks(run.append, 4)]
    stream.extend(chunks[0].words.tobytes(), 99.0)
    before = executor.submitted
    stream.extend(chunks[1].words.tobytes(), 1.0)
    chunks[1].wait()

    assert (before, executor.submitted) == (0, 1)
    assert (run[0], sorted(run[1:])) == (0, [0, 1, 2, 3])
    stream.synchronize()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux tells who slept")
def test_those_that_are_less_wait_for_a_reader_who_wakes_nobody(executor: Executor) -> None:
    stream = Stream(executor, together=100.0)
    run: list[int] = []

    def note(_: int) -> None:
        run.append(threading.get_ident())

    chunks = [Chunks(note, 1) for _ in range(3)]
    # Workers that come from their start look for work once, then say that they will sleep, and do.
    while executor._counters[SLEEPERS] < executor.width or not are_asleep(executor):
        time.sleep(0.001)
    slept = [sleeps(thread) for thread in executor._threads]
    for one in chunks:
        stream.extend(one.words.tobytes(), 1.0)
    before = executor.submitted
    stream.synchronize()
    time.sleep(0.05)  # who was woken sleeps again by then

    assert (before, executor.submitted, run) == (0, 1, [threading.get_ident()] * 3)
    assert [sleeps(thread) for thread in executor._threads] == slept


def test_what_threads_add_at_the_same_time_runs_once_in_the_order_of_each(
    executor: Executor,
) -> None:
    stream = Stream(executor, together=50.0)
    run: list[tuple[int, int]] = []

    def one(thread: int, n: int) -> Chunks:
        return Chunks(lambda _: run.append((thread, n)), 1)

    chunks = [[one(thread, n) for n in range(100)] for thread in range(4)]

    def add(mine: list[Chunks]) -> None:
        for c in mine:
            stream.extend(c.words.tobytes(), 1.0)

    threads = [threading.Thread(target=add, args=(mine,)) for mine in chunks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    counted = stream.launches
    stream.synchronize()

    assert counted == 400
    assert len(run) == len(set(run)) == 400
    for thread in range(4):
        assert [n for of, n in run if of == thread] == list(range(100))
    assert stream.done() == stream.now()


def sleeps(thread: threading.Thread) -> str:
    """Return how often a thread went to sleep."""
    return told(thread, "voluntary")


def are_asleep(executor: Executor) -> bool:
    """Return whether each worker is off its processor, for it to be woken."""
    return all("S" in told(thread, "State:").split() for thread in executor._threads)


def told(thread: threading.Thread, of: str) -> str:
    """Return what Linux tells of a thread: the line that begins so."""
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(of))


def test_one_thread_begins_what_is_handed_over_by_who_goes_on_recording(tmp_path: Path) -> None:
    executor = Executor(Compiler(host_target(), DiskCache(tmp_path)), 1, patience=0)
    stream = Stream(executor, together=100.0)
    chunks = Chunks(lambda _: None, 1)
    stream.extend(chunks.words.tobytes(), 100.0)
    chunks.wait()
    executor.close()


def test_a_flush_leaves_the_processor_to_the_launch(executor: Executor) -> None:
    stream, both = Stream(executor, together=1.0), threading.Barrier(2, timeout=LONG)

    def meet(_: int) -> None:
        both.wait()

    # The first time a thread may still be on its way from its start.
    for _ in range(3):
        chunks = Chunks(meet, 4)
        stream.extend(chunks.words.tobytes(), 1.0)
        stream.flush()
        chunks.wait()
        stream.synchronize()


def test_a_thread_that_the_system_refuses_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def refuse_the_third(thread: threading.Thread) -> None:
        if thread.name == "pyrite-cpu-2":
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with pytest.raises(DeviceError, match=r"cpu requires 4 threads, got 2 \(can't .*THREADS"):
        Executor(Compiler(host_target(), DiskCache(tmp_path)), 4, patience=0)

    assert len(started) == 2
    assert not any(thread.is_alive() for thread in started)
