"""The dashboard as its user has it: keys in, text out, in windows of any size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partialmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from textual.app import App

from pyrite.train import (
    EpochEnded,
    EpochStarted,
    Logged,
    Paused,
    Reading,
    RunStarted,
    StepEnded,
)
from pyrite.train.view.watch import screen
from pyrite.train.view.watch.machine import MachineWatch, Usage
from pyrite.train.view.watch.screen import SHARE, Dashboard

HOSTILE = "[red]Loss[/] \x1b[2J\x1b]0;title\x07\x9b31m\u202e[@click=app.quit]x[/]"
Check = Callable[[Dashboard, Any], Awaitable[None]]


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the screen depends on where and when the test runs."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    use = Usage(8, 1.5, 6 << 30, 16 << 30, 1.25, 300 << 20)
    monkeypatch.setattr(MachineWatch, "use", lambda self: use)
    monkeypatch.delenv("NO_COLOR", raising=False)


def shown(dashboard: Dashboard) -> str:
    """The text on the screen, line by line."""
    strips = dashboard.screen._compositor.render_strips()
    lines = ("".join(segment.text for segment in strip).rstrip() for strip in strips)
    return "\n".join(lines) + "\n"


def using(dashboard: Dashboard, check: Check, size: tuple[int, int] = (80, 24)) -> None:
    async def main() -> None:
        async with dashboard.run_test(size=size) as pilot:
            await settled(dashboard, pilot)
            await check(dashboard, pilot)

    asyncio.run(main())


async def settled(dashboard: Dashboard, pilot: Any) -> None:
    """Wait until the file is read and drawn."""
    while dashboard._is_behind:
        await pilot.pause(0.01)
    dashboard.draw()
    await pilot.pause()
    dashboard.draw()
    await pilot.pause()


async def pressed(dashboard: Dashboard, pilot: Any, *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    dashboard.draw()
    await pilot.pause()
    return shown(dashboard)


def frame(folder: Path, size: tuple[int, int], *keys: str, **arguments: Any) -> str:
    """The screen after some keys, its folder as 'runs/x'."""
    frames: list[str] = []

    async def check(dashboard: Dashboard, pilot: Any) -> None:
        frames.append(await pressed(dashboard, pilot, *keys))

    dashboard = Dashboard(folder, **arguments)
    dashboard.name_of_run = "runs/x"
    using(dashboard, check, size)
    return frames[0]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (20, 5), (40, 12)])
def test_a_finished_run_looks_as_it_did(
    finished: Path, golden: Any, width: int, height: int
) -> None:
    golden(f"finished-{width}x{height}.txt", frame(finished, (width, height)))


def test_no_window_is_too_small_and_it_may_change_its_size(finished: Path) -> None:
    sizes = [(1, 1), (2, 3), (7, 4), (20, 5), (23, 9), (300, 6), (10, 100), (80, 24)]

    async def check(dashboard: Dashboard, pilot: Any) -> None:
        for width, height in sizes:
            await pilot.resize_terminal(width, height)
            lines = (await pressed(dashboard, pilot, "n", "w", "m")).splitlines()
            assert len(lines) == height
            assert all(len(line) <= width for line in lines)
        assert "┌" in shown(dashboard)

    using(Dashboard(finished), check)


def test_keys_choose_what_is_drawn(finished: Path) -> None:
    async def check(dashboard: Dashboard, pilot: Any) -> None:
        press = lambda *keys: pressed(dashboard, pilot, *keys)  # noqa: E731
        assert "▸ Loss" in shown(dashboard)
        assert "▸ Accuracy" in await press("n")
        assert "Learning rate  ⠒⠒ train" in await press("n")
        assert "▸ Accuracy" in await press("left")
        assert "recent" in await press("w")
        assert "recent, mean of 3%" in await press("m")
        assert "recent, mean of 10%" in await press("m")
        assert "mean of" not in await press("m")
        assert "┌" not in await press("l")
        assert "┌" in await press("l")
        assert "next metric" in await press("question_mark")
        assert "Any key closes this" not in await press("a")

    using(Dashboard(finished), check)


def test_keys_command_the_run(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    write_run(tmp_path, run_of(4)[:20])
    sent: list[str] = []

    async def check(dashboard: Dashboard, pilot: Any) -> None:
        assert "asked the run to pause" in await pressed(dashboard, pilot, "p")
        await pressed(dashboard, pilot, "p", "p")  # before the run answers
        assert sent == ["pause", "resume", "pause"]
        del sent[:2]
        write_run(tmp_path, [(1_700_000_050.0, Paused(1, 3))])
        dashboard.look()
        assert "paused" in (await pressed(dashboard, pilot)).splitlines()[0]
        await pressed(dashboard, pilot, "space", "s", "x", "ctrl+c")
        assert sent == ["pause", "resume", "save", "stop", "interrupt"]
        assert "y / n" in await pressed(dashboard, pilot, "X")
        await pressed(dashboard, pilot, "n")
        await pressed(dashboard, pilot, "X", "enter")
        assert sent[5:] == []
        await pressed(dashboard, pilot, "X", "y")
        assert sent[5:] == ["abort"]
        assert dashboard.is_running

    using(Dashboard(tmp_path, send=sent.append), check)


def test_a_run_that_listens_no_more_is_said_to(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    write_run(tmp_path, run_of(4)[:20])

    def send(command: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    text = frame(tmp_path, (80, 24), "p", send=send)
    assert "the run does not listen any more: Broken pipe" in text


def test_without_a_pipe_nothing_is_commanded(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    write_run(tmp_path, run_of(4)[:20])

    async def check(dashboard: Dashboard, pilot: Any) -> None:
        for key in ("p", "s", "x", "X"):
            dashboard._message = ""
            assert "this window only watches" in await pressed(dashboard, pilot, key)

    using(Dashboard(tmp_path), check)


def test_a_run_that_is_over_takes_no_command(finished: Path) -> None:
    sent: list[str] = []
    assert "the run has ended" in frame(finished, (80, 24), "p", send=sent.append)
    assert sent == []


def test_q_and_ctrl_c_leave(finished: Path) -> None:
    for key, status in (("q", 0), ("ctrl+c", 130)):

        async def check(dashboard: Dashboard, pilot: Any, key: str = key) -> None:
            await pilot.press(key)

        dashboard = Dashboard(finished)
        using(dashboard, check)
        assert dashboard.return_code == status


def test_a_run_is_compared_with_another(
    tmp_path: Path, write_run: Any, run_of: Any, golden: Any
) -> None:
    for name, epochs in (("a", 4), ("b", 6)):
        (tmp_path / name).mkdir()
        write_run(tmp_path / name, run_of(epochs))
    (tmp_path / "empty").mkdir()
    text = frame(tmp_path / "a", (80, 24), "c", "enter")
    assert "compared train" in text
    assert "compared: best" in text
    assert "@ 6" in text
    assert "no run is compared" in frame(tmp_path / "a", (80, 24), "c", "enter", "c")
    assert "compared" not in frame(tmp_path / "a", (80, 24), "c", "escape")
    golden("compared-80x24.txt", frame(tmp_path / "a", (80, 24), compared=tmp_path / "b"))


def test_there_may_be_nothing_to_compare_with(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    (tmp_path / "only").mkdir()
    write_run(tmp_path / "only", run_of(1))
    assert "there is no other run in" in frame(tmp_path / "only", (80, 24), "c")


def test_it_waits_for_a_run_and_shows_it_when_it_begins(
    tmp_path: Path, write_run: Any, run_of: Any
) -> None:
    async def check(dashboard: Dashboard, pilot: Any) -> None:
        assert "waiting for events.jsonl: No such file" in shown(dashboard)
        write_run(tmp_path, run_of(4)[:9])
        dashboard.look()
        await settled(dashboard, pilot)
        assert "▸ Loss" in shown(dashboard)
        assert "waiting" not in shown(dashboard)

    using(Dashboard(tmp_path), check)


def test_a_process_that_is_gone_is_told(
    tmp_path: Path, write_run: Any, run_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, run_of(4)[:20])
    monkeypatch.setattr(MachineWatch, "is_alive", property(lambda self: False))
    first = frame(tmp_path, (80, 24)).splitlines()[0]
    assert "its process has ended without a word" in first
    assert first.endswith("  0:16")  # and no longer than it was heard of


@pytest.mark.parametrize("in_good_order", [True, False])
def test_a_run_that_ended_before_its_dashboard_was_there_closes_it(
    finished: Path, in_good_order: bool
) -> None:
    dashboard = Dashboard(finished, ended=lambda: in_good_order)
    asyncio.run(asyncio.wait_for(dashboard.run_async(headless=True), 60))
    assert dashboard.return_code == 0
    assert dashboard.is_orphan == (not in_good_order)


def test_a_run_from_which_nothing_is_heard_is_said_to_be_silent(
    tmp_path: Path, write_run: Any, run_of: Any
) -> None:
    write_run(tmp_path, run_of(4)[:20])
    assert "running, silent for " in frame(tmp_path, (80, 24))


def test_nothing_that_a_file_says_is_obeyed(tmp_path: Path, write_run: Any) -> None:
    values = (Reading(HOSTILE, 0.5, HOSTILE, "lower"), Reading("[bold", 0.5))
    began = 1_700_000_000.0
    folder = tmp_path / "own"
    folder.mkdir()
    write_run(
        folder,
        [
            (began, RunStarted(HOSTILE, 0, 2, 1, Path("x"), 0)),
            (began, EpochStarted(1, 2, 0, 2)),
            (began + 1, StepEnded("train", 1, 1, 2, values, 1.0)),
            (began + 2, EpochEnded(HOSTILE, 1, values, 1.0)),
            (began + 2, StepEnded(HOSTILE, 1, 1, 2, values, 1.0)),
            (began + 3, Logged(HOSTILE, HOSTILE, HOSTILE)),
        ],
    )
    other = folder.parent / "[b]x\x1b[2J"
    other.mkdir()
    write_run(other, [(began, RunStarted("cpu", 0, 2, 1, None))])
    for keys in ((), ("n", "l"), ("question_mark",), ("c",), ("c", "enter")):
        text = frame(folder, (200, 60), *keys)
        assert {c for c in text if not c.isprintable()} == {"\n"}
    assert r"[red]Loss[/] \x1b[2J" in frame(folder, (200, 60))


def test_an_endless_number_of_metrics_fits(tmp_path: Path, write_run: Any) -> None:
    values = tuple(Reading(f"m{i}", float(i), "", "lower") for i in range(300))
    write_run(tmp_path, [(1.0, RunStarted("cpu", 0, 1, 1, None)), (1.0, EpochStarted(1, 1, 0, 9)),
                         (2.0, StepEnded("train", 1, 1, 9, values, 1.0))])  # fmt: skip
    assert len(frame(tmp_path, (80, 24)).splitlines()) == 24


@pytest.mark.parametrize("values", [[float("nan")] * 3, [1e308, -1e308, 0.0], [5e-324, 0, 1], [7]])
def test_any_values_can_be_drawn(tmp_path: Path, write_run: Any, values: list[float]) -> None:
    began = [(1.0, RunStarted("cpu", 0, 1, 1, None)), (1.0, EpochStarted(1, 1, 0, 3))]
    steps = [
        (2.0, StepEnded("train", 1, i, 3, (Reading("Loss", value),), 1.0))
        for i, value in enumerate(values, start=1)
    ]
    write_run(tmp_path, [*began, *steps])
    assert "Loss  ⠒⠒ train" in frame(tmp_path, (80, 24), "m", "w")


def test_readings_that_are_no_numbers_are_told_from_none(tmp_path: Path, write_run: Any) -> None:
    began = [(1.0, RunStarted("cpu", 0, 1, 1, None)), (1.0, EpochStarted(1, 1, 0, 3))]
    write_run(tmp_path, began)
    assert "no reading yet" in frame(tmp_path, (80, 24))
    readings = (Reading("Loss", float("nan")), Reading("Speed", float("-inf")))
    write_run(tmp_path, [(2.0, StepEnded("train", 1, 1, 3, readings, 1.0))])
    for keys in ((), ("n",)):
        assert "all readings so far are NaN or infinite" in frame(tmp_path, (80, 24), *keys)


def test_frames_that_are_dear_are_fewer(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(dashboard: Dashboard, pilot: Any) -> None:
        now, used, frames = [100.0], [0.0], []
        dashboard._frame_at, dashboard._used = 0.0, 0.0
        monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(screen.time, "process_time", lambda: used[0])
        monkeypatch.setattr(dashboard, "draw", lambda: frames.append(now[0]))
        for cost, until in ((0.001, 103.0), (2 * SHARE, 109.0), (1.0, 118.0)):
            while now[0] < until:
                count = len(frames)
                dashboard.look()
                used[0] += cost * (len(frames) - count)
                now[0] += 0.25
        gaps = [after - before for before, after in pairwise(frames)]
        assert set(gaps[:5]) == {0.5}
        assert set(gaps[6:8]) <= {2.0, 2.25}
        assert set(gaps[-2:]) == {3.0}

    using(Dashboard(finished), check)


def test_without_colours_splits_have_marks_of_their_own(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def check(dashboard: Dashboard, pilot: Any) -> None:
        strips = dashboard.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        colours = {c.name for style in styles for c in (style.color, style.bgcolor) if c}
        assert colours == {"default"}
        assert "⠒⠒ train  ● valid" in shown(dashboard)

    using(Dashboard(finished), check)


def test_a_dashboard_that_breaks_says_so_in_a_line_and_where_to_read_more(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Dashboard) -> None:
        raise ValueError("no such \x1b[31mcolour")

    monkeypatch.setattr(Dashboard, "draw", broken)
    monkeypatch.setattr(Dashboard, "run", partialmethod(App.run, headless=True))
    assert screen.show(finished) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"pyrite: the dashboard broke: ValueError: no such \x1b[31mcolour; see ")
    report = Path(line.rsplit(" ", 1)[1])
    assert "in broken" in report.read_text()
    report.unlink()
