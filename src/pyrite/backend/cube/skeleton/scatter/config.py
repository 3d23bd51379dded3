"""Who keeps the order of the writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyrite.backend.cube.launcher import Machine


@dataclass(frozen=True, slots=True)
class ScatterConfig:
    """Who keeps the order; see the head of this package.

    Segments are cut at every ``chunk`` writes.
    """

    by: Literal["line", "element", "segment"]
    chunk: int = 0


def candidates(writes: int, lines: int, elements: int, machine: Machine) -> list[ScatterConfig]:
    """Return the configs: all are always right."""
    return [ScatterConfig("line"), ScatterConfig("element"), ScatterConfig("segment", 256)]


def select(writes: int, lines: int, elements: int, machine: Machine) -> ScatterConfig:
    """Return a config: by line, unless few lines would leave a large device idle."""
    by_line, by_element, by_segment = candidates(writes, lines, elements, machine)
    if machine.kind == "cpu" or writes <= max(256, lines // 4):
        is_small = machine.kind == "gpu" and lines < 256 and writes * elements <= 1 << 20
        return by_element if is_small else by_line
    return by_segment
