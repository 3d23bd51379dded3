"""Kernels that are compiled ahead: by a thread, each once, for sizes that have not come yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube import ahead as module
from pyrite.backend.cube.ahead import CompileAhead, breathe
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
def ahead() -> Iterator[CompileAhead]:
    found = CompileAhead()
    yield found
    found.stop()


def test_a_job_runs_once_by_its_key_and_an_error_ends_no_thread(ahead: CompileAhead) -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("fails")
        raise ValueError

    for key, job in (("a", lambda: done.append("a")), ("f", fail), ("b", lambda: done.append("b"))):
        ahead.submit(key, job)
        ahead.submit(key, job)
    ahead.finish()

    assert done == ["a", "fails", "b"]


def test_what_is_likely_comes_before_others(ahead: CompileAhead) -> None:
    done: list[str] = []
    is_asked = threading.Event()

    def likely() -> list[Callable[[], None]]:
        done.append("likely")
        return [lambda: done.append("of a likely one")]

    ahead.submit("wait", lambda: is_asked.wait())  # type: ignore[arg-type, return-value]
    ahead.submit("other", lambda: done.append("other"))
    ahead.submit("likely", likely, is_likely=True)
    is_asked.set()
    ahead.finish()

    assert done == ["likely", "of a likely one", "other"]


def test_jobs_of_a_job_come_before_others_and_none_is_lost_where_it_fails(
    ahead: CompileAhead,
) -> None:
    done: list[str] = []

    def parts() -> Iterator[Callable[[], None]]:
        for name in ("1", "2"):
            yield lambda name=name: done.append(name)  # type: ignore[misc]

    def fails() -> Iterator[Callable[[], None]]:
        yield lambda: done.append("never")
        raise ValueError

    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait()

    ahead.submit("wait", wait)
    begun.wait()
    ahead.submit("parts", parts)
    ahead.submit("fails", fails)
    ahead.submit("last", lambda: done.append("last"))
    go.set()
    ahead.finish()

    assert done == ["1", "2", "last"]


@pytest.mark.parametrize("computes", [True, False])
def test_the_thread_rests_after_a_job_where_the_process_computes_and_nobody_waits(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch, computes: bool
) -> None:
    monkeypatch.setattr(module, "REST", 1e9)
    monkeypatch.setattr(module, "BUSY", -1.0 if computes else 1e9)
    second = threading.Event()
    done: list[str] = []
    first = threading.Event()

    def job() -> None:
        sum(range(100_000))
        done.append("a")
        first.set()

    ahead.submit("a", job)
    ahead.submit("b", lambda: (done.append("b"), second.set())[0])
    first.wait()

    if computes:
        sleep(0.05)
        assert done == ["a"]
    else:
        assert second.wait(60)
    ahead.finish()
    assert done == ["a", "b"]


def test_jobs_wait_for_a_pause_and_for_each_other(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that somebody waits for puts off those that nobody waits for."""
    monkeypatch.setattr(module, "PAUSE", 1000.0)
    ahead.note()
    done: list[str] = []
    ahead.submit("a", lambda: done.append("a"))

    ahead.stop()

    assert done == []


def test_the_thread_ends_with_the_job_that_runs(ahead: CompileAhead) -> None:
    begun, go, done = threading.Event(), threading.Event(), []

    def job() -> None:
        ahead.note()
        begun.set()
        go.wait()
        done.append(1)

    ahead.submit("a", job)
    ahead.submit("b", lambda: done.append(2))
    begun.wait()
    stopping = threading.Thread(target=ahead.stop)
    stopping.start()
    go.set()
    stopping.join()
    ahead.submit("c", lambda: done.append(3))

    assert done[:1] == [1]
    assert 3 not in done


def test_nothing_is_compiled_ahead_where_the_setting_says_so(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "ahead", False)
    ahead.submit("a", lambda: pytest.fail("it ran"))
    ahead.finish()


WINDOWS: dict[str, Any] = {
    "stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1,
}  # fmt: skip


@pytest.mark.parametrize("way", ["forward", "gradient of x", "gradient of the weight", "product"])
def test_a_second_size_of_a_convolution_finds_its_kernel(way: str) -> None:
    backend = CubeBackend(InterpreterRuntime(Machine.cpu(16, 32)))
    device = Device(backend)
    random = np.random.default_rng(0)
    kernel = 1 if way == "product" else 3
    weight = random.integers(-3, 4, (4, 2, kernel, kernel)).astype("float32")
    how = WINDOWS | ({"padding": ((0, 0), (0, 0))} if kernel == 1 else {})
    built = []
    for sizes in ((9, 10), (13, 7), (11, 19)):
        x = random.integers(-3, 4, (3, 2, *sizes)).astype("float32")
        g = random.integers(-3, 4, (3, 4, *sizes)).astype("float32")
        before = backend.launcher.kernels
        found, wanted = (run(way, on, x, weight, g, how) for on in (device, "numpy"))
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        built.append(backend.launcher.kernels - before)
        backend.launcher.ahead.finish()

    first, *others = built
    assert first > 0
    assert others == [0, 0]


STRIDED: dict[str, Callable[[pyrite.Tensor], pyrite.Tensor]] = {
    "pool": lambda x: x.max_pool2d(2),
    "broadcast": lambda x: x + x[:, :1],
    "every second": lambda x: x[..., ::2] * 2,
    "move": lambda x: x.pad(((0, 0), (0, 0), (1, 1), (0, 0)), mode="reflect"),
}


@pytest.mark.parametrize("name", STRIDED)
def test_a_second_size_finds_its_kernel_where_the_first_is_built_in(name: str) -> None:
    """Numbers of elements are taken apart by divisions, which cost less by sizes that are known."""
    backend = CubeBackend(InterpreterRuntime(Machine.cpu(16, 32)))
    built = []
    for sizes in ((4, 6), (6, 10), (8, 18)):
        x = pyrite.tensor(np.random.default_rng(0).normal(size=(3, 2, *sizes)).astype("float32"))
        before = backend.launcher.kernels
        found, wanted = (STRIDED[name](x.to(on)) for on in (Device(backend), "numpy"))
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        built.append(backend.launcher.kernels - before)
        backend.launcher.ahead.finish()

    assert built[0] > 0
    assert built[1:] == [0, 0]


def run(way: str, device: Any, x: Any, weight: Any, g: Any, how: Any) -> pyrite.Tensor:
    x, weight, g = (pyrite.tensor(a, device=device) for a in (x, weight, g))
    if way == "gradient of x":
        return g._convolution_input_gradient(weight, sizes=x.shape[2:], **how)
    if way == "gradient of the weight":
        return x._convolution_weight_gradient(g, kernel_size=(3, 3), **how)
    return x.convolution(weight, **how)


# ---- programs, which come first and in slices ----


def test_a_first_job_comes_before_others_and_rests_between_its_slices(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 0.0)
    rests: list[float] = []
    monkeypatch.setattr(ahead, "_rest", lambda seconds, look=0.0: rests.append(seconds))
    begin, done = threading.Event(), list[str]()

    def program() -> None:
        for _ in range(3):
            breathe()
        done.append("program")

    ahead.submit("blocks", lambda: (begin.wait(10), None)[1])
    ahead.submit("later", lambda: done.append("later"))
    ahead.submit_first(program)
    breathe()
    assert not rests, "nobody rests outside of the thread"
    begin.set()
    ahead.finish()
    assert done == ["program", "later"]
    assert len(rests) >= 3


def test_a_first_job_ends_where_it_breathes_when_the_process_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SLICE", 0.0)
    ahead = CompileAhead()
    begun, goes_on, done = threading.Event(), threading.Event(), list[str]()

    def program() -> None:
        begun.set()
        goes_on.wait(10)
        breathe()
        done.append("program")

    ahead.submit_first(program)
    assert begun.wait(10)
    stopping = threading.Thread(target=ahead.stop)
    stopping.start()
    while not ahead._is_stopped:
        sleep(0.001)
    goes_on.set()
    stopping.join(10)
    assert not stopping.is_alive()
    assert done == []


def test_a_first_job_that_is_wanted_is_waited_for_where_it_runs_and_else_run_at_once(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 1e6)
    ahead.note()
    done: list[threading.Thread] = []
    begun, goes_on = threading.Event(), threading.Event()

    def program() -> None:
        done.append(threading.current_thread())

    def other() -> None:
        begun.set()
        goes_on.wait(10)
        program()

    ahead.submit_first(program)
    ahead.finish_job(program)
    assert done == [threading.current_thread()]
    ahead.finish_job(program)
    assert len(done) == 1, "it is done, and no job any more"

    monkeypatch.setattr(module, "PAUSE", 0.0)
    ahead.submit_first(other)
    assert begun.wait(10)
    waiting = threading.Thread(target=lambda: ahead.finish_job(other))
    waiting.start()
    sleep(0.01)
    assert waiting.is_alive()
    goes_on.set()
    waiting.join(10)
    assert not waiting.is_alive()
    assert done[1:] == [ahead._thread]
