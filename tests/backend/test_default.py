"""The choice of the default device, with trials that are made to end in every way."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrite.backend import default
from pyrite.config import config

KNOWN = ("numpy", "cpu", "wgpu")


class Trials:
    """Stands for the processes that try a device: how each ends, and which were started."""

    def __init__(self, **ends: tuple[int, str] | Exception) -> None:
        self.ends = ends
        self.started: list[str] = []

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        name = command[-1]
        self.started.append(name)
        end = self.ends[name]
        if isinstance(end, Exception):
            raise end
        status, output = end
        errors = "thread panicked\n" if status else ""
        return subprocess.CompletedProcess(command, status, output, errors)


WORKS, SOFTWARE, ABORTS = (0, "null\n"), (0, '"imitated"\n'), (-6, "")


@pytest.fixture(autouse=True)
def _nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(config, "cache", str(tmp_path))
    default.best_device.cache_clear()
    yield
    default.best_device.cache_clear()


def trials(monkeypatch: pytest.MonkeyPatch, **ends: tuple[int, str] | Exception) -> Trials:
    found = Trials(**ends)
    monkeypatch.setattr(subprocess, "run", found)
    return found


def test_a_gpu_that_works_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch, wgpu=WORKS)

    assert default.best_device(KNOWN) == "wgpu"
    assert tried.started == ["wgpu"]


@pytest.mark.parametrize(
    "end",
    [SOFTWARE, ABORTS, OSError("no memory"), subprocess.TimeoutExpired("python", 1)],
    ids=["software", "aborts", "no process", "hangs"],
)
def test_a_gpu_that_fails_its_trial_leaves_the_processors(
    end: tuple[int, str] | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials(monkeypatch, wgpu=end, cpu=WORKS)

    assert default.best_device(KNOWN) == "cpu"
    assert default.problem_as_default("wgpu")


def test_numpy_is_left_when_nothing_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    trials(monkeypatch, wgpu=ABORTS, cpu=ABORTS)

    assert default.best_device(KNOWN) == "numpy"


def test_a_verdict_is_kept_until_it_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch, wgpu=ABORTS)

    verdicts = [default.problem_as_default("wgpu") for _ in range(3)]
    again = default.problem_as_default("wgpu", anew=True)

    assert tried.started == ["wgpu"] * 2
    assert {*verdicts, again} == {"its trial ended with status -6: thread panicked"}


@pytest.mark.parametrize(
    "end", [OSError("no memory"), (1, ""), (-9, "")], ids=["no process", "exception", "killed"]
)
def test_what_says_nothing_about_the_device_is_not_kept(
    end: tuple[int, str] | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = trials(monkeypatch, wgpu=end)

    default.problem_as_default("wgpu")
    default.problem_as_default("wgpu")

    assert tried.started == ["wgpu"] * 2


def test_a_hang_is_kept_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch, wgpu=subprocess.TimeoutExpired("python", default.PATIENCE))
    now = time.time()
    monkeypatch.setattr(default.time, "time", lambda: now)

    first, again = (default.problem_as_default("wgpu") for _ in range(2))
    assert tried.started == ["wgpu"]
    assert first == again
    assert "its trial hung: no end within 120 s; until " in (first or "")

    now += default.HANG_KEPT
    tried.ends["wgpu"] = WORKS
    assert default.problem_as_default("wgpu") is None
    assert tried.started == ["wgpu"] * 2


def test_a_hang_that_is_over_when_asked_for_anew_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = trials(monkeypatch, wgpu=subprocess.TimeoutExpired("python", default.PATIENCE))
    assert default.problem_as_default("wgpu")

    tried.ends["wgpu"] = WORKS
    assert default.problem_as_default("wgpu", anew=True) is None

    assert default.problem_as_default("wgpu") is None
    assert tried.started == ["wgpu"] * 2


def test_a_new_driver_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch, wgpu=ABORTS)
    default.problem_as_default("wgpu")

    monkeypatch.setattr(default, "_drivers", lambda: ["a new driver"])
    default.problem_as_default("wgpu")

    assert tried.started == ["wgpu"] * 2


def test_other_threads_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch, cpu=(0, '"cannot start 9999 threads"'))
    monkeypatch.setenv("PYRITE_THREADS", "9999")
    default.problem_as_default("cpu")

    monkeypatch.setenv("PYRITE_THREADS", "2")
    default.problem_as_default("cpu")

    assert tried.started == ["cpu"] * 2


def test_a_packed_application_starts_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trials(monkeypatch)
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    assert default.best_device(KNOWN) == "cpu"
    assert tried.started == []


def test_a_real_trial_ends_with_a_verdict() -> None:
    assert default.problem_as_default("cpu") is None
    assert "requires one of" in (default.problem_as_default("abacus") or "")
