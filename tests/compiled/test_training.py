"""Steps of training that are compiled do to the last bit what they do as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.device import Device

Train = Callable[..., tuple[Any, Tensor]]

RULES: dict[str, Callable[[], optim.Optimizer]] = {
    "sgd": lambda: optim.SGD(0.1),
    "momentum": lambda: optim.SGD(0.1, momentum=0.9, dampening=0.5),
    "adam": lambda: optim.Adam(1e-2, amsgrad=True),
    "adamw": lambda: optim.AdamW(1e-2),
    "scheduled": lambda: optim.Adam(lambda step: 1e-2 / (step + 1)),
    "clipped": lambda: optim.Adam(1e-2).with_clipping(global_norm=0.5),
    "grouped": lambda: optim.Adam(1e-2).with_group("*.bias", learning_rate=1e-1, eps=1e-3),
    "lion": lambda: optim.Lion(1e-3),
    "rmsprop": lambda: optim.RMSprop(1e-3, momentum=0.9, centered=True),
    "adagrad": lambda: optim.Adagrad(1e-2, lr_decay=0.1),
    "adan": lambda: optim.Adan(1e-3),
    "adadelta": lambda: optim.Adadelta(1e-1),
    "adafactor": lambda: optim.Adafactor(lambda step: 1e-2 if step < 6 else 1.0),
    "lamb": lambda: optim.LAMB(1e-3),
    "nadam": lambda: optim.NAdam(1e-3),
    "radam": lambda: optim.RAdam(1e-3),
    "rprop": lambda: optim.Rprop(1e-3),
    "muon": lambda: (
        optim.Muon(1e-3)
        .with_group("*s", optimizer=optim.AdamW(1e-3))
        .with_group("norm.*", optimizer=optim.AdamW(1e-3))
    ),
}


class Net(nn.Module):
    """What has states, draws, and a branch that shares its weight."""

    def __init__(self) -> None:
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(x)).relu()))


@pytest.fixture(params=["numpy", "cpu"])
def device(request: pytest.FixtureRequest) -> Device:
    return pyrite.fusion(request.param)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return ((model(x) - y) ** 2).mean()


def batches(device: Device, count: int, size: int = 5) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(3)
    return [
        (
            pyrite.tensor(random.standard_normal((size, 6), np.float32), device=device),
            pyrite.tensor(random.standard_normal((size, 8), np.float32), device=device),
        )
        for _ in range(count)
    ]


def made(device: Device, seed: int = 0) -> Net:
    with pyrite.random_stream(seed):
        model = Net().to(device)
        for t in model.parameters():
            t.numpy()
    return model


def values(tree: Any) -> list[bytes]:
    return [t.numpy().tobytes() for t in pyrite.nn.Sequential(tree).parameters()] + [
        s.numpy().tobytes() for _, s in tree.named_states()
    ]


@dataclass
class Run:
    """A model in training, its optimiser, and what its step is."""

    model: Net
    optimizer: optim.Optimizer
    is_compiled: bool

    def __post_init__(self) -> None:
        def train(model: Net, x: Tensor, y: Tensor) -> tuple[Net, Tensor]:
            loss, grads = pyrite.value_and_grad(loss_of)(model, x, y)
            return self.optimizer.step(model, grads), loss

        self.train: Train = pyrite.compile(train) if self.is_compiled else train

    def step(self, x: Tensor, y: Tensor) -> float:
        self.model, loss = self.train(self.model, x, y)
        return float(loss.item())


def pair(device: Device, rule: str) -> list[Run]:
    return [Run(made(device), RULES[rule](), is_compiled) for is_compiled in (False, True)]


def agree(plain: Run, compiled: Run) -> None:
    assert values(compiled.model) == values(plain.model)
    assert compiled.optimizer.steps == plain.optimizer.steps
    records = [run.optimizer.record(run.model) for run in (plain, compiled)]
    assert repr(records[0]) == repr(records[1])
    versions = [[p.version for p in run.model.parameters()] for run in (plain, compiled)]
    assert versions[0] == versions[1]


def both(runs: list[Run], given: list[tuple[Tensor, Tensor]]) -> None:
    found = []
    for run in runs:
        with pyrite.random_stream(9) as stream:
            found.append(([run.step(x, y) for x, y in given], stream.next_draw))
    assert found[0] == found[1]
    agree(*runs)


@pytest.mark.sample(2, of={"device": "cpu"})
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_goes_on_as_without(device: Device, rule: str) -> None:
    runs = pair(device, rule)

    both(runs, batches(device, 14))

    assert runs[1].train.replays >= 2  # type: ignore[attr-defined]


def test_every_rule_is_among_those_that_go_on() -> None:
    exported = {getattr(optim, name) for name in optim.__all__}
    rules = {x for x in exported if isinstance(x, type) and issubclass(x, optim.Optimizer)}
    assert rules - {type(make()) for make in RULES.values()} == {optim.Optimizer}


def test_the_rate_of_a_schedule_is_asked_for_at_each_call(device: Device) -> None:
    asked: list[int] = []

    def rate(step: int) -> float:
        asked.append(step)
        return 1e-2 if step < 6 else 1.0

    RULES["stepped"] = lambda: optim.SGD(rate)
    try:
        both(pair(device, "stepped"), batches(device, 9))
    finally:
        del RULES["stepped"]

    assert asked == [*range(9)] * 2


def test_an_optimizer_that_is_taken_up_goes_on(device: Device) -> None:
    runs = pair(device, "adam")
    given = batches(device, 6)
    both(runs, given)
    for run in runs:
        before = (run.model, run.optimizer.record(run.model))
        with pyrite.random_stream(4):
            run.step(*given[0])
        run.model = before[0]
        run.optimizer.load_record(run.model, before[1])

    both(runs, given)


class Slowing(optim.Optimizer):
    """A rule that asks for the number of the step."""

    def init(self, parameter: Tensor) -> dict[str, Tensor]:
        return {}

    def update(
        self, gradient: Tensor, parameter: Tensor, state: Any, *, learning_rate: float, step: int
    ) -> Any:
        return parameter - (
            0.1 * learning_rate if step in (9, 10) else learning_rate
        ) * gradient, state


def test_a_comparison_that_is_answered_otherwise_draws_nothing_twice(device: Device) -> None:
    runs = [Run(made(device), Slowing(0.1), is_compiled) for is_compiled in (False, True)]

    both(runs, batches(device, 13))


def test_a_plain_step_between_replays_is_seen(device: Device) -> None:
    runs = pair(device, "adam")
    both(runs, batches(device, 5))
    for run in runs:
        with pyrite.random_stream(4):
            _, grads = pyrite.value_and_grad(loss_of)(run.model, *batches(device, 1)[0])
        run.model = run.optimizer.step(run.model, grads)

    both(runs, batches(device, 4))


def test_another_model_of_the_same_structure_is_trained_by_itself(device: Device) -> None:
    runs = pair(device, "adam")
    both(runs, batches(device, 5))
    first = [run.model for run in runs]
    for run in runs:
        run.model = made(device, 1)
    both(runs, batches(device, 5))
    for run, model in zip(runs, first, strict=True):
        run.model = model

    both(runs, batches(device, 5))


def test_frozen_parameters_stay(device: Device) -> None:
    runs = pair(device, "adamw")
    both(runs, batches(device, 5))
    for run in runs:
        run.model = run.model.freeze("first.*")
    kept = [run.model.first.weight for run in runs]

    both(runs, batches(device, 6))

    assert all(run.model.first.weight is t for run, t in zip(runs, kept, strict=True))


def test_ties_stay_ties(device: Device) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.encoder = nn.Linear(6, 6)
            self.decoder = self.encoder

        def forward(self, x: Tensor) -> Tensor:
            return self.decoder(self.encoder(x).tanh())

    model, optimizer = Tied().to(device), optim.Adam(1e-2)

    @pyrite.compile
    def train(model: Tied, x: Tensor) -> tuple[Tied, Tensor]:
        loss, grads = pyrite.value_and_grad(lambda m, x: (m(x) ** 2).sum())(model, x)
        return optimizer.step(model, grads), loss

    losses = []
    for x, _ in batches(device, 8):
        model, loss = train(model, x)
        losses.append(loss.item())
    assert train.replays >= 2
    assert model.encoder is model.decoder or model.encoder.weight is model.decoder.weight
    assert len(model.parameters()) == 2


def test_two_optimizers_and_two_steps_in_one_call(device: Device) -> None:
    def run(is_compiled: bool) -> list[bytes]:
        one, other = made(device), made(device, 1)
        first, second = optim.Adam(1e-2), optim.SGD(0.1, momentum=0.5)

        def train(one: Net, other: Net, x: Tensor, y: Tensor) -> tuple[Net, Net]:
            for _ in range(2):
                _, grads = pyrite.value_and_grad(loss_of)(one, x, y)
                one = first.step(one, grads)
            target = one(x)
            _, grads = pyrite.value_and_grad(lambda m: loss_of(m, x, target))(other)
            return one, second.step(other, grads)

        whole = pyrite.compile(train) if is_compiled else train
        with pyrite.random_stream(2):
            for x, y in batches(device, 8):
                one, other = whole(one, other, x, y)
        return values(one) + values(other)

    assert run(True) == run(False)


def test_recomputation_draws_what_was_drawn(device: Device) -> None:
    def run(is_compiled: bool) -> list[bytes]:
        model, optimizer = made(device), optim.Adam(1e-2)

        def loss(model: Net, x: Tensor, y: Tensor) -> Tensor:
            hidden = pyrite.checkpoint(lambda x: model(x))(x)
            return ((hidden - y) ** 2).mean()

        def train(model: Net, x: Tensor, y: Tensor) -> tuple[Net, Tensor]:
            value, grads = pyrite.value_and_grad(loss, checkpointing="balanced")(model, x, y)
            return optimizer.step(model, grads), value

        whole = pyrite.compile(train) if is_compiled else train
        found = []
        with pyrite.random_stream(2):
            for x, y in batches(device, 8):
                model, value = whole(model, x, y)
                found.append(value.numpy().tobytes())
        return values(model) + found

    assert run(True) == run(False)


def test_a_step_of_the_model_of_before_is_told(device: Device) -> None:
    runs = pair(device, "sgd")
    given = batches(device, 6)
    both(runs, given)
    run = runs[1]
    before = run.model
    run.step(*given[0])
    run.model = before

    with pytest.warns(UserWarning, match="the last step again"):
        run.step(*given[0])


def test_a_run_that_raises_has_changed_nothing(device: Device) -> None:
    model, optimizer = made(device), optim.Adam(1e-2)
    fails = [False]

    @pyrite.compile
    def train(model: Net, x: Tensor, y: Tensor) -> Net:
        _, grads = pyrite.value_and_grad(loss_of)(model, x, y)
        stepped = optimizer.step(model, grads)
        if fails[0]:
            raise RuntimeError("late")
        return stepped

    x, y = batches(device, 1)[0]
    model = train(model, x, y)
    fails[0] = True
    before = (optimizer.steps, pyrite.random_state(), repr(optimizer.record(model)))

    with pytest.raises(RuntimeError, match="late"):
        train(model, x, y)

    assert (optimizer.steps, pyrite.random_state(), repr(optimizer.record(model))) == before
