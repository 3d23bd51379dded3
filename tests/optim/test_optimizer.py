"""A step returns a new model and shares the rest; one that is an error changes nothing."""

from __future__ import annotations

import copy
import gc
import threading

import ml_dtypes
import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import autodiff, value_and_grad
from pyrite.errors import ArgumentError, GradientError, ShapeError, TrainError
from pyrite.optim.joint import Joint
from pyrite.optim.optimizer import Optimizer
from pyrite.synchronization import no_sync
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor


def values(module) -> list[np.ndarray]:
    return [p.numpy() for p in module.parameters()]


class Tied(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3, bias=False)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x).tanh())


class Averaging(nn.Module):
    """Emits the mean of what it saw, as batch norm does."""

    def __init__(self) -> None:
        self.scale = Parameter(full((), 2.0))
        self.mean = State(full((), 0.0))

    def forward(self, x):
        return self.mean.emit(x.mean(), through=x * self.scale)


def test_a_step_keeps_ids_and_counts_versions(problem64):
    net = problem64.net
    after = problem64.train(optim.Adam(), 3)
    for old, new in zip(net.parameters(), after.parameters(), strict=True):
        assert (new.id, new.version) == (old.id, old.version + 3)
        assert not np.array_equal(new.numpy(), old.numpy())


def test_a_model_that_is_kept_stays_what_it_was(problem64):
    before = [v.copy() for v in values(problem64.net)]
    problem64.train(optim.SGD(0.1, momentum=0.9), 3)
    for old, now in zip(before, values(problem64.net), strict=True):
        np.testing.assert_array_equal(old, now)


def test_frozen_parameters_and_those_without_a_gradient_are_shared(problem64):
    net = problem64.net.freeze("hidden.weight")
    gradients = problem64.gradients(net).without(net.out.bias)
    after = optim.AdamW(0.1, weight_decay=0.5).step(net, gradients)
    assert after.hidden.weight is net.hidden.weight
    assert after.out.bias is net.out.bias
    assert after.out.weight.version == 1


def test_a_parameter_frozen_after_its_gradient_was_taken_stays(problem64):
    gradients = problem64.gradients(problem64.net)
    frozen = problem64.net.freeze()
    assert optim.SGD(0.1).step(frozen, gradients) is frozen


def test_layers_without_a_change_are_shared(problem64):
    net = problem64.net.freeze("hidden.*")
    after = optim.SGD(0.1).step(net, problem64.gradients(net))
    assert after.hidden is net.hidden
    assert after.out is not net.out


def test_tied_weights_stay_tied_and_are_stepped_once():
    with random_stream(3):
        tied = Tied()
    x = tensor(np.eye(3, dtype=np.float32))
    _, gradients = value_and_grad(lambda m: m(x).sum())(tied)
    after = optim.SGD(0.1).step(tied, gradients)
    assert after.first.weight is after.second.weight
    want = tied.first.weight.numpy() - 0.1 * gradients[tied.first.weight].numpy()
    np.testing.assert_allclose(after.first.weight.numpy(), want, rtol=1e-6)


def test_a_stale_gradient_is_an_error_and_changes_nothing(problem64):
    optimizer = optim.Adam()
    gradients = problem64.gradients(problem64.net)
    after = optimizer.step(problem64.net, gradients)
    record = optimizer.record(after)
    with pytest.raises(GradientError, match="version 1 for gradients of version 0"):
        optimizer.step(after, gradients)
    assert optimizer.record(after) == record


def test_a_gradient_of_another_model_is_an_error(problem64):
    other = nn.Linear(3, 1, dtype="float64")
    both = value_and_grad(lambda m: problem64.loss(m[0]) + m[1](m[0](tensor(problem64.x))).sum())
    _, gradients = both((problem64.net, other))
    with pytest.raises(GradientError, match=r"got 2 gradients and 0 state .* grads\.only\(a\)"):
        optim.SGD().step(problem64.net, gradients)
    net = optim.SGD().step(problem64.net, gradients.only(problem64.net))
    assert net.out.bias.version == 1
    stepped = optim.SGD().step((problem64.net, other), gradients)
    assert stepped[1].weight.version == 1


def test_a_gradient_of_another_shape_is_an_error(problem64):
    gradients = problem64.gradients(problem64.net)
    bias = problem64.net.out.bias
    wrong = gradients.replace(bias, full((1,), 0.0))
    with pytest.raises(ShapeError, match=r"got \(1,\) for \(3,\), 'out.bias'"):
        optim.SGD().step(problem64.net, wrong)


def test_gradients_before_and_after_a_step_do_not_add(problem64):
    first = problem64.gradients(problem64.net)
    after = optim.SGD().step(problem64.net, first)
    with pytest.raises(GradientError, match="from before and after a step"):
        first + problem64.gradients(after)


def test_states_are_committed_with_the_step():
    model, x = Averaging(), tensor([1.0, 3.0])
    _, gradients = value_and_grad(lambda m: m(x).sum())(model)
    after = optim.SGD(0.5).step(model, gradients)
    assert (after.mean.item(), after.scale.item()) == (2.0, 0.0)
    assert (after.mean.id, after.mean.version) == (model.mean.id, 1)
    assert model.mean.item() == 0.0


def test_states_are_committed_when_no_parameter_has_a_gradient():
    model = Averaging().freeze()
    device = autodiff()
    x = tensor([1.0, 3.0], device=device).require_grad()
    gradients = model.with_training(True)(x).sum().backward()
    after = optim.SGD(0.5).step(model, gradients.only(model))
    assert after.mean.item() == 2.0
    assert after.scale is model.scale


def test_a_model_on_an_autodiff_device_steps_and_stays_tracked(problem64):
    device = autodiff()
    net = problem64.net.to(device)
    optimizer = optim.Adam(0.01)
    for _ in range(5):
        loss = (net(tensor(problem64.x, device=device)) - tensor(problem64.y)).square().mean()
        net = optimizer.step(net, loss.backward())
    assert all(p.is_tracked for p in net.parameters())
    for ours, plain in zip(values(net), values(problem64.train(optim.Adam(0.01), 5)), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_states_on_an_autodiff_device_are_committed():
    device = autodiff()
    model = Averaging().to(device)
    loss = model(tensor([1.0, 3.0], device=device)).sum()
    after = optim.SGD(0.5).step(model, loss.backward())
    assert (after.mean.item(), after.scale.item()) == (2.0, 0.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_parameters_have_float32_moments_and_are_rounded_once(problem, dtype):
    net = problem.net.astype(dtype)
    optimizer = optim.Adam(0.01)
    gradients = problem.gradients(net)
    after = optimizer.step(net, gradients)
    record = optimizer.record(after)
    assert {a.dtype for a in record.arrays.values()} == {np.dtype(np.float32)}
    wide = net.astype("float32")
    moved = optim.Adam(0.01).step(wide, gradients)
    numpy_dtype = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    for ours, exact in zip(values(after), values(moved), strict=True):
        np.testing.assert_array_equal(ours, exact.astype(numpy_dtype))


def test_a_step_reads_nothing_back(problem64):
    optimizers = [
        optim.SGD(0.1, momentum=0.9).with_clipping(global_norm=1.0),
        optim.AdamW(amsgrad=True, cautious_weight_decay=True).with_clipping(norm=1.0),
        optim.Adagrad().with_clipping(value=1.0),
        optim.RMSprop(centered=True, momentum=0.9),
        optim.Adan(),
        optim.Lion(),
        optim.Muon().with_group("*.bias", optimizer=optim.Adam()),
    ]
    gradients = problem64.gradients(problem64.net)
    with no_sync():
        for optimizer in optimizers:
            optimizer.step(problem64.net, gradients)


def test_a_thousand_steps_leave_nothing_behind(problem64):
    optimizer = optim.Adam().with_clipping(global_norm=1.0)
    net, counts = problem64.net, []
    for step in range(1001):
        net = optimizer.step(net, problem64.gradients(net))
        if step in (10, 500, 1000):
            gc.collect()
            counts.append(sum(issubclass(type(o), Tensor) for o in gc.get_objects()))
    # Not as many: tensors of earlier tests may die meanwhile.  One for each step would be 990.
    assert max(counts) - counts[0] < 100


def test_eight_trainings_in_eight_threads_are_those_of_one():
    def train(k: int) -> list[np.ndarray]:
        with random_stream(k):
            net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.25), nn.Linear(6, 2))
            optimizer = optim.AdamW(optim.schedule.CosineAnnealing(0.05, steps=20))
            x = tensor(np.random.default_rng(k).normal(size=(8, 4)).astype(np.float32))
            loss = value_and_grad(lambda m: m(x).square().mean())
            for _ in range(20):
                net = optimizer.step(net, loss(net)[1])
            return values(net)

    serial = [train(k) for k in range(8)]
    parallel: list = [None] * 8

    def work(k: int) -> None:
        parallel[k] = train(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(serial, parallel, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_two_threads_may_not_step_at_once(problem64):
    entered, leave = threading.Event(), threading.Event()

    def slow(step: int) -> float:
        entered.set()
        leave.wait(600)
        return 0.1

    optimizer = optim.SGD(slow)
    gradients = problem64.gradients(problem64.net)
    thread = threading.Thread(target=optimizer.step, args=(problem64.net, gradients))
    thread.start()
    try:
        assert entered.wait(600)
        with pytest.raises(TrainError, match="one thread at a time"):
            optimizer.step(problem64.net, gradients)
    finally:
        leave.set()
        thread.join()
    assert optimizer.steps == 1


def test_the_rate_of_every_step_is_the_schedules(problem64):
    seen = []

    class Spy(optim.SGD):
        def update(self, *args, learning_rate, **kwargs):
            seen.append(learning_rate)
            return super().update(*args, learning_rate=learning_rate, **kwargs)

    optimizer = Spy(optim.schedule.Step(0.1, step_size=2, gamma=0.5))
    problem64.train(optimizer, 4)
    assert seen[::4] == [0.1, 0.1, 0.05, 0.05]
    assert optimizer.learning_rates() == {"*": 0.025}
    assert optimizer.steps == 4


def test_a_rule_is_two_methods(problem64):
    class Halving(Optimizer):
        def init(self, parameter):
            return {}

        def update(self, gradient, parameter, state, *, learning_rate, step):
            return parameter * 0.5, state

    after = problem64.train(Halving(0.1), 2)
    for old, new in zip(values(problem64.net), values(after), strict=True):
        np.testing.assert_array_equal(new, old / 4)


def test_a_metric_without_a_schedule_that_follows_it_is_an_error():
    with pytest.raises(ArgumentError, match=r"got none; use learning_rate=schedule.Reduce"):
        optim.SGD(0.1).observe(1.0)


def test_the_repr_is_what_was_written():
    optimizer = optim.SGD(0.1).with_clipping(global_norm=1.0).with_group("*.bias", momentum=0.5)
    assert repr(optimizer) == (
        "SGD(learning_rate=0.1, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0)"
        ".with_clipping(global_norm=1.0).with_group('*.bias', SGD(learning_rate=0.1, momentum=0.5, "
        "dampening=0.0, nesterov=False, weight_decay=0.0))"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.AdamW(0.1, amsgrad=True),
        lambda: optim.SGD(0.1, momentum=0.9, dampening=0.5),
        lambda: optim.RMSprop(0.1, momentum=0.9, centered=True),
        lambda: optim.Lion(0.1, weight_decay=0.1),
        lambda: optim.Adagrad(0.1, lr_decay=0.5),
        lambda: optim.Adan(0.1, weight_decay=0.1),
    ],
    ids=lambda make: type(make()).__name__,
)
def test_parameters_of_different_age_are_stepped_together_as_one_by_one(
    make, problem64, monkeypatch
):
    def trained():
        optimizer, net = make(), problem64.net.freeze("*.bias")
        for unfrozen in (False, True):
            net = net.unfreeze() if unfrozen else net
            _, grads = value_and_grad(problem64.loss)(net)
            net = optimizer.step(net, grads)
        return values(net)

    together = trained()
    monkeypatch.setattr(Joint, "update_many", Optimizer.update_many)
    for one, other in zip(together, trained(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_deep_copy_goes_on_from_the_same_point_apart(problem64):
    plateau = optim.schedule.ReduceOnPlateau(0.1, factor=0.5, patience=0)
    optimizer = optim.AdamW(plateau).with_clipping(global_norm=0.1)
    optimizer = optimizer.with_group("*.bias", optimizer=optim.SGD(0.1, momentum=0.9))
    net = problem64.train(optimizer, 3)
    apart = copy.deepcopy(optimizer)
    assert apart.steps == 3
    assert apart.gradient_norm.item() == optimizer.gradient_norm.item()
    problem64.train(optimizer, 2, net)
    for _ in range(2):
        optimizer.observe(1.0)
    assert (apart.steps, apart.learning_rates()["*"]) == (3, 0.1)
    assert optimizer.learning_rates()["*"] == 0.05
    again = problem64.train(copy.deepcopy(apart), 2, net)
    for one, other in zip(values(problem64.train(apart, 2, net)), values(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_copy_in_the_middle_of_a_step_is_an_error(problem64):
    copied = []

    def rate(step: int) -> float:
        with pytest.raises(TrainError, match="one thread at a time"):
            copied.append(copy.deepcopy(optimizer))
        return 0.1

    optimizer = optim.SGD(rate)
    problem64.train(optimizer, 1)
    assert not copied


def test_an_error_of_one_parameter_names_its_path_and_changes_nothing(problem64):
    class Picky(optim.SGD):
        def init(self, parameter):
            if parameter.shape == (3,):
                raise ArgumentError("Picky requires more elements, got 3")
            return super().init(parameter)

    optimizer = Picky(0.1, momentum=0.9)
    with pytest.raises(ArgumentError, match="more elements") as e:
        problem64.train(optimizer, 1)
    assert e.value.__notes__ == ["for parameter 'out.bias'"]
    assert optimizer.steps == 0
    assert not optimizer.record(problem64.net).arrays


def test_a_rule_that_changes_what_it_is_given_has_changed_nothing(problem64):
    class Writing(Optimizer):
        def init(self, parameter):
            return {"sum": parameter * 0}

        def update(self, gradient, parameter, state, *, learning_rate, step):
            state["sum"] = state["sum"] + gradient
            if step == 2 and parameter.shape == (3,):
                raise ArgumentError("Writing requires one step, got 2")
            return parameter - learning_rate * state["sum"], state

    optimizer = Writing(0.1)
    net = problem64.train(optimizer, 1)
    record = optimizer.record(net)
    with pytest.raises(ArgumentError, match="one step"):
        problem64.train(optimizer, 1, net)
    assert optimizer.record(net) == record


def test_a_model_that_moves_takes_its_state_along(problem64):
    optimizer, device = optim.Adam(0.01), autodiff()
    net = problem64.train(optimizer, 2).to(device)
    loss = (net(tensor(problem64.x, device=device)) - tensor(problem64.y)).square().mean()
    net = optimizer.step(net, loss.backward())
    for ours, plain in zip(values(net), values(problem64.train(optim.Adam(0.01), 3)), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_a_model_that_was_not_taken_is_warned_of_once() -> None:
    model, optimizer = nn.Linear(2, 1), optim.SGD(0.1)

    def grads():
        return value_and_grad(lambda m: m(full((3, 2), 1.0)).mean())(model)[1]

    optimizer.step(model, grads())
    with pytest.warns(UserWarning, match=r"step got .* again.*; write model = optim") as caught:
        optimizer.step(model, grads())
    assert caught[0].filename == __file__

    optimizer.step(model, grads())  # once is enough
    fresh = optim.SGD(0.1)
    for _ in range(3):
        model = fresh.step(model, grads())
