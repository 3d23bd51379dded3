"""A bar in the terminal while a dataset is read.  Needs rich: import it by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")


def shown(
    items: Iterable[T],
    title: str = "reading",
    *,
    console: Console | None = None,
    transient: bool = False,
) -> Iterator[T]:
    """Yield the items of a dataset, a loader or anything else, and show how many have come.

    Where items have a length there is a bar, and when it will be full; else a count.  The last
    frame stays, or is wiped off with transient=True.  The bar ends with the items, at an error, or
    when the iterator is dropped.

    >>> from pyrite.data import InMemoryDataset
    >>> kept = InMemoryDataset(shown([3, 1, 2], "decoding", transient=True))
    >>> len(kept)
    3
    """
    total = _length(items)
    columns = [TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()]
    if total is not None:
        columns = [*columns[:1], BarColumn(), *columns[1:], TimeRemainingColumn()]
    else:
        columns = [SpinnerColumn(), *columns]
    with Progress(*columns, console=console, transient=transient) as progress:
        task = progress.add_task(title, total=total)
        for item in items:
            yield item
            progress.advance(task)


def _length(items: Iterable[object]) -> int | None:
    """Return how many items there are, None where that is not known before they are read."""
    try:
        return len(items)  # type: ignore[arg-type]
    except TypeError:
        return None
