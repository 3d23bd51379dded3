"""A run's file followed in lines, where no dashboard can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from os import PathLike

from pyrite.train.event import Failed, RunEnded, RunStarted
from pyrite.train.event_file import EventReader
from pyrite.train.view.plain import PlainView
from pyrite.train.view.watch.machine import MachineWatch

#: Seconds between two looks at the file.
INTERVAL = 0.5


def follow(path: str | PathLike[str], view: PlainView, wait: Callable[[float], None]) -> bool:
    """Show a run until it ends; return whether it says so itself.

    It waits for a file that is not there yet.
    """
    reader, machine, is_over, said = EventReader(path), MachineWatch(None, 0.0), False, False
    while True:
        was_alive = machine.is_alive is not False  # looked at first: it may write until it ends
        with suppress(FileNotFoundError):
            for entry in reader.new():
                view.handle(entry.event)
                if isinstance(entry.event, RunStarted):
                    machine, is_over = MachineWatch(entry.event, entry.time), False
                is_over = is_over or isinstance(entry.event, RunEnded | Failed)
        if is_over or not was_alive:
            view.close()
            if not is_over:
                view.write("the process of the run has ended without a word")
            return is_over
        if not reader.files and not said:
            view.write(f"waiting for {path}")
            said = True
        wait(INTERVAL)
