"""Lines of Python as ruff formats them: 88 columns, what is too long with one argument a line.

A call that is broken has a comma after its last argument, which keeps it so at every width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.onnx.python.code import Code, Part, flat

#: Columns: ruff's own, so that a reader's settings of 88 or more change nothing.
WIDTH = 88


def exploded(
    left: str, x: Code, spell: Callable[[Part], str], right: str = "", *, indent: int
) -> list[str]:
    """Return a call, a tuple or a list with one argument a line; it begins at a column."""
    if not x.arguments:
        return [left + "".join(map(spell, flat(x))) + right]
    head = "".join(map(spell, x.parts))
    rows = [f"{left}{head}{x.brackets[0]}"]
    for argument in x.arguments:
        text = "".join(map(spell, flat(argument)))
        if indent + 4 + len(text) + 1 <= WIDTH:
            rows.append(f"    {text},")
        else:
            inner = exploded("", argument, spell, ",", indent=indent + 4)
            rows += [f"    {row}" for row in inner]
    return [*rows, f"{x.brackets[1]}{right}"]


def broken(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """Return ``head`` items ``tail`` on one line, or with one item a line."""
    line = f"{head}{', '.join(items)}{tail}"
    if len(line) + indent <= WIDTH:
        return [line]
    return [head, *(f"    {item}," for item in items), tail]


__all__ = ["WIDTH", "broken", "exploded"]
