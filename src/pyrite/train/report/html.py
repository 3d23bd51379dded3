"""HTML by hand: texts are escaped in one place, and tables made in one."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pyrite.train.view.legible import legible

Html = str
"""Markup: made here, or from texts that `escaped` has passed."""


def escaped(text: str) -> Html:
    r"""Return a text as HTML: no markup of its own, control characters written out.

    >>> escaped("<script>\x1b[31m &\n")
    '&lt;script&gt;\\x1b[31m &amp;\n'
    """
    return "\n".join(html.escape(legible(line)) for line in text.split("\n"))


def element(tag: str, content: Html) -> Html:
    """Return an element around what is HTML already."""
    return f"<{tag}>{content}</{tag}>"


def table(
    headings: Sequence[str], rows: Sequence[Sequence[Html]], *, marks: Sequence[str] = ()
) -> Html:
    """Return a table that scrolls where it is too wide; headings are texts, cells are HTML.

    marks: a class for each row, or "".
    """
    head = "".join(element("th", escaped(heading)) for heading in headings)
    body = "".join(
        (f'<tr class="{mark}">' if mark else "<tr>")
        + "".join(element("td", cell) for cell in row)
        + "</tr>"
        for row, mark in zip(rows, marks or [""] * len(rows), strict=True)
    )
    content = element("thead", element("tr", head)) + element("tbody", body)
    return f'<div class="wide">{element("table", content)}</div>'
