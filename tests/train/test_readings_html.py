"""What a notebook shows of a run's readings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from pyrite.train import History, Reading
from pyrite.train.history import SplitResult


def history(values: list[float], name: str = "Loss") -> str:
    results = [
        SplitResult(epoch, "train", (Reading(name, value),), 1.0)
        for epoch, value in enumerate(values, start=1)
    ]
    page = History(tuple(results))._repr_html_()
    ElementTree.fromstring(f"<div>{page}</div>")
    return page


def test_each_epoch_is_a_row_and_each_metric_a_column() -> None:
    results = (
        SplitResult(1, "train", (Reading("Loss", 0.5), Reading("Accuracy", 0.5, "%")), 1.0),
        SplitResult(1, "valid", (Reading("Loss", 0.75),), 1.0),
        SplitResult(2, "train", (Reading("Loss", 0.25), Reading("Accuracy", 0.75, "%")), 1.0),
    )
    plain = re.sub("<(t[hd]) [^>]*>", r"<\1>", History(results)._repr_html_())
    assert re.findall("<th>(.*?)</th>", plain) == [
        "epoch", "train<br/>Loss", "train<br/>Accuracy", "valid<br/>Loss",
    ]  # fmt: skip
    assert "<td>1</td><td>0.5000</td><td>50.00 %</td><td>0.7500</td>" in plain
    assert "<td>2</td><td>0.2500</td><td>75.00 %</td><td></td>" in plain


def test_a_curve_goes_from_the_first_epoch_to_the_last_and_not_through_nan() -> None:
    page = history([1.0, float("nan"), 0.0])
    assert 'points="2.0,2.0 108.0,26.0"' in page


def test_a_constant_and_the_largest_floats_have_a_curve() -> None:
    assert 'points="2.0,26.0 108.0,26.0"' in history([1.0, 1.0])
    assert 'points="2.0,26.0 108.0,2.0"' in history([-1.7e308, 1.7e308])


def test_of_a_long_run_the_last_epochs_are_rows() -> None:
    page = history([1.0 / n for n in range(1, 101)])
    assert "88 epochs before" in page
    assert page.count("<tr>") == 2 + 12
    assert page.count(",") >= 100


def test_without_readings_it_says_so_and_names_bring_no_markup() -> None:
    assert "no readings" in History()._repr_html_()
    assert "<b>" not in history([1.0], name="<b>")
