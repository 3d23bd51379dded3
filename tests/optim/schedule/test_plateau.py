"""The schedule that follows a metric, against PyTorch's."""

from __future__ import annotations

import math
import random

import pytest

from pyrite import optim
from pyrite.errors import RecordError
from pyrite.optim.schedule import Composed, ReduceOnPlateau
from pyrite.tensor.creation import tensor

torch = pytest.importorskip("torch")


def noise(count: int) -> list[float]:
    source = random.Random(3)
    return [1 / (1 + k / 10) + source.uniform(-0.2, 0.2) for k in range(count)]


CASES = [
    {},
    {"mode": "max", "patience": 1},
    {"patience": 0, "factor": 0.5, "min_lr": 0.02},
    {"patience": 2, "cooldown": 3, "threshold": 0.05},
    {"patience": 1, "threshold": 0.1, "threshold_mode": "abs"},
    {"patience": 1, "threshold": 0.1, "threshold_mode": "abs", "mode": "max"},
    {"patience": 0, "eps": 1e-3, "factor": 0.3},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_reduces_when_pytorchs_does(case):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.3)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **case)
    names = {"min_lr": "min_learning_rate"}
    words = {"abs": "absolute"}
    ours = ReduceOnPlateau(0.3, **{names.get(k, k): words.get(v, v) for k, v in case.items()})
    for metric in noise(60):
        theirs.step(metric)
        ours.observe(metric)
        assert ours(0) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert case == {} or ours(0) < 0.3


def test_a_nan_is_never_an_improvement():
    ours = ReduceOnPlateau(1.0, factor=0.5, patience=1)
    for metric in (1.0, math.nan, math.nan):
        ours.observe(metric)
    assert ours(0) == 0.5


def test_a_tensor_will_do():
    ours = ReduceOnPlateau(1.0, factor=0.5, patience=0)
    ours.observe(tensor(1.0))
    ours.observe(tensor(1.0))
    assert ours(0) == 0.5


def test_an_optimiser_passes_a_metric_to_each_schedule_once():
    shared = ReduceOnPlateau(1.0, factor=0.5, patience=1)
    optimizer = optim.SGD(shared).with_group("head.*", learning_rate=Composed([shared, 0.1]))
    for _ in range(3):
        optimizer.observe(1.0)
    assert optimizer.learning_rates() == {"*": 0.5, "head.*": 0.05}


def test_a_state_of_something_else_is_an_error():
    with pytest.raises(RecordError, match=r"learning_rate, best, bad, cooldown, got none"):
        ReduceOnPlateau(1.0).load_state({})
