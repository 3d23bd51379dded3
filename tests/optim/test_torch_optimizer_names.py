"""What users of PyTorch call on optimisers is an error that says what to write, which runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import data, nn, optim
from pyrite.optim import schedule, torch_names

PLACES: dict[str, tuple[Any, dict[str, str]]] = {
    "pyrite.optim": (optim, torch_names.MODULE),
    "pyrite.optim.schedule": (schedule, torch_names.SCHEDULES),
    "pyrite.nn.init": (nn.init, nn.init._INSTEAD),
    "pyrite.data": (data, data._INSTEAD),
}

#: What PyTorch's have that has no answer.
UNSUPPORTED = {
    "pyrite.optim": {"ASGD", "Adamax", "swa_utils", "swap_in_optimizer_params_and_state"},
    "pyrite.optim.schedule": {"CyclicLR"},
    "pyrite.nn.init": {"dirac_", "sparse_", "trunc_normal_"},
    "pyrite.data": {"Sampler", "WeightedRandomSampler"},
}


def run(advised: str) -> None:
    """Run what is advised, up to the words that say why."""
    code = re.split(r", (?:for|and|given) ", advised)[0]
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    gradients = pyrite.value_and_grad(lambda m: m(pyrite.ones((4, 2))).sum())(model)[1]
    optimizer = optim.Adam(1e-3)
    items = data.ArrayDataset(np.arange(10), np.arange(10))
    names = {
        "pyrite": pyrite, "nn": nn, "optim": optim, "schedule": schedule, "model": model,
        "optimizer": optimizer, "gradients": gradients, "DataLoader": data.DataLoader,
        "ArrayDataset": data.ArrayDataset, "x": np.arange(3), "y": np.arange(3), "first": items,
        "second": items, "record": optimizer.record(model),
    }  # fmt: skip
    found = eval(code.removeprefix("model = "), names)
    if code.startswith("schedule."):
        assert optim.SGD(found).learning_rates()["*"] > 0


@pytest.mark.parametrize("place", PLACES)
def test_what_is_advised_for_a_name_runs(place: str) -> None:
    module, answers = PLACES[place]
    for name, use in answers.items():
        message = f"module '{place}' has no attribute '{name}'; use {use}"
        with pytest.raises(AttributeError, match=re.escape(message)):
            getattr(module, name)
        run(use)
    with pytest.raises(AttributeError, match=rf"^module '{place}' has no attribute 'nonesuch'$"):
        module.nonesuch  # noqa: B018


@pytest.mark.parametrize("name", torch_names.OPTIMIZER)
def test_what_is_advised_for_an_optimiser_runs(name: str) -> None:
    optimizer: Any = optim.Adam(1e-3)
    use = torch_names.OPTIMIZER[name]
    message = f"'Adam' object has no attribute '{name}'; use {use}"
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(optimizer, name)
    if not use.startswith("nothing"):
        run(use.replace(", and what", ", for what"))
    with pytest.raises(AttributeError, match=r"has no attribute 'nonesuch'$"):
        optimizer.nonesuch  # noqa: B018


def test_each_name_of_pytorchs_is_here_or_answered_or_listed() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the list is of PyTorch 2.13, this is {torch.__version__}")
    theirs = {
        "pyrite.optim": (torch.optim, ("",)),
        "pyrite.optim.schedule": (torch.optim.lr_scheduler, ("LR", "Scheduler", "Restarts")),
        "pyrite.nn.init": (torch.nn.init, ("_",)),
        "pyrite.data": (torch.utils.data, ("Dataset", "Sampler", "Loader", "split", "Subset")),
    }
    for place, (module, answers) in PLACES.items():
        there, ends = theirs[place]
        names = [name for name in dir(there) if name[0] != "_" and name.endswith(ends)]
        lacking = {name for name in names if not hasattr(module, name)} - set(answers)
        assert lacking == UNSUPPORTED[place], place
