"""Tables, bars and lines of a dashboard as text: no widget, so that a test reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from pyrite.train.reading import Reading, format_number
from pyrite.train.view.legible import legible
from pyrite.train.view.watch.machine import GPUReading, Usage
from pyrite.train.view.watch.run import Best, LogLine, RunState

#: Colours that are legible on light and on dark; marks tell the splits apart without any.
COLOURS = {"train": "cyan", "valid": "magenta", "test": "green"}
UNKNOWN = "–"
#: Before the name of the metric that is selected.
SELECTED = "▸ "
_STATUS = {"waiting": "yellow", "paused": "yellow", "stopping": "yellow", "running": "green"}
_LEVELS = {"warning": "yellow", "error": "red", "critical": "red"}


def colour(split: str) -> str:
    """Return the colour of a split."""
    return COLOURS.get(split, "default")


def duration(seconds: float | None) -> str:
    """Return seconds as a clock shows them.

    >>> [duration(s) for s in (None, 7.2, 75, 3725, 180_000)]
    ['–', '0:07', '1:15', '1:02:05', '2 d 02:00']
    """
    if seconds is None or not math.isfinite(seconds) or abs(seconds) > 1e9:
        return UNKNOWN
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def size(count: float) -> str:
    """Return bytes in the unit that people use.

    >>> size(3 << 20), size(24 << 30)
    ('3 MiB', '24.0 GiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def clock(time: float) -> str:
    """Return the time of day."""
    try:
        return datetime.fromtimestamp(time).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"


def heading(name: str, state: RunState, status: str, seconds: float, width: int) -> Text:
    """Return the first line: which run, on what, how it is, how long it has gone on."""
    right = Text.assemble(
        (status, _STATUS.get(status, "default")), ("  " + duration(seconds), "bold")
    )
    about = [name]
    if state.started is not None:
        about += [state.started.device, f"{state.started.parameters:,} parameters"]
    left = Text(" · ".join(map(legible, about)), style="bold")
    return _spread(left, right, width)


def bars(state: RunState, seconds: float, width: int) -> list[Text]:
    """Return two lines: how much of the run is done, and of the split under way."""
    epoch, step = state.epoch, state.step
    epochs = state.started.epochs if state.started else 0
    if epoch is None:
        return [Text(), Text()]
    done = sum(1 for ended in state.ended if ended.split == "train" and ended.epoch == epoch.epoch)
    within = _part(state.train_step.step, epoch.steps) if state.train_step else 0.0
    if state.train_step is None or state.train_step.epoch != epoch.epoch:
        within = _part(epoch.step, epoch.steps)
    position = epoch.epoch - 1 + max(within, float(done))
    over = state.is_over
    run_left = None if over else state.pace.run_left(seconds)
    split_left = None if over else state.pace.epoch_left(seconds)
    split = step.split if step else "train"
    at, of = (step.step, step.steps) if step else (epoch.step, epoch.steps)
    return [
        _bar(
            "run", _part(position, epochs), f"epoch {epoch.epoch}/{epochs}", run_left, over, width
        ),
        _bar(split, _part(at, of), f"{at}/{of}", split_left, over, width),
    ]


def table(state: RunState, selected: str, other: RunState | None, width: int) -> list[Text]:
    """Return a row per metric: its value now and the best with its epoch, of each split.

    Where not all splits fit, the last ones are left out.
    """
    splits = state.splits()
    while True:
        lines, is_whole = _table_of(splits, state, selected, other, width)
        if is_whole or len(splits) <= 1:
            return lines
        splits = splits[:-1]


def around_selected(table: list[Text], rows: int) -> list[Text]:
    """Return the heading of a table, and so many rows in all, that of the metric selected too."""
    at = next((i for i, line in enumerate(table) if line.plain.startswith(SELECTED)), 0)
    begin = max(1, at - rows + 2)
    return [*table[:1], *table[begin : begin + rows - 1]]


def _table_of(
    splits: list[str], state: RunState, selected: str, other: RunState | None, width: int
) -> tuple[list[Text], bool]:
    """The table of some splits, and whether it has room for the names of metrics."""
    names = [name for name in state.metrics() if any((s, name) in state.latest for s in splits)]
    head = ["", *(part for split in splits for part in (legible(split), "best"))]
    rows = [[_marked(name, selected), *_values(state, splits, name, other)] for name in names]
    if other is not None:
        head.append("compared: best")
    return _columns([[Text(cell, style="dim") for cell in head], *rows], width)


def _values(state: RunState, splits: list[str], name: str, other: RunState | None) -> list[Text]:
    cells = []
    for split in splits:
        now = state.latest.get((split, name))
        cells.append(Text(_value(now), style=colour(split)))
        cells.append(Text(_best(state.best(split, name)), style="dim"))
    if other is not None:
        cells.append(Text(_best(other.best("valid", name) or other.best("train", name))))
    return cells


def facts(state: RunState, use: Usage | None, width: int) -> list[Text]:
    """Return lines about speed, rates, where the time goes, and the machine."""
    pace, step = state.pace, state.train_step
    seconds = pace.training_seconds
    speed = UNKNOWN if not seconds else format_number(1 / seconds)
    items = f", {format_number(pace.items_per_step / seconds)} items/s" if seconds else ""
    parts = [f"{speed} steps/s{items if pace.items_per_step else ''}"]
    if step is not None and step.learning_rate is not None:
        parts.append(f"learning rate {format_number(step.learning_rate)}")
    if step is not None and step.gradient_norm is not None:
        parts.append(f"gradient norm {format_number(step.gradient_norm)}")
    shares = pace.shares()
    time = [f"{name} {part:.0%}" for name, part in (vars(shares).items() if shares else ())]
    if time:
        parts.append("time: " + " ".join(time))
    return _wrapped([*parts, *_of_machine(use)], width)


def _of_machine(use: Usage | None) -> list[str]:
    if use is None:
        return []
    own = [] if use.process_busy is None else [f"{use.process_busy:.1f} by the run"]
    held = [] if use.process_memory is None else [f"{size(use.process_memory)} by the run"]
    return [
        ", ".join([f"processors {use.busy:.1f} of {use.cores}", *own]),
        ", ".join([f"memory {size(use.memory)} of {size(use.memory_total)}", *held]),
        *(_of_gpu(number, gpu) for number, gpu in enumerate(use.gpus)),
    ]


def _of_gpu(number: int, gpu: GPUReading) -> str:
    load = f"{gpu.load:.0%}" if math.isfinite(gpu.load) else UNKNOWN
    return f"GPU {number} {load}, {size(gpu.memory_used)} of {size(gpu.memory_total)}"


def log_line(line: LogLine) -> Text:
    """Return a line of the log."""
    source = f"{legible(line.source)}: " if line.source not in ("", "stdout", "stderr") else ""
    style = _LEVELS.get(line.level, "default")
    return Text.assemble((clock(line.time), "dim"), " ", (source + legible(line.text), style))


def tail(log: Sequence[LogLine], rows: int, width: int, console: Console) -> list[Text]:
    """Return so many rows of the end of the log; the first may be the end of a line."""
    shown: list[Text] = []
    for line in reversed(log):
        if len(shown) >= rows:
            break
        shown = [*log_line(line).wrap(console, max(1, width)), *shown]
    return shown[max(0, len(shown) - rows) :]


# ---- parts of lines ----


def _part(done: float, of: float) -> float:
    return min(1.0, max(0.0, done / of)) if of > 0 else 0.0


def _bar(name: str, part: float, at: str, left: float | None, over: bool, width: int) -> Text:
    right = f" {part:4.0%}  {at}" + ("" if over else f"  {duration(left)} left")
    label = f"{legible(name)[:8]:<6} "
    room = max(0, width - len(label) - len(right))
    full = round(part * room)
    line = Text.assemble(label, ("█" * full, colour(name)), ("░" * (room - full), "dim"), right)
    line.truncate(width)
    return line


def _spread(left: Text, right: Text, width: int) -> Text:
    room = max(0, width - right.cell_len - 1)
    left.truncate(room, overflow="ellipsis", pad=True)
    line = Text.assemble(left, " ", right)
    line.truncate(width)
    return line


def _marked(name: str, selected: str) -> Text:
    is_selected = name == selected
    return Text(
        (SELECTED if is_selected else "  ") + legible(name), style="bold" if is_selected else ""
    )


def _value(reading: Reading | None) -> str:
    return legible(reading.text) if reading else ""


def _best(best: Best | None) -> str:
    return f"{legible(best.reading.text)} @ {best.epoch}" if best else ""


def _columns(rows: list[list[Text]], width: int) -> tuple[list[Text], bool]:
    """Lay cells out: the first column to the left, the others to the right, names cut to fit.

    Also say whether names keep ten characters, or all of fewer.
    """
    widths = [max(row[i].cell_len for row in rows) for i in range(len(rows[0]))]
    room = width - sum(widths[1:]) - 2 * (len(widths) - 1)
    is_whole = room >= min(widths[0], 12)
    widths[0] = max(6, min(widths[0], room))
    lines = []
    for row in rows:
        row[0].truncate(widths[0], overflow="ellipsis", pad=True)
        line = row[0]
        for cell, room in zip(row[1:], widths[1:], strict=True):
            line = Text.assemble(line, " " * (2 + room - cell.cell_len), cell)
        line.truncate(width)
        lines.append(line)
    return lines, is_whole


def _wrapped(parts: list[str], width: int) -> list[Text]:
    """Put parts on as few lines as hold them whole."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += " · " + part
        else:
            lines.append(part)
    return [Text(line[:width]) for line in lines]
