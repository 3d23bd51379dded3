"""The page: one file, well nested, that fetches nothing and runs nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pyrite.train.report.curve import charts
from pyrite.train.report.drawing import svg
from pyrite.train.report.html import escaped
from pyrite.train.report.page import page, run_names
from pyrite.train.report.run import read_run

from .conftest import MakeRun

HOSTILE = "<script>alert(1)</script>]]>\"'><img src=http://x/y onerror=z>\x1b[31m\ud800\u202e&lt;"
VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """What is in a page, as a browser nests it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def made(paths: Sequence[Path]) -> str:
    runs = [read_run(path) for path in paths]
    names = run_names(runs)
    return page(runs, charts(runs), lambda c, key: svg(c, names, key=key))


def read(text: str) -> Reader:
    """The page, after the promises that hold of all."""
    text.encode()  # no halves of surrogate pairs
    found = Reader(text)
    assert found.open == []
    assert not found.tags & {"script", "iframe", "object", "embed", "link", "base", "form", "video"}
    for name, value in found.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert value.startswith(("data:image/png;base64,", "#")), value
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "@import" not in text
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    return found


def test_a_run_is_told_with_settings_curves_and_samples(make_run: MakeRun) -> None:
    path = make_run("first", lr=0.1, model={"width": 8})
    text = made([path])
    told = read(text).text
    for said in ("Report: first", "completed", "3 of 3", "model.width", "0.1", "Loss", "0.2500 @ 3",
                 "said Loss", "Loss\nepoch 3", "worst Loss", "beware of Loss"):  # fmt: skip
        assert said in told, said
    (image,) = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    (file,) = (path / "samples").iterdir()
    assert base64.b64decode(image) == file.read_bytes()
    assert text.count("<svg") == 4
    assert "prefers-color-scheme: dark" in text


def test_several_runs_are_laid_over_each_other(make_run: MakeRun) -> None:
    paths = [make_run("x/a", lr=0.1, scale=2.0), make_run("y/a", lr=0.2), make_run("b", lr=0.1)]
    text = made(paths)
    told = read(text).text
    assert "Report of 3 runs" in told
    assert all(name in told for name in ("x/a", "y/a", "runs/b"))
    assert text.count("<svg") == 4
    assert '<tr class="differs"><td>lr</td><td>0.1</td><td>0.2</td><td>0.1</td></tr>' in text
    best = re.findall(r"<b>0\.\d+ @ 3</b>", text)
    assert best == ["<b>0.2500 @ 3</b>"] * 2 + ["<b>0.2750 @ 3</b>"] * 2


def test_runs_of_one_colour_differ_in_their_dashes(make_run: MakeRun) -> None:
    text = made([make_run(f"r{i}", epochs=1) for i in range(17)])
    read(text)
    for said in ("s7", "s0"):
        assert f'<i class="swatch {said}"></i>' in text
    assert "r7<" in text
    assert "r8 –·–" in text
    assert "r16 ····" in text


def test_whatever_the_files_say_stays_text(make_run: MakeRun) -> None:
    paths = [
        make_run(f"{HOSTILE[:12]}{i}".replace("/", "_"), name=HOSTILE, **{HOSTILE: HOSTILE * i})
        for i in (1, 2)
    ]
    told = read(made(paths)).text
    assert "<script>alert(1)</script>]]>" in told
    assert "\\x1b[31m\\ud800\\u202e&lt;" in told
    read(made(paths[:1]))


@pytest.mark.parametrize("how", ["empty", "no events", "bytes", "nothing", "half"])
def test_a_damaged_run_is_a_clear_note(make_run: MakeRun, tmp_path: Path, how: str) -> None:
    path = make_run("bad")
    events = path / "events.jsonl"
    if how == "empty":
        events.write_bytes(b"")
    elif how == "no events":
        events.unlink()
    elif how == "bytes":
        events.write_bytes(bytes(range(256)) * 50)
    elif how == "half":
        whole = events.read_bytes()
        events.write_bytes(whole[: len(whole) // 2 + 17] + b"\nnot JSON\n")
    else:
        (path / "run.json").unlink()
        events.unlink()
    told = read(made([path, make_run("good")])).text
    assert "events.jsonl" in told
    read(made([path]))


def test_images_that_are_gone_or_no_images_are_told(make_run: MakeRun) -> None:
    path = make_run("a")
    (file,) = (path / "samples").iterdir()
    file.write_bytes(b"<svg onload=alert(1)>")
    assert "The file of the image is damaged." in read(made([path])).text
    file.unlink()
    assert "The image is not kept any more." in read(made([path])).text


def test_a_page_of_many_metrics_has_a_bound(make_run: MakeRun, monkeypatch: Any) -> None:
    monkeypatch.setattr("pyrite.train.report.page.CHARTS", 2)
    text = made([make_run("a")])
    assert text.count("<svg") == 2
    assert "2 more metrics have no chart here." in text


def test_a_page_of_many_images_has_a_bound(make_run: MakeRun, monkeypatch: Any) -> None:
    monkeypatch.setattr("pyrite.train.report.samples.IMAGES", 10)
    told = made([make_run("a")])
    assert "Not shown: these images have more than" in told
    assert "base64" not in told


@pytest.mark.parametrize("text", ["", "a\nb", "\r\n\t", "<&>\"'", "\ud800", "\x00\x7f\x85\u2028"])
def test_what_is_escaped_is_read_as_it_was_or_written_out(text: str) -> None:
    reader = Reader(escaped(text))
    assert reader.tags == set()
    expected = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )
    assert reader.text == expected
