"""The means by which ops ran: rules of their class, bodies, or what was written for one op.

It is noted when a backend chooses how calls of one kind run, not at each call.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

#: What was written for one op: a native implementation, or a lowering under its name.
OWN = "own"
#: A composite's body as kernels.
BODY = "body"
#: The kernels of an application.
KERNELS = "kernels"

_lock = threading.Lock()
_choices: Counter[Choice] = Counter()
_kernels: Counter[Choice] = Counter()


class Choice(NamedTuple):
    """The means of an op on a device: the name of a class of rules, or one of the names above."""

    device: str
    op: str
    means: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """How often a choice was made, and how many kernels were built for it."""

    times: int
    kernels: int


def note_means(device: str, op: str, means: str, kernels: int = 0) -> None:
    """Count a choice, and the kernels that were built for it."""
    choice = Choice(device, op, means)
    with _lock:
        _choices[choice] += 1
        _kernels[choice] += kernels


def means_chosen() -> dict[Choice, Chosen]:
    """Return by what each op ran on each device in this process.

    >>> note_means("a device", "an op", "fold", kernels=2)
    >>> means_chosen()["a device", "an op", "fold"]
    Chosen(times=1, kernels=2)
    """
    with _lock:
        return {choice: Chosen(times, _kernels[choice]) for choice, times in _choices.items()}
