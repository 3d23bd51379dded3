"""Every schedule against PyTorch's over fifty steps, or against its formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pyrite.errors import ArgumentError
from pyrite.optim import schedule as s

torch = pytest.importorskip("torch")
t = torch.optim.lr_scheduler

STEPS = 50


def rates_of_torch(make: Callable[[Any], Any], learning_rate: float) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], learning_rate)
    scheduler = make(optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def sequential(o: Any) -> Any:
    parts = [t.ConstantLR(o, 0.5, 100), t.ExponentialLR(o, 0.9), t.StepLR(o, 3, 0.5)]
    return t.SequentialLR(o, parts, [7, 20])


def chained(o: Any) -> Any:
    return t.ChainedScheduler([t.ExponentialLR(o, 0.95), t.LinearLR(o, 0.5, 1.0, 10)])


SAME = {
    "constant": (s.Constant(0.3), lambda o: t.ConstantLR(o, 1.0)),
    "linear": (s.Linear(0.15, 0.03, steps=20), lambda o: t.LinearLR(o, 0.5, 0.1, 20)),
    "exponential": (s.Exponential(0.3, 0.93), lambda o: t.ExponentialLR(o, 0.93)),
    "step": (s.Step(0.3, 7, 0.4), lambda o: t.StepLR(o, 7, 0.4)),
    "multi-step": (s.MultiStep(0.3, [5, 6, 30], 0.4), lambda o: t.MultiStepLR(o, [5, 6, 30], 0.4)),
    "polynomial": (s.Polynomial(0.3, 30, 2.5), lambda o: t.PolynomialLR(o, 30, 2.5)),
    "cosine": (
        s.CosineAnnealing(0.3, STEPS, 0.01),
        lambda o: t.CosineAnnealingLR(o, STEPS, 0.01),
    ),
    "warm-restarts": (
        s.CosineWarmRestarts(0.3, 8, 1, 0.02),
        lambda o: t.CosineAnnealingWarmRestarts(o, 8, 1, 0.02),
    ),
    "warm-restarts-longer": (
        s.CosineWarmRestarts(0.3, 4, 3),
        lambda o: t.CosineAnnealingWarmRestarts(o, 4, 3),
    ),
    "one-cycle": (
        s.OneCycle(0.3, STEPS + 1),
        lambda o: t.OneCycleLR(o, 0.3, STEPS + 1),
    ),
    "one-cycle-linear": (
        s.OneCycle(0.3, 60, 0.17, "linear", 10.0, 100.0),
        lambda o: t.OneCycleLR(
            o, 0.3, 60, pct_start=0.17, anneal_strategy="linear", div_factor=10.0,
            final_div_factor=100.0,
        ),
    ),
    "one-cycle-three": (
        s.OneCycle(0.3, 55, 0.25, three_phase=True),
        lambda o: t.OneCycleLR(o, 0.3, 55, pct_start=0.25, three_phase=True),
    ),
    "warm-up": (s.WarmUp(0.3, 12, 0.25), lambda o: t.LinearLR(o, 0.25, 1.0, 12)),
    "sequential": (
        s.Sequential([s.Constant(0.15), s.Exponential(0.3, 0.9), s.Step(0.3, 3, 0.5)], [7, 20]),
        sequential,
    ),
    "product": (
        s.Composed([s.Exponential(0.3, 0.95), s.Linear(0.5, 1.0, 10)], "prod"),
        chained,
    ),
    "function": (lambda step: 0.3 / (step + 1), lambda o: t.LambdaLR(o, lambda e: 1 / (e + 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_schedule_is_pytorchs(name: str) -> None:
    ours, theirs = SAME[name]
    rates = [ours(step) for step in range(STEPS)]
    assert rates == pytest.approx(rates_of_torch(theirs, 0.3), rel=1e-9, abs=1e-12)


def test_a_schedule_is_a_function_of_the_step_alone() -> None:
    for ours, _ in SAME.values():
        assert [ours(step) for step in (30, 3, 30)] == [ours(30), ours(3), ours(30)]


def test_noam_is_its_formula() -> None:
    ours = s.Noam(2.0, warmup_steps=10, model_size=512)
    for step in range(1, STEPS + 1):
        want = 2.0 / math.sqrt(512) * min(1 / math.sqrt(step), step / 10**1.5)
        assert ours(step - 1) == pytest.approx(want, rel=1e-12)


def test_means_and_sums() -> None:
    parts = [s.Exponential(1.0, 0.5), s.Constant(0.5), 0.25]
    for step in range(5):
        rates = [0.5**step, 0.5, 0.25]
        assert s.Composed(parts, "sum")(step) == pytest.approx(sum(rates))
        assert s.Composed(parts, "avg")(step) == pytest.approx(sum(rates) / 3)


def test_warm_up_shifts_what_follows() -> None:
    after = s.CosineAnnealing(1.0, steps=10)
    ours = s.WarmUp(after, steps=4)
    assert [ours(step) for step in range(4)] == [0.0, 0.25, 0.5, 0.75]
    assert [ours(4 + step) for step in range(12)] == [after(step) for step in range(12)]


@pytest.mark.parametrize(
    ("ours", "end"),
    [
        (s.CosineAnnealing(0.3, 10, 0.1), 0.1),
        (s.Linear(0.3, 0.1, 10), 0.1),
        (s.Polynomial(0.3, 10, 2.0, 0.1), 0.1),
        (s.OneCycle(0.25, 10, start_divisor=5.0, end_divisor=10.0), 0.005),
    ],
)
def test_after_its_last_step_a_schedule_stays_at_its_end(ours, end) -> None:
    assert [ours(step) for step in (10, 11, 1000)] == pytest.approx([end] * 3)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: s.Constant(-0.1), "Constant requires learning_rate >= 0, got learning_rate=-0.1"),
        (lambda: s.Linear(0.1, 0.0, 0), "Linear requires steps > 0"),
        (lambda: s.Exponential(0.1, 0.0), "Exponential requires gamma > 0"),
        (lambda: s.Step(0.1, 0), "Step requires step_size > 0"),
        (lambda: s.MultiStep(0.1, [3, 3]), r"MultiStep requires 0 < milestones\[0\] < .*\(3, 3\)"),
        (lambda: s.Noam(0.1, 0, 1), "Noam requires warmup_steps > 0"),
        (lambda: s.CosineWarmRestarts(0.1, 5, 0), "requires period_factor >= 1"),
        (lambda: s.OneCycle(0.1, 3), r"1 / steps < rising < 1.0, got rising=0.3, steps=3"),
        (lambda: s.OneCycle(0.1, 30, anneal="cubic"), "anneal to be 'cosine' or 'linear'"),
        (lambda: s.Composed([]), "Composed requires at least one schedule, got none"),
        (lambda: s.Composed([1.0], "max"), "reduction to be 'avg', 'sum' or 'prod', got 'max'"),
        (lambda: s.Sequential([1.0, 2.0], []), "got 2 schedules and 0 milestones"),
        (lambda: s.WarmUp(1.0, 0), "WarmUp requires steps > 0"),
        (lambda: s.ReduceOnPlateau(1.0, factor=1.0), "requires 0 < factor < 1"),
        (lambda: s.ReduceOnPlateau(1.0, mode="least"), "mode to be 'min' or 'max', got 'least'"),
        (lambda: s.ReduceOnPlateau(1.0, threshold_mode="x"), "threshold_mode 'relative' or"),
    ],
)
def test_settings_out_of_range_are_named(make, text) -> None:
    with pytest.raises(ArgumentError, match=text):
        make()
