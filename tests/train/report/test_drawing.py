"""Charts as SVG and PNG: whole files, whatever the names and numbers."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import PIL.Image
import pytest

from pyrite.train.report.curve import LARGEST, Chart, Curve
from pyrite.train.report.drawing import png, svg
from pyrite.train.report.palette import DARK, PALETTE, colour, dash

HOSTILE = '<script>alert(1)</script>]]>--> $\\frac{a}$ \x1b[31m\x00\ud800 &amp; id="x" \'東京'


def chart(metric: str = "Loss", *, y: Any = (0.5, 0.25, 0.125), splits: Any = ("train", "valid"),
          unit: str = "", runs: int = 1) -> Chart:  # fmt: skip
    values = np.float64(y)
    x = np.arange(1.0, len(values) + 1)
    curves = [Curve(run, split, x, values + run) for run in range(runs) for split in splits]
    return Chart(metric, unit, "lower", curves)


def texts(drawn: str) -> list[str]:
    root = ElementTree.fromstring(drawn)  # it is XML
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_text_stays_text_and_colours_are_variables() -> None:
    drawn = svg(chart(), ["a"], key="c0")
    assert {"Loss", "epochs"} <= set(texts(drawn))
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", drawn))
    assert used == {"ink", "lines", "series-0", "series-1"}
    colours = set(re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'"#c0[^"]*"|\(#c0[^)]*\)', "", drawn)))
    assert colours <= {"#000000", "#ffffff"}
    assert "width" not in drawn[: drawn.index(">")]


@pytest.mark.parametrize("runs", [1, 2])
def test_hostile_names_are_texts(runs: int) -> None:
    names = [HOSTILE, f"{HOSTILE}2"][:runs]
    hostile = chart(HOSTILE, splits=("train", HOSTILE), unit=HOSTILE, runs=runs)
    drawn = svg(hostile, names, key="c0")
    assert any("<script>alert(1)</script>]]>--> $\\frac{a}$ \\x1b" in text for text in texts(drawn))
    assert "<script" not in drawn
    assert PIL.Image.open(io.BytesIO(png(hostile, names, dpi=50))).format == "PNG"


def test_ids_of_two_charts_on_a_page_differ() -> None:
    def ids(drawn: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]+)"', drawn))

    one, two = (svg(chart(), ["a"], key=key) for key in ("c0", "c1"))
    assert not ids(one) & ids(two)
    for drawn in (one, two):
        assert set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", drawn)) <= ids(drawn)


def test_one_run_gives_one_drawing() -> None:
    assert svg(chart(), ["a"], key="c0") == svg(chart(), ["a"], key="c0")


@pytest.mark.parametrize(
    "y",
    [(), (1,), (0, 0), (1e-300, 1e-10), (LARGEST, -LARGEST), (1, 1e6, 1e-6), (5e-324, 5e-324),
     (1e15, 1e15 + 1)],
)  # fmt: skip
@pytest.mark.parametrize("unit", ["", "%", "steps/s"])
def test_any_numbers_are_drawn(y: Any, unit: str) -> None:
    drawn = svg(chart(y=y, unit=unit), ["a"], key="c0")
    assert texts(drawn)
    assert not any("mathdefault" in text for text in texts(drawn))


def test_percent_is_written_where_a_fraction_is_meant() -> None:
    assert "50 %" in texts(svg(chart(unit="%", y=(0.25, 0.5, 0.75)), ["a"], key="c0"))


def test_a_png_is_for_paper() -> None:
    image = PIL.Image.open(io.BytesIO(png(chart(runs=2), ["a", "b"])))
    assert image.size == (1050, 690)
    assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


def test_each_colour_has_one_for_dark_pages() -> None:
    assert len(PALETTE) == len(DARK) == len(set(PALETTE)) == len(set(DARK))


def test_any_number_of_runs_has_colours_and_dashes() -> None:
    marks = [(colour(run, "valid", 40), dash(run)[0]) for run in range(40)]
    assert len(set(marks[:24])) == 24
    assert all(number < len(PALETTE) for number, _ in marks)
    assert {colour(0, split, 1) for split in ("train", "valid", "test", "else")} == {0, 1, 2, 3}
