"""Where a command computes."""

from __future__ import annotations

from rich.console import Console

from pyrite.backend import Device, device


def chosen(name: str | None) -> Device:
    """Return the device of that name, or the best that works here; a terminal tells of the search.

    To try one for the first time takes seconds.
    """
    if name is not None:
        return device(name)
    with Console(stderr=True).status("looking for the best device of this machine"):
        return device()
