"""Result: what a run gives."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Generic, TypeVar

from pyrite.nn.module import Module
from pyrite.train.event import Outcome
from pyrite.train.history import History

M = TypeVar("M", bound=Module)


@dataclass(frozen=True)
class Result(Generic[M]):
    """What a run gives.

    model: as the last step left it; best: the checkpoint after the best epoch, if one was kept.
    steps and seconds are of this run alone, without what came before a resume.
    """

    model: M
    history: History
    outcome: Outcome
    steps: int
    seconds: float
    best: Path | None

    def _repr_html_(self) -> str:
        best = f", best: {escape(str(self.best))}" if self.best else ""
        head = f"{self.outcome}: {self.steps:,} steps in {self.seconds:.1f} s{best}"
        return f"<div>{head}</div>{self.history._repr_html_()}"
