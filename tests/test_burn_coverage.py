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
import pyrite.data.source.annotation
import pyrite.data.source.arrow
import pyrite.data.source.sqlite
import pyrite.onnx
import pyrite.record
import pyrite.train.metric.gpu
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


def section(title: str) -> str:
    """The part of the page under a heading, to the next one as high."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def told(text: str) -> set[str]:
    """Return the names of Burn's in the rows of a part of the page."""
    cells = [burn for burn, _ in rows(text) if burn != "(none)"]
    return {name for cell in cells for name in cell.split(", ")}


def parts() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """By kind: the names that have rows, those of Burn that need one, and what else may have one.

    What else is another item of Burn's: a cache, a function, an enum beside the structs.
    """
    modules, parameters = section("Modules").split("### Of modules and parameters")
    modules, initialisers = modules.split("### Initialisers")
    optimisers, schedules = section("Optimisers").split("### Schedules")
    functions, other = section("Functions").split("### Random")
    quantizing = told(section("Quantization"))
    training, metrics = section("Training").split("### Metrics")
    items = {crate: {*names.split()} for crate, names in NAMES["items"].items()}
    released = {*NAMES["released"]["optimisers"]}
    # Of optimisers and parameters rows also name methods, which no list here has.
    camel = {name for name in told(optimisers) if name[0].isupper()}
    return {
        "tensor": (told(PAGE.split("## Functions")[0]), {*NAMES["tensor"]}, set()),
        "functions": (
            told(functions) | (told(other) | quantizing) & {*NAMES["functions"]},
            {*NAMES["functions"]}, set(),
        ),
        "modules": (told(modules), {*NAMES["modules"]}, items["burn-nn"]),
        "initialisers": (told(initialisers), {*NAMES["initialisers"]}, set()),
        "parameters": (
            {name for name in told(parameters) if name[0].isupper()}, set(),
            items["burn-core"] | items["burn-std"],
        ),
        "optimisers": (
            camel, {*NAMES["optimisers"]} | released, {"GradientsParams", "GradientsAccumulator"},
        ),
        "schedules": (told(schedules), {*NAMES["schedules"]}, {"Constant"}),
        "datasets": (told(section("Datasets")), {*NAMES["datasets"]}, set()),
        "metrics": (told(metrics), {*NAMES["metrics"]}, items["burn-train"]),
        "training": (told(training), set(), items["burn-train"]),
        "stores": (told(section("Stores")), set(), items["burn-store"]),
        "vision": (told(section("Vision")), set(), items["burn-vision"]),
        "rl": (
            told(section("Reinforcement learning")), set(), items["burn-rl"] | items["burn-train"],
        ),
        "remote": (told(section("Remote")), set(), items["burn-remote"]),
        "quantization": (
            quantizing, set(), items["burn-core"] | items["burn-std"] | {*NAMES["functions"]},
        ),
        "crates": (told(section("Crates")), {*NAMES["crates"]}, set()),
    }  # fmt: skip


@pytest.mark.parametrize("kind", [*parts()])
def test_rows_have_the_names_of_burn_and_no_others(kind: str) -> None:
    here, needed, allowed = parts()[kind]
    assert here
    assert not needed - here
    assert not here - needed - allowed


def test_no_row_of_a_part_is_there_twice() -> None:
    for title in re.findall("^## (.*)", PAGE, re.M):
        for part in section(title).split("\n### "):
            names = [burn for burn, _ in rows(part) if burn != "(none)"]
            assert len(names) == len(set(names))


def test_the_page_says_which_burn_it_is_of() -> None:
    released, commit = NAMES["released"], NAMES["commit"]
    assert f"Burn {released['version']}, " in PAGE
    assert f"repository at {commit[:9]}, " in PAGE
    assert all(url.startswith("https://docs.rs/crate/burn-") for url in released["pages"])


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
