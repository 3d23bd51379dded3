"""What a notebook shows of a module: its tree, which folds, with nothing that acts on the page."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from pyrite import nn


class Net(nn.Module):
    def __init__(self, note: str = "") -> None:
        self.note = note
        self.body = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
        self.head = nn.Linear(1, 2)

    def forward(self, x: object) -> object:
        return x


def test_it_says_what_the_text_says() -> None:
    net = Net()
    page = net._repr_html_()
    ElementTree.fromstring(page)
    words = html.unescape(re.sub("<[^>]+>", " ", page)).replace(" :", ":")
    assert words.split() == re.sub("[│├└─]", " ", repr(net)).split()


def test_the_first_two_levels_are_open_and_the_others_fold() -> None:
    page = Net()._repr_html_()
    assert re.findall("<details( open)?", page) == [" open", " open", ""]


def test_a_layer_alone_has_nothing_to_fold() -> None:
    page = nn.Linear(2, 3)._repr_html_()
    assert "<details" not in page
    assert "in_features=2" in page


def test_a_field_cannot_bring_markup() -> None:
    page = Net(note="<script>alert(1)</script>")._repr_html_()
    ElementTree.fromstring(page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
