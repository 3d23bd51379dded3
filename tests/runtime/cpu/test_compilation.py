"""Code that other threads compile: who waits for it, what fails, and launches written before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from pyrite.errors import OutOfMemoryError
from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Kernel
from pyrite.recent import Recent
from pyrite.runtime.cpu.compilation import Compilations
from pyrite.runtime.cpu.executable import CpuExecutable
from pyrite.runtime.cpu.linker import Code
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.types import int32

COUNT = 64


def loaded(blob: bytes) -> Code:
    """Return what stands for the code of an object."""
    return cast(Code, blob)


def counted(made: list[str], name: str) -> Callable[[], bytes]:
    """Return what makes an object of a name, and notes it."""

    def make() -> bytes:
        made.append(name)
        return name.encode()

    return make


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_each_is_compiled_once_whoever_needs_it_first(threads: int) -> None:
    queue, made = Compilations(threads), list[str]()
    all = [queue.submit(counted(made, f"{n}"), loaded) for n in range(50)]

    got = [all[n].result() for n in (49, 0, 20, *range(50))]

    assert got == [f"{n}".encode() for n in (49, 0, 20, *range(50))]
    assert sorted(made, key=int) == [f"{n}" for n in range(50)]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_each_is_kept_once_also_where_nobody_needs_it(threads: int) -> None:
    queue, kept = Compilations(threads), list[bytes]()
    all = [queue.submit(counted([], f"{n}"), loaded, kept.append) for n in range(20)]
    for n in (0, 7, 19):
        all[n].result()
    for thread in threading.enumerate():
        if thread.name == "pyrite-compiles":
            thread.join(10)

    wanted = range(20) if threads else (0, 7, 19)
    assert sorted(kept) == sorted(f"{n}".encode() for n in wanted)


def test_what_is_done_later_is_done_by_another_thread_even_where_none_compiles() -> None:
    queue, ran = Compilations(0), list[threading.Thread]()
    queue.do_later(lambda: ran.append(threading.current_thread()))
    for thread in threading.enumerate():
        if thread.name == "pyrite-compiles":
            thread.join(10)

    assert len(ran) == 1
    assert ran[0] is not threading.current_thread()


def test_many_threads_get_the_same_code() -> None:
    queue, made = Compilations(2), list[str]()
    one = queue.submit(counted(made, "x"), lambda blob: cast(Code, object()))
    found: list[Code] = []
    threads = [threading.Thread(target=lambda: found.append(one.result())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == ["x"]
    assert len(found) == 8
    assert all(code is found[0] for code in found)


def test_what_failed_elsewhere_is_an_error_of_whoever_needs_it_and_is_tried_again() -> None:
    queue, tries = Compilations(1), list[str]()
    failed = threading.Event()

    def make() -> bytes:
        tries.append(threading.current_thread().name)
        if len(tries) <= 2:
            failed.set()
            raise OutOfMemoryError("no room")
        return b"code"

    one = queue.submit(make, loaded)
    assert failed.wait(10)
    with pytest.raises(OutOfMemoryError, match="no room"):
        one.result()

    assert one.result() == b"code"
    assert len(tries) == 3
    assert tries[0] != tries[1] == tries[2]


def test_while_one_is_compiled_elsewhere_who_waits_compiles_others() -> None:
    queue = Compilations(1)
    begun, end = threading.Event(), threading.Event()
    by = dict[str, str]()

    def slow() -> bytes:
        begun.set()
        assert end.wait(10)
        return b"slow"

    def other() -> bytes:
        by["other"] = threading.current_thread().name
        end.set()
        return b"other"

    first = queue.submit(slow, loaded)
    assert begun.wait(10)
    queue.submit(other, loaded)

    assert first.result() == b"slow"
    assert by["other"] == threading.current_thread().name


def test_no_thread_is_left_when_nothing_waits() -> None:
    queue = Compilations(2)
    for n in range(10):
        queue.submit(counted([], f"{n}"), loaded).result()

    for thread in threading.enumerate():
        if thread.name == "pyrite-compiles":
            thread.join(10)
    assert "pyrite-compiles" not in {thread.name for thread in threading.enumerate()}


# ---- launches ----


def update(factor: int) -> Kernel:
    """Return a kernel of ``y = factor * y + c``, which tells in which order launches ran."""
    b = KernelBuilder(f"update{factor}", workgroup_size=COUNT)
    y, c = b.buffer("y", int32, "read_write"), b.scalar("c", int32)
    at = b.local_id(0)
    y.store(at, y.load(at) * factor + c)
    return b.build()


class Held:
    """A runtime that compiles nothing until it may, and what its updates come to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runtime = runtime = CpuRuntime(threads=2, cache=folder)
        self.known = runtime.compile(update(1))
        self.may, self.failures, compile = threading.Event(), 0, runtime.compiler.compile
        self.want = np.arange(COUNT, dtype=np.int32)
        self.y = runtime.upload(self.want)

        def late(text: str) -> bytes:
            assert self.may.wait(30)
            if self.failures:
                self.failures -= 1
                raise OutOfMemoryError("no room")
            return compile(text)

        monkeypatch.setattr(runtime.compiler, "compile", late)

    def code(self, factor: int) -> CpuExecutable:
        """Return an update, of which only that by 1 is compiled."""
        return self.known if factor == 1 else self.runtime.compile_later(update(factor))

    def note(self, factor: int, c: int) -> None:
        """Note what a launch does."""
        self.want = factor * self.want + c

    def check(self) -> None:
        """Compare."""
        np.testing.assert_array_equal(self.runtime.read(self.y, int32, (COUNT,)), self.want)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(tmp_path, monkeypatch)
    yield made
    made.may.set()
    made.runtime.close()


def test_launches_of_code_that_is_late_run_in_their_order(held: Held) -> None:
    for c, factor in enumerate((2, 1, 3, 1, 1, 2, 5)):
        held.runtime.launch(held.code(factor), [held.y, c], (1,))
        held.note(factor, c)
    before = held.runtime.stream.executor.submitted
    held.runtime.stream.hand_over()  # which waits for no compiler
    assert held.runtime.stream.executor.submitted == before
    held.may.set()

    held.check()
    assert held.runtime.report()["launches"] == 7


def test_a_bundle_is_launched_with_other_operands_while_its_code_is_late(held: Held) -> None:
    runtime, other = held.runtime, held.runtime.upload(np.zeros(COUNT, np.int32))
    bundle = runtime.bundle([
        BundledLaunch(held.code(factor), (place, Fixed(c)), (1,))
        for c, (place, factor) in enumerate([(0, 2), (1, 3), (0, 1), (0, 5)], start=1)
    ])  # fmt: skip
    for operands in ([held.y, other], [held.y, other]):
        bundle.launch(operands)
        operands.reverse()  # what was launched has its own
        for factor, c in ((2, 1), (1, 3), (5, 4)):
            held.note(factor, c)
    assert not bundle.is_settled
    held.may.set()

    held.check()
    np.testing.assert_array_equal(runtime.read(other, int32, (COUNT,)), [8] * COUNT)
    bundle.launch([held.y, other])
    assert bundle.is_settled
    for factor, c in ((2, 1), (1, 3), (5, 4)):
        held.note(factor, c)
    held.check()


def test_what_does_not_compile_is_an_error_of_each_read_until_it_does(held: Held) -> None:
    for c, factor in enumerate((1, 2, 3)):
        held.runtime.launch(held.code(factor), [held.y, c], (1,))
        held.note(factor, c)
    held.failures = 6
    held.may.set()
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="no room"):
            held.runtime.read(held.y, int32, (COUNT,))
    held.failures = 0

    held.check()


def test_a_kernel_that_nobody_holds_any_more_runs_when_it_is_compiled(held: Held) -> None:
    held.runtime.launch(held.code(7), [held.y, 1], (1,))
    held.note(7, 1)
    held.runtime._executables = Recent(1)
    gc.collect()
    held.may.set()

    held.check()


def test_what_is_compiled_at_once_is_not_late(held: Held) -> None:
    held.may.set()
    late = held.runtime.compile_later(update(9))

    assert held.runtime.compile(update(9)) is late
    assert late.code.code is not None
    assert held.runtime.report()["compiled"] == 2
