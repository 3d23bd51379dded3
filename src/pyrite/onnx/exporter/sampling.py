"""The sizes at which a model is traced: three of each dynamic axis, and two more that judge.

The first is the example's.  The others are chosen so that the model takes them: one more and so on,
one less and so on, or multiples, as a network that halves its input three times needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyrite.errors import ModelExportError, PyriteError, ShapeError
from pyrite.onnx.exporter.tracer import Trace

#: Sizes of the dynamic axes, by symbol.
Point = Mapping[str, int]

#: From the example, in steps: two more to find formulas from, and two that judge them.
_FITTED = (1, 3)
_JUDGES = (4, 7)

#: How far sizes lie apart, tried in order: a table of positions may end at the example's size, and
#: a network may want multiples.
_STEPS = (1, -1, 2, 4, 8, 16, 32, 64, -2, -4, -8)


@dataclass(frozen=True, slots=True)
class Samples:
    """Traces of a model at several sizes."""

    traces: Sequence[Trace]
    #: How many of them formulas are found from.
    fitted: int
    #: The sizes of each.
    points: Sequence[Point]


def sampled(trace: Callable[[Point], Trace], example: Point) -> Samples:
    """Return traces at the example's sizes and at others.

    A size of 1 in the example is taken as 2: what has one element is also what is stretched.
    Raises what the model raises at the example's, and what it raises at others where it takes none.
    """
    traced = _Kept(trace)
    if not example:
        return Samples([traced(example)], 1, [example])
    traced(example)
    start = {symbol: max(size, 2) for symbol, size in example.items()}
    steps = {symbol: _step_of(traced, start, symbol) for symbol in start}
    points = list(_points(start, steps))
    return Samples([traced(p) for p in points], len(points) - len(_JUDGES), points)


class _Kept:
    """Traces by the sizes at which they were made."""

    def __init__(self, trace: Callable[[Point], Trace]) -> None:
        self._trace = trace
        self._made: dict[tuple[tuple[str, int], ...], Trace] = {}

    def __call__(self, point: Point) -> Trace:
        key = tuple(point.items())
        if key not in self._made:
            self._made[key] = self._trace(point)
        return self._made[key]


def _step_of(traced: _Kept, start: Point, symbol: str) -> int:
    """Return a distance between sizes of one axis that the model takes."""
    refusal: PyriteError | None = None
    for step in _STEPS:
        sizes = [start[symbol] + step * n for n in (0, *_FITTED, *_JUDGES)]
        if min(sizes) < 1:
            continue
        try:
            for size in sizes:
                traced({**start, symbol: size})
        except (ShapeError, ModelExportError) as error:
            refusal = refusal or error
            continue
        return step
    assert refusal is not None
    raise refusal


def _points(start: Point, steps: Mapping[str, int]) -> Iterator[Point]:
    """Give the first sizes, two others of each axis alone, and two at which all differ."""
    yield start
    for symbol, step in steps.items():
        for n in _FITTED:
            yield {**start, symbol: start[symbol] + step * n}
    for n in _JUDGES:
        yield {symbol: start[symbol] + step * n for symbol, step in steps.items()}
