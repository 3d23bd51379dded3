"""A step by columns gives the bits, and leaves the state, of one parameter after the other."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn, optim
from pyrite.errors import ArgumentTypeError, GradientError, TrainError
from pyrite.optim.columns import SteppedColumns
from pyrite.optim.joint import Joint

RULES: dict[str, Callable[[], Any]] = {
    "adam": lambda: optim.Adam(1e-2),
    "amsgrad": lambda: optim.Adam(1e-2, amsgrad=True, weight_decay=0.1),
    "adamw": lambda: optim.AdamW(lambda step: 1e-2 / (1 + step)),
    "sgd": lambda: optim.SGD(1e-2),
    "momentum": lambda: optim.SGD(1e-2, momentum=0.9, dampening=0.5),
    "lion": lambda: optim.Lion(1e-3, weight_decay=0.1),
    "rmsprop": lambda: optim.RMSprop(1e-2, centered=True),
    "adagrad": lambda: optim.Adagrad(1e-2, lr_decay=0.1),
    "adan": lambda: optim.Adan(1e-2),
    "groups": lambda: optim.AdamW(1e-2).with_group("*.bias", weight_decay=0, learning_rate=1e-3),
    "rules": lambda: optim.Adam(1e-2).with_group("0.*", optimizer=optim.SGD(1e-2, momentum=0.5)),
    "all in a group": lambda: optim.Adam(1e-2).with_group("*", beta1=0.5),
    "clipped": lambda: optim.Adam(1e-2).with_clipping(global_norm=0.1),
    "clipped values": lambda: optim.SGD(1e-2).with_clipping(value=0.01),
    "clipped norms": lambda: optim.SGD(1e-2).with_clipping(norm=0.01).with_group("0.*", momentum=0),
    "clipped group": lambda: optim.SGD(1e-2).with_group(
        "0.*", optimizer=optim.Adam(1e-2).with_clipping(value=0.01)
    ),
}
#: Of which no step is one by columns.
OTHERS = {"adan", "clipped group"}
DEVICES = ["numpy", "cpu"]


class Counted:
    """How many steps were made by columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_columns = self.others = 0
        self.is_off = False
        step = Joint._step_columns

        def counted(rule: Joint, held: Any, gradients: Any, rates: Any) -> SteppedColumns | None:
            found = None if self.is_off else step(rule, held, gradients, rates)
            self.by_columns += found is not None
            self.others += found is None
            return found

        monkeypatch.setattr(Joint, "_step_columns", counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def model_on(device: str, dtype: Any = None) -> Any:
    pyrite.seed(3)
    model = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 1)).to(device)
    return model if dtype is None else model.map(lambda t: t.with_value(t.astype(dtype)))


def inputs_on(device: str) -> pyrite.Tensor:
    return pyrite.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), device=device)


def loss_of(model: Any, x: pyrite.Tensor) -> pyrite.Tensor:
    return (model(x.astype(model[0].weight.dtype)) ** 2).mean()


def trained(optimizer: Any, model: Any, steps: int = 5, of: Any = loss_of) -> Any:
    x = inputs_on(next(iter(model.parameters())).device)
    for _ in range(steps):
        _, gradients = pyrite.value_and_grad(of)(model, x)
        model = optimizer.step(model, gradients)
    return model


def values(model: Any) -> list[Any]:
    return [t.numpy().copy() for t in model.parameters()]


def record(optimizer: Any, model: Any) -> dict[str, Any]:
    return {name: np.asarray(x) for name, x in optimizer.record(model).arrays.items()}


def assert_same(found: Any, want: Any) -> None:
    assert len(found) == len(want)
    for x, y in zip(found, want, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rule", RULES)
def test_a_step_by_columns_has_the_bits_of_one_after_the_other(
    rule: str, device: str, counted: Counted
) -> None:
    first, second = RULES[rule](), RULES[rule]()
    by_columns = trained(first, model_on(device))
    has_some = counted.by_columns > 0
    counted.is_off = True
    one_by_one = trained(second, model_on(device))

    assert has_some == (device == "cpu" and rule not in OTHERS)
    assert_same(values(by_columns), values(one_by_one))
    kept, want = record(first, by_columns), record(second, one_by_one)
    assert kept.keys() == want.keys()
    assert_same([*kept.values()], [*want.values()])
    assert first.steps == second.steps == 5
    assert (first.gradient_norm is None) == (second.gradient_norm is None)
    if first.gradient_norm is not None:
        assert first.gradient_norm.item() == second.gradient_norm.item()
    assert [p.version for p in by_columns.parameters()] == [5] * 4
    assert [p.id for p in by_columns.parameters()] != [p.id for p in one_by_one.parameters()]


def test_a_look_at_the_state_between_steps_changes_nothing(counted: Counted) -> None:
    looked, alone = optim.Adam(1e-2), optim.Adam(1e-2)
    model, other = model_on("cpu"), model_on("cpu")
    for _ in range(3):
        model, other = trained(looked, model, 2), trained(alone, other, 2)
        record(looked, model)
        assert len(looked._state.parameters) == 4

    assert counted.by_columns > 4
    assert_same(values(model), values(other))


def test_a_training_goes_on_from_a_record_and_from_a_copy(counted: Counted) -> None:
    from copy import deepcopy

    first = optim.Adam(1e-2)
    model = trained(first, model_on("cpu"))
    copied, loaded = deepcopy(first), optim.Adam(1e-2).load_record(model, first.record(model))

    want = values(trained(first, model))
    assert_same(values(trained(copied, model)), want)
    assert_same(values(trained(loaded, model)), want)


@pytest.mark.parametrize("dtype", [pyrite.float16, pyrite.bfloat16])
def test_narrow_parameters_have_a_state_in_float32(dtype: Any, counted: Counted) -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu", dtype))

    assert counted.by_columns == 0
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert {t.dtype for s in optimizer._state.parameters.values() for t in s.state.values()} == {
        pyrite.float32
    }


def test_frozen_parameters_are_shared_with_the_old_model(counted: Counted) -> None:
    optimizer, other = optim.Adam(1e-2), optim.Adam(1e-2)
    before = model_on("cpu").freeze("0.*")
    model = trained(optimizer, before)
    assert counted.by_columns > 0
    counted.is_off = True

    assert model[0].weight is before[0].weight
    assert_same(values(model), values(trained(other, model_on("cpu").freeze("0.*"))))


def test_states_are_renewed_beside(counted: Counted) -> None:
    def made() -> Any:
        pyrite.seed(1)
        return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm(5), nn.Linear(5, 1)).to("cpu")

    model = trained(optim.Adam(1e-2), made())
    assert counted.by_columns > 0
    counted.is_off = True
    want = trained(optim.Adam(1e-2), made())

    assert_same(values(model), values(want))
    np.testing.assert_array_equal(model[1].running_mean.numpy(), want[1].running_mean.numpy())
    assert np.any(model[1].running_mean.numpy())


def test_tied_weights_stay_tied(counted: Counted) -> None:
    layer = nn.Linear(3, 3)
    model = trained(optim.Adam(1e-2), nn.Sequential(layer, nn.GELU(), layer).to("cpu"))

    assert counted.by_columns > 0
    assert model[0].weight is model[2].weight


def test_gradients_in_another_layout_and_of_a_view(counted: Counted) -> None:
    def of(model: Any, x: pyrite.Tensor) -> pyrite.Tensor:
        w = model[0].weight
        strided = (x @ w.mT).mT[::2].sum() + (w[:, ::2] * 2).sum()
        return strided + w.broadcast_to((2, *w.shape)).sum() + loss_of(model, x)

    model = trained(optim.Adam(1e-2), model_on("cpu"), of=of)
    assert counted.by_columns > 0
    counted.is_off = True
    assert_same(values(model), values(trained(optim.Adam(1e-2), model_on("cpu"), of=of)))


def test_a_parameter_of_no_elements(counted: Counted) -> None:
    def made() -> Any:
        pyrite.seed(2)
        shapes: list[tuple[int, ...]] = [(0, 3), (3,)]
        return [pyrite.Parameter(pyrite.ones(shape, device="cpu")) for shape in shapes]

    def of(model: Any) -> pyrite.Tensor:
        return model[0].sum() + (model[1] ** 2).sum()

    for is_off in (False, True):
        counted.is_off = is_off
        optimizer, model = optim.Adam(1e-2), made()
        for _ in range(5):
            _, gradients = pyrite.value_and_grad(of)(model)
            model = optimizer.step(model, gradients)
        if not is_off:
            found = [t.numpy() for t in model]
    assert counted.by_columns > 0
    assert_same(found, [t.numpy() for t in model])
    assert found[0].shape == (0, 3)


def test_models_in_turns_keep_their_states(counted: Counted) -> None:
    optimizer = optim.Adam(1e-2)
    first, second = model_on("cpu"), model_on("cpu")
    for _ in range(4):
        first, second = trained(optimizer, first, 1), trained(optimizer, second, 1)

    assert_same(values(first), values(second))
    assert_same(values(first), values(trained(optim.Adam(1e-2), model_on("cpu"), 4)))
    assert len(optimizer._state.parameters) == 8


def test_a_new_layer_begins_with_a_state_of_its_own(counted: Counted) -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"))
    longer = nn.Sequential(*model, nn.Linear(1, 1).to("cpu"))
    longer = trained(optimizer, longer, 3)

    steps = [optimizer._state.parameters[p.id].steps for p in longer.parameters()]
    assert steps == [8] * 4 + [3] * 2


def test_mistakes_are_named_as_ever() -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"))
    x = inputs_on("cpu")
    _, gradients = pyrite.value_and_grad(loss_of)(model, x)
    later = optimizer.step(model, gradients)

    with pytest.raises(GradientError, match="got version 6 for gradients of version 5"):
        optimizer.step(later, gradients)
    with pytest.raises(GradientError, match="2 gradients"):
        optimizer.step(model[0], gradients)
    with pytest.warns(UserWarning, match="got the parameters of before the last step again"):
        optimizer.step(model, gradients)


def test_a_lost_step_is_told_once_and_at_its_line() -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"))
    _, gradients = pyrite.value_and_grad(loss_of)(model, inputs_on("cpu"))
    optimizer.step(model, gradients)

    with pytest.warns(UserWarning, match="lost") as told:
        optimizer.step(model, gradients)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step(model, gradients)


def test_a_call_during_another_threads_is_an_error() -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"))
    _, gradients = pyrite.value_and_grad(loss_of)(model, inputs_on("cpu"))
    with optimizer._state.lock, pytest.raises(TrainError, match="one thread"):
        optimizer.step(model, gradients)


def test_a_compiled_step_goes_on_where_columns_left_off(counted: Counted) -> None:
    optimizer, other = optim.Adam(1e-2), optim.Adam(1e-2)
    x = inputs_on("cpu")

    @pyrite.compile
    def step(model: Any, x: pyrite.Tensor) -> Any:
        _, gradients = pyrite.value_and_grad(loss_of)(model, x)
        return optimizer.step(model, gradients)

    model = trained(optimizer, model_on("cpu"))
    for _ in range(5):
        model = step(model, x)
    model = trained(optimizer, model)

    want = trained(other, model_on("cpu"), 15)
    for found, wanted in zip(values(model), values(want), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert optimizer.steps == 15


def test_a_rule_that_defines_no_update_is_refused_by_name() -> None:
    class Idle(Joint):
        def init(self, parameter: pyrite.Tensor) -> dict[str, pyrite.Tensor]:
            return {}

    model = model_on("cpu")
    _, gradients = pyrite.value_and_grad(loss_of)(model, inputs_on("cpu"))
    with pytest.raises(ArgumentTypeError, match="Idle requires joint_call, joint_update or update"):
        Idle(1e-2).step(model, gradients)


def test_steps_hold_nothing_of_those_before() -> None:
    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"), 30)
    model = trained(optimizer, model, 1)
    gc.collect()
    before = sys.getrefcount(None), len(gc.get_objects())
    for _ in range(5):
        model = trained(optimizer, model, 20)
    gc.collect()
    after = sys.getrefcount(None), len(gc.get_objects())

    assert abs(after[0] - before[0]) < 2000
    assert after[1] - before[1] < 300


def test_the_model_that_was_made_last_is_known_and_not_held(counted: Counted) -> None:
    from weakref import ref

    optimizer = optim.Adam(1e-2)
    model = trained(optimizer, model_on("cpu"))
    latest = optimizer._state.latest

    assert latest is not None
    assert latest.model() is model
    assert latest.ids == [p.id for p in model.parameters()]
    assert latest.versions == [5] * 4
    assert not optimizer._state.note_model(model_on("cpu"))
    assert optimizer._state.latest is None
    model, made = trained(optimizer, model), ref(model)
    gc.collect()
    assert made() is None
    assert counted.by_columns > 7


@pytest.mark.parametrize("change", ["another", "frozen", "changed", "part", "states"])
def test_a_model_that_is_not_the_last_one_is_looked_at(change: str, counted: Counted) -> None:
    def changed(model: Any) -> Any:
        if change == "another":
            return model.map(lambda t: t)
        if change == "frozen":
            return model.freeze("0.*")
        if change == "changed":
            return model.map(lambda t: t.with_value(t * 0.5))
        if change == "part":
            return nn.Sequential(model[0], nn.GELU(), nn.Linear(5, 1).to("cpu"))
        return nn.Sequential(*model, nn.BatchNorm(1).to("cpu"))

    def run() -> Any:
        pyrite.seed(5)
        optimizer = optim.Adam(1e-2)
        model = changed(trained(optimizer, model_on("cpu"), 3))
        return trained(optimizer, model, 3)

    by_columns = run()
    counted.is_off = True
    one_by_one = run()

    assert counted.by_columns
    assert_same(values(by_columns), values(one_by_one))


def test_attributes_of_another_kind_are_told_apart(counted: Counted) -> None:
    def run() -> Any:
        optimizer, model = optim.SGD(1e-2, momentum=0.5), model_on("cpu")
        for dampening in (0.0, 0.0, 0.5, 0.5, 0.0, 0.0):
            object.__setattr__(optimizer, "dampening", dampening)
            model = trained(optimizer, model, 1)
        return model

    by_columns = run()
    counted.is_off = True

    assert counted.by_columns > 3
    assert_same(values(by_columns), values(run()))
