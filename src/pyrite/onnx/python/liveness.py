"""How long the values of a function are read, with its loops in mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyrite.onnx.python.code import Local
from pyrite.onnx.python.line import Assignment
from pyrite.onnx.python.step import OPENING


def last_reads(lines: Sequence[Assignment], outputs: Sequence[str]) -> dict[str, int]:
    """Return after which line each value is not read any more.

    What comes from before a loop is read until its end, in the next round; so is a variable that a
    loop or a branch gives values to.
    """
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    for position, line in enumerate(lines):
        last.update(dict.fromkeys(line.uses, position))
        for name in line.targets:
            first.setdefault(name, position)
            if line.mark == "set":
                last[name] = position
    # Inner blocks end first, and what they read until their end the outer ones do too.
    for start, end in _blocks(lines):
        is_loop = lines[start].mark != "if"
        for name, at in last.items():
            if is_loop and start < at < end and first.get(name, -1) < start:
                last[name] = end
    last.update(dict.fromkeys(outputs, len(lines)))
    return last


def _blocks(lines: Sequence[Assignment]) -> Iterator[tuple[int, int]]:
    """Give where blocks begin and end, inner ones first."""
    open_at: list[int] = []
    for position, line in enumerate(lines):
        if line.mark in OPENING and line.mark != "else":
            open_at.append(position)
        elif line.mark == "end":
            yield open_at.pop(), position


def successors(lines: Sequence[Assignment]) -> dict[str, str]:
    """Return the values that may take the variable of a loop they are the next value of.

    That is so where nothing reads the variable after them in the same round.
    """
    found: dict[str, str] = {}
    made = {line.targets[0]: i for i, line in enumerate(lines)
            if not line.mark and line.loop is None and len(line.targets) == 1}  # fmt: skip
    for start, end in _blocks(lines):
        if lines[start].mark == "if":
            continue
        carry = next((i for i in range(end - 1, start, -1) if lines[i].mark == "set"), None)
        if carry is None or not _is_direct(lines, start, carry):
            continue
        items = lines[carry].code.arguments or (lines[carry].code,)
        for target, item in zip(lines[carry].targets, items, strict=False):
            (name,) = item.locals or ("",) if len(item.locals) < 2 else ("",)
            at = made.get(name, -1)
            is_value = item.parts == (Local(name),) and start < at < carry
            if is_value and _is_direct(lines, start, at) and name not in found:
                later = (use for line in lines[at + 1 : carry + 1] for use in line.uses)
                if target and target not in later:
                    found[name] = target
    return found


def _is_direct(lines: Sequence[Assignment], start: int, position: int) -> bool:
    """Whether a line lies in a block, and in no other one within that."""
    depth = 0
    for line in lines[start + 1 : position]:
        depth += (line.mark in OPENING and line.mark != "else") - (line.mark == "end")
    return depth == 0
