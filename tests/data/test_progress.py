"""The bar counts what was read, with a length or without, and ends with an error."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from pyrite.data import DataLoader, InMemoryDataset
from pyrite.data.progress import shown


def screen() -> Any:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_bar_counts_what_was_read() -> None:
    console = screen()
    dataset = InMemoryDataset(shown(InMemoryDataset(range(7)), "decoding", console=console))
    assert list(dataset) == list(range(7))
    text = console.file.getvalue()
    assert "decoding" in text
    assert "7/7" in text


def test_what_has_no_length_is_counted() -> None:
    for items in (iter(range(5)), DataLoader(iter(range(5)), 1, tensors=False)):
        console = screen()
        assert len(list(shown(items, console=console))) == 5
        assert "5/?" in console.file.getvalue()


def test_a_bar_ends_with_an_error() -> None:
    console = screen()
    with pytest.raises(ZeroDivisionError):
        list(shown((1 // n for n in (2, 1, 0)), console=console))
    text = console.file.getvalue()
    assert "2/?" in text
    assert text.endswith("\x1b[?25h")  # the cursor is shown again
