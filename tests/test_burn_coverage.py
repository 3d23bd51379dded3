"""docs/burn-coverage.md is true: every name that it gives exists, and every row says something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrite
import pyrite.data.augment
import pyrite.train
from pyrite import data, nn, optim, train
from pyrite.autodiff import Gradients
from pyrite.op import OPS

DOCS = Path(__file__).parent.parent / "docs"
NAMES = json.loads((DOCS / "burn-names.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "burn-coverage.md").read_text(encoding="utf-8")
ROOTS: dict[str, Any] = {
    "x": pyrite.Tensor, "grads": Gradients, "module": nn.Module, "pyrite": pyrite, "nn": nn,
    "optim": optim, "data": data, "train": train,
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


def section(title: str) -> str:
    """The part of the page under a heading, to the next one as high."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_module_optimiser_and_schedule_of_burn_has_a_row() -> None:
    optimisers, schedules = section("Optimisers").split("### Schedules")
    pages = {"modules": section("Modules"), "optimisers": optimisers, "schedules": schedules}
    for kind, text in pages.items():
        told = {word.lower() for burn, _ in rows(text) for word in re.findall(r"\w+", burn)}
        assert NAMES[kind]
        assert not [name for name in NAMES[kind] if name.lower() not in told]


def test_every_optimiser_and_crate_of_a_row_is_burns() -> None:
    optimisers, _ = section("Optimisers").split("### Schedules")
    told = {burn for burn, _ in rows(optimisers) if re.fullmatch(r"[A-Z]\w+", burn)}
    assert told - {"GradientsParams", "GradientsAccumulator"} == {*NAMES["optimisers"]}
    crates = {burn for burn, _ in rows(section("Crates"))}
    assert crates - {"burn-onnx, a repository of its own"} == {*NAMES["crates"]}


def test_the_readme_counts_what_is_here() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    counts = re.findall(r"optimisers\S* \((\d+)\), schedules \((\d+)\)", readme)
    ((optimisers, schedules),) = counts
    made = {name for name in optim.__all__ if is_optimizer(getattr(optim, name))}
    assert int(optimisers) == len(made), sorted(made)
    public = {name for name in optim.schedule.__all__ if name[0].isupper()}
    assert int(schedules) == len(public - {"Rate", "Schedule"}), sorted(public)


def is_optimizer(value: object) -> bool:
    # LBFGS asks for the loss several times a step, and is an optimiser of its own kind.
    is_class = isinstance(value, type) and value is not optim.Optimizer
    return is_class and (issubclass(value, optim.Optimizer) or value is optim.LBFGS)
