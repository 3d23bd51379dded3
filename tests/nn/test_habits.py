"""What users of PyTorch call on a module is an error that says what to write, which works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite import nn
from pyrite.errors import DTypeError, ModuleError
from pyrite.nn.habits import INSTEAD


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_advised_works_and_the_name_is_not_here(name: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    use = INSTEAD[name]
    path, record = tmp_path / "m.safetensors", model.record()
    model.save(path)

    with pytest.raises(
        AttributeError, match=f"^'Sequential' object has no attribute '{name}'; use "
    ):
        getattr(model, name)

    if use.startswith(("nothing", "a field")):
        return
    names = {"pyrite": pyrite, "path": path, "record": record, "change": lambda p: p}
    names |= {"name": "0", "pattern": "0", "grads": pyrite.Gradients()}
    first, *other = use.replace("'wgpu'", "'numpy'").split(", or ")
    code = [first.partition(", of")[0], *(o for o in other if o.startswith("model.l"))]
    for expression in code:
        eval(expression.removeprefix("model = "), {"model": model, **names})


def test_any_other_name_is_the_error_that_python_makes() -> None:
    model: Any = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match=r"^'Linear' object has no attribute 'wieght'$"):
        model.wieght  # noqa: B018


@pytest.mark.parametrize("name", ["model.pt", "model", "model.weights"])
def test_what_was_saved_is_loaded_whatever_its_name(name: str, tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    model.save(tmp_path / name)

    loaded = nn.Linear(2, 2).load(tmp_path / name)

    assert loaded.weight.tolist() == model.weight.tolist()


def test_a_list_is_no_layer_and_no_tensor() -> None:
    with pytest.raises(ModuleError, match=r"got \[.*\]; unpack it: Sequential\(\*layers\)$"):
        nn.Sequential([nn.ReLU()])
    with pytest.raises(DTypeError, match=r"^Linear requires tensors, got list; convert it: pyrite"):
        nn.Linear(2, 2)([[1.0, 2.0]])
