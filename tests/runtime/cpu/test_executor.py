"""The executor: which thread runs which chunks of a command."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.executor import Executor, Program, command
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.module import Compiler

#: Seconds after which a test that waits for a thread fails.
LONG = 60
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Submit = Callable[[Callable[[int], None], int], None]


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Submit]:
    """Run a function of the number of a chunk for each chunk, by two workers and nobody else."""
    executor = Executor(Compiler(host_target(), DiskCache(tmp_path)), 2, patience=1000)
    functions = []

    def run(function: Callable[[int], None], chunks: int) -> None:
        undone, done = threading.Semaphore(chunks - 1), threading.Event()

        def chunk(_slots: int, begin: int, end: int) -> None:
            assert end == begin + 1
            function(begin)
            if not undone.acquire(blocking=False):
                done.set()

        native = _FUNCTION(chunk)
        functions.append(native)
        address = ctypes.cast(native, ctypes.c_void_p).value
        assert address is not None
        program = Program()
        program.extend(command(address, (chunks, 1, 1), (), 1), 1)
        executor.submit(program)
        # Not `executor.wait`, which would take part.
        assert done.wait(LONG)

    yield run
    executor.close()


@pytest.mark.parametrize("chunks", [2, 4, 5, 100])
def test_each_thread_begins_with_its_own_share(submit: Submit, chunks: int) -> None:
    both = threading.Barrier(2, timeout=LONG)
    first: dict[str, int] = {}

    def note(chunk: int) -> None:
        name = threading.current_thread().name
        if name not in first:
            first[name] = chunk
            both.wait()

    submit(note, chunks)

    assert first == {"pyrite-cpu-0": 0, "pyrite-cpu-1": chunks // 2}


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


def test_a_single_chunk_is_run_once(submit: Submit) -> None:
    run: list[int] = []
    for _ in range(100):
        submit(run.append, 1)

    assert run == [0] * 100
