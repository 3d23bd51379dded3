"""Events: what a learner tells its views, in the order in which it happens.

    RunStarted
    ├── Resumed                    when it continues; CheckpointDamaged before it, for each bad file
    ├── EpochStarted
    │   ├── StepEnded …            split "train", then "valid"; Checkpointed in between
    │   ├── Sampled …              of the first batch of a split, and of metrics at its end
    │   └── EpochEnded             once per split
    ├── Checkpointed               after every epoch
    ├── Paused, PauseEnded
    ├── Logged                     what the program says meanwhile, where a view keeps the terminal
    ├── StopRequested, Interrupted, StoppedEarly
    └── RunEnded or Failed         always last, unless the process is ended

Epochs and steps are counted from 1, as people do.  Events are frozen facts: a view may keep them,
and hand them to another thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyrite.train.reading import Reading
from pyrite.train.sample import Sample

Outcome = Literal["completed", "stopped early", "interrupted"]


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins, or continues: on which device, with which seed, up to which epoch.

    ``lacking`` counts the ops that NumPy may run for the device, for want of its own.
    pid, host: of the process, so that others can see whether it lives.
    """

    device: str
    seed: int
    epochs: int
    parameters: int
    directory: Path | None
    lacking: int = 0
    pid: int = 0
    host: str = ""


@dataclass(frozen=True)
class Resumed(Event):
    """The run continues after `epoch` epochs and `step` steps of the next."""

    path: Path
    epoch: int
    step: int


@dataclass(frozen=True)
class CheckpointDamaged(Event):
    """The newest checkpoint cannot be read; the one before it is tried."""

    path: Path
    reason: str


@dataclass(frozen=True)
class EpochStarted(Event):
    """An epoch of training begins, at a later step than the first if the run was resumed there."""

    epoch: int
    epochs: int
    step: int
    steps: int


@dataclass(frozen=True)
class StepEnded(Event):
    """A step is done.  `readings` are the latest that were taken, over this epoch so far.

    seconds: of the step; waited: as many of them as passed until its batches were there.
    items: how many the step saw.  gradient_norm: told in the steps whose metrics are read.
    """

    split: str
    epoch: int
    step: int
    steps: int
    readings: tuple[Reading, ...]
    seconds: float
    waited: float = 0.0
    items: int = 0
    learning_rate: float | None = None
    gradient_norm: float | None = None


@dataclass(frozen=True)
class Sampled(Event):
    """Something to look at, of a step, or of a whole split at its last step."""

    split: str
    epoch: int
    step: int
    sample: Sample


@dataclass(frozen=True)
class EpochEnded(Event):
    """A split of an epoch is done; `readings` are over all of it."""

    split: str
    epoch: int
    readings: tuple[Reading, ...]
    seconds: float


@dataclass(frozen=True)
class Checkpointed(Event):
    """All that is needed to continue stands in this file."""

    path: Path
    epoch: int
    step: int


@dataclass(frozen=True)
class Paused(Event):
    """The run waits, on request, after `epoch` epochs and `step` steps of the next."""

    epoch: int
    step: int


@dataclass(frozen=True)
class PauseEnded(Event):
    """The run goes on, or stops, after it waited so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Logged(Event):
    """A line that the program wrote while a view kept the terminal.

    level: "info", "warning", "error" …; source: "stdout", "stderr", or the name of a logger.
    """

    level: str
    source: str
    text: str


@dataclass(frozen=True)
class StopRequested(Event):
    """Somebody asked the run to stop; it does after the step under way."""

    reason: str


@dataclass(frozen=True)
class Interrupted(Event):
    """The run was stopped on request; it can be continued from `checkpoint`, if there is one."""

    reason: str
    epoch: int
    step: int
    checkpoint: Path | None


@dataclass(frozen=True)
class StoppedEarly(Event):
    """The metric did not improve any more."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class RunEnded(Event):
    """The run is over.  ``fallbacks`` says how often NumPy ran which op for a device."""

    outcome: Outcome
    seconds: float
    steps: int
    fallbacks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed(Event):
    """An error ends the run, which raises it: its kind, and what it says."""

    reason: str


#: All of them: each is a kind of line in events.jsonl.
EVENTS: tuple[type[Event], ...] = (
    RunStarted,
    Resumed,
    CheckpointDamaged,
    EpochStarted,
    StepEnded,
    Sampled,
    EpochEnded,
    Checkpointed,
    Paused,
    PauseEnded,
    Logged,
    StopRequested,
    Interrupted,
    StoppedEarly,
    RunEnded,
    Failed,
)
