"""docs/burn-coverage.md is true: every name that it gives exists, and every row says something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite import nn, optim
from pyrite.autodiff import Gradients
from pyrite.op import OPS

PAGE = (Path(__file__).parent.parent / "docs" / "burn-coverage.md").read_text(encoding="utf-8")
ROOTS: dict[str, Any] = {
    "x": pyrite.Tensor, "grads": Gradients, "module": nn.Module, "pyrite": pyrite, "nn": nn,
    "optim": optim,
}  # fmt: skip
NAME = re.compile(rf"`({'|'.join(ROOTS)})\.([A-Za-z_][\w.]*)`")


def rows(text: str) -> Iterator[tuple[str, str]]:
    """Give the cells of every row but the headings."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("Burn", "PyTorch", "---"):
            yield cells[0], cells[1]


@pytest.mark.parametrize(("burn", "here"), list(rows(PAGE)), ids=lambda cell: cell[:30])
def test_a_row_names_what_exists_or_says_why_not(burn: str, here: str) -> None:
    names = NAME.findall(here)
    ops = re.findall(r"the op `(\w+)`", here)
    assert names or ops or here.startswith(("later", "not needed: "))
    assert all(op in OPS for op in ops)
    for root, path in names:
        found = ROOTS[root]
        for part in path.split("."):
            found = getattr(found, part)


def test_every_method_of_burns_tensor_has_a_row() -> None:
    methods = PAGE.split("## Functions")[0]
    names = [burn for burn, _ in rows(methods)]
    assert len(names) == len(set(names)) == 271
