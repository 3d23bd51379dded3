"""Notices: the events that a person should read, in words, for every view alike."""

from __future__ import annotations

from functools import singledispatch

from pyrite.train.event import (
    CheckpointDamaged,
    Event,
    Failed,
    Interrupted,
    Paused,
    PauseEnded,
    Resumed,
    RunEnded,
    RunStarted,
    StoppedEarly,
    StopRequested,
)


@singledispatch
def notice(event: Event) -> str:
    """Return the event as a sentence; raise TypeError for one that is shown otherwise."""
    raise TypeError(f"notice requires an event with words of its own, got {event!r}")


@notice.register
def _(event: RunStarted) -> str:
    place = f", in {event.directory}" if event.directory else ""
    lacks = f"; it lacks {_count(event.lacking, 'op')}, which NumPy runs" if event.lacking else ""
    return (
        f"training on {event.device}: {event.parameters:,} parameters, {event.epochs} epochs, "
        f"seed {event.seed}{place}{lacks}"
    )


@notice.register
def _(event: Resumed) -> str:
    step = f" and {event.step} steps" if event.step else ""
    return f"continuing after {_count(event.epoch, 'epoch')}{step}, from {event.path}"


@notice.register
def _(event: CheckpointDamaged) -> str:
    return f"checkpoint {event.path} is damaged, trying the one before it: {event.reason}"


@notice.register
def _(event: Paused) -> str:
    return f"paused after {_count(event.epoch, 'epoch')} and {_count(event.step, 'step')}"


@notice.register
def _(event: PauseEnded) -> str:
    return f"going on after a pause of {event.seconds:.1f} s"


@notice.register
def _(event: StopRequested) -> str:
    return f"stopping after this step ({event.reason}); once more aborts at once"


@notice.register
def _(event: Interrupted) -> str:
    where = f"interrupted in epoch {event.epoch} after {_count(event.step, 'step')}"
    saved = f"; saved {event.checkpoint}" if event.checkpoint else "; nothing was saved"
    return f"{where} ({event.reason}){saved}"


@notice.register
def _(event: StoppedEarly) -> str:
    return f"stopped early after {_count(event.epoch, 'epoch')}: {event.reason}"


@notice.register
def _(event: RunEnded) -> str:
    is_timed = event.steps and event.seconds > 0
    speed = f", {event.steps / event.seconds:.1f} steps/s" if is_timed else ""
    fell = ", ".join(f"{op} {times:,} times" for op, times in event.fallbacks.items())
    reference = f"; run by NumPy: {fell}" if fell else ""
    ended = f"{event.outcome}: {_count(event.steps, 'step')} in {event.seconds:.1f} s"
    return f"{ended}{speed}{reference}"


@notice.register
def _(event: Failed) -> str:
    return f"failed: {event.reason}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
