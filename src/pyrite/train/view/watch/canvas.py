"""Canvas: lines and marks of curves in cells of text, of two by four dots each (braille).

NumPy sets all dots of a line together: a frame of 80 by 24 takes about one millisecond, where a
plotting library that sets them one by one took twenty, and the dashboard shares the processors with
the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from pyrite.train.view.watch.series import Numbers

#: Dots of a cell, to the right and down, and the bit of each in Unicode's braille patterns.
DOTS_X, DOTS_Y = 2, 4
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BRAILLE = 0x2800

Span = tuple[float, float]
Places = NDArray[np.int64]


@dataclass
class Canvas:
    """So many cells, which show x and y from one end of each span to the other.

    What is drawn later lies above.  Points outside of the spans are left out.
    """

    width: int
    height: int
    x: Span
    y: Span
    _characters: NDArray[np.int32] = field(init=False)
    _colours: NDArray[np.intp] = field(init=False)
    _names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._characters = np.full((self.height, self.width), ord(" "), np.int32)
        self._colours = np.zeros((self.height, self.width), np.intp)
        self._names = ["default"]

    def line(self, points: Numbers, colour: str) -> None:
        """Draw a line through points (2, N)."""
        columns, rows = self.width * DOTS_X, self.height * DOTS_Y
        x, y = _joined(
            _placed(points[0], self.x, columns), rows - 1 - _placed(points[1], self.y, rows)
        )
        inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
        dots = np.zeros((rows, columns), np.bool_)
        dots[y[inside], x[inside]] = True
        cells = dots.reshape(self.height, DOTS_Y, self.width, DOTS_X)
        patterns = np.einsum("hywx,yx->hw", cells, _BITS)
        drawn = patterns > 0
        self._characters[drawn] = _BRAILLE + patterns[drawn]
        self._colours[drawn] = self._number(colour)

    def marks(self, points: Numbers, mark: str, colour: str) -> None:
        """Set a mark, a character of one cell, at each of the points (2, N)."""
        x = np.rint(_placed(points[0], self.x, self.width)).astype(np.int64)
        y = self.row(points[1])
        inside = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
        self._characters[y[inside], x[inside]] = ord(mark)
        self._colours[y[inside], x[inside]] = self._number(colour)

    def column(self, x: float) -> int:
        """Return the cell of x, counted from the left."""
        return int(np.rint(_placed(np.array([x]), self.x, self.width))[0])

    def row(self, y: Numbers) -> Places:
        """Return the cells of y, counted from above."""
        return self.height - 1 - np.rint(_placed(y, self.y, self.height)).astype(np.int64)

    def lines(self) -> list[Text]:
        """Return the rows from above."""
        return [self._text(*row) for row in zip(self._characters, self._colours, strict=True)]

    def _text(self, characters: NDArray[np.int32], colours: Places) -> Text:
        line, text = Text(), "".join(map(chr, characters.tolist()))
        begin = 0
        for colour, cells in groupby(colours.tolist()):
            end = begin + len(list(cells))
            line.append(text[begin:end], self._names[colour] if colour else None)
            begin = end
        return line

    def _number(self, colour: str) -> int:
        if colour not in self._names:
            self._names.append(colour)
        return self._names.index(colour)


def framed(canvas: Canvas, x: Sequence[tuple[float, str]], y: Sequence[tuple[float, str]]) -> Text:
    """Return the canvas in a frame, with labels at places of x and y."""
    rows = dict(zip(canvas.row(np.array([at for at, _ in y])).tolist(), y, strict=True))
    room = label_width(y)
    lines = [Text(" " * room + "┌" + "─" * canvas.width + "┐")]
    for row, line in enumerate(canvas.lines()):
        label = rows[row][1] if row in rows else ""
        edge = "┤" if row in rows else "│"
        lines.append(Text.assemble(label.rjust(room) + edge, line, "│"))
    ticks = {canvas.column(at): label for at, label in x}
    bottom = "".join("┬" if column in ticks else "─" for column in range(canvas.width))
    lines.append(Text(" " * room + "└" + bottom + "┘"))
    lines.append(Text(" " * (room + 1) + _labels_below(ticks, canvas.width)))
    return Text("\n").join(lines)


def label_width(y: Sequence[tuple[float, str]]) -> int:
    """Return the columns that the labels of y take, to the left of the frame."""
    return max((len(label) for _, label in y), default=0)


def _labels_below(ticks: dict[int, str], width: int) -> str:
    """Labels in the middle below their ticks, as far as they have room."""
    line = ""
    for column, label in sorted(ticks.items()):
        begin = min(max(0, column - len(label) // 2), width + 1 - len(label))
        if begin >= len(line) + bool(line):
            line = line.ljust(begin) + label
    return line


def _placed(values: Numbers, span: Span, count: int) -> Numbers:
    """Where values lie among so many places: 0 is the first, count - 1 the last."""
    low, high = span
    # Halves, for a distance may be larger than any number.
    return np.asarray((values / 2 - low / 2) / (high / 2 - low / 2) * (count - 1))


def _joined(x: Numbers, y: Numbers) -> tuple[Places, Places]:
    """Places of all dots of the lines from each point (x, y) to the next."""
    steps = np.ceil(np.maximum(np.abs(np.diff(x)), np.abs(np.diff(y)))).astype(np.int64)
    steps = np.maximum(steps, 1)
    first = np.repeat(np.arange(len(steps)), steps)
    part = (np.arange(len(first)) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[first]
    all_x = np.append(x[first] + (x[first + 1] - x[first]) * part, x[-1])
    all_y = np.append(y[first] + (y[first + 1] - y[first]) * part, y[-1])
    return np.rint(all_x).astype(np.int64), np.rint(all_y).astype(np.int64)
