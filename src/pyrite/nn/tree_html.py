"""A module in a notebook: the tree of its text, whose branches fold."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from pyrite.nn.tree_text import Shown, branches, head, summary

#: As deep as this a tree is open at first.
OPEN: Final = 2


def tree_html(module: Shown) -> str:
    """Return HTML that needs no script and no style of the page."""
    return f'<div style="font-family:monospace">{_folded(escape(head(module)), module, 1)}</div>'


def _folded(line: str, module: Any, depth: int) -> str:
    below = branches(module)
    if not any(isinstance(child, Shown) for _, child in below):
        return f'<div style="margin-left:1.1em">{line}</div>'
    inside = "".join(
        _folded(f"<b>{escape(name)}</b>: {escape(summary(child))}", child, depth + 1)
        for name, child in below
    )
    opened = ' open=""' if depth <= OPEN else ""
    return (
        f'<details{opened}><summary style="cursor:pointer">{line}</summary>'
        f'<div style="margin-left:1.1em">{inside}</div></details>'
    )
