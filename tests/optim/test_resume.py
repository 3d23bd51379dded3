"""A training that is saved and taken up by another program goes on bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.errors import RecordError
from pyrite.record import Record
from pyrite.tensor.stream import random_stream

schedule = optim.schedule

MAKERS = {
    "sgd": lambda: optim.SGD(0.1, momentum=0.9, dampening=0.5),
    "adam": lambda: optim.Adam(schedule.CosineAnnealing(0.01, steps=20), amsgrad=True),
    "adamw-groups": lambda: (
        optim.AdamW(0.01)
        .with_clipping(global_norm=0.5)
        .with_group("hidden.*", learning_rate=schedule.Noam(0.5, 5, 16))
        .with_group("*.bias", optimizer=optim.Lion(0.001))
    ),
    "adagrad": lambda: optim.Adagrad(lr_decay=0.1),
    "adadelta": lambda: optim.Adadelta(rho=0.8),
    "adafactor": lambda: optim.Adafactor(0.1),
    "lamb": lambda: optim.LAMB(0.01),
    "nadam": lambda: optim.NAdam(0.01, momentum_decay=0.1),
    "radam": lambda: optim.RAdam(0.01),
    "rprop": lambda: optim.Rprop(),
    "rmsprop": lambda: optim.RMSprop(centered=True, momentum=0.5),
    "adan": lambda: optim.Adan(weight_decay=0.1),
    "muon": lambda: optim.Muon(0.02).with_group("*.bias", optimizer=optim.SGD(0.1, momentum=0.9)),
    "plateau": lambda: optim.SGD(schedule.ReduceOnPlateau(0.1, patience=2, factor=0.5)),
    "plateau-in-product": lambda: optim.SGD(
        schedule.Composed([schedule.ReduceOnPlateau(0.1, patience=1), schedule.WarmUp(1.0, 4)])
    ),
}


def advance(problem, optimizer, net, steps):
    for _ in range(steps):
        net = optimizer.step(net, problem.gradients(net))
        if any(optimizer._observers()):
            optimizer.observe(1.0)
    return net


def fresh(problem):
    """The same network as another process would build it: other ids, other values."""
    with random_stream(77):
        return type(problem.net)().astype(problem.dtype)


@pytest.mark.parametrize("name", MAKERS)
def test_a_record_makes_the_continuation_bit_identical(name, problem, tmp_path):
    optimizer = MAKERS[name]()
    net = advance(problem, optimizer, problem.net, 7)
    net.save(tmp_path / "net.safetensors")
    optimizer.record(net).save(tmp_path / "optimizer.safetensors")
    want = advance(problem, optimizer, net, 6)

    again = fresh(problem).load(tmp_path / "net.safetensors")
    resumed = MAKERS[name]().load_record(again, Record.load(tmp_path / "optimizer.safetensors"))
    assert resumed.steps == 7
    got = advance(problem, resumed, again, 6)
    for a, b in zip(want.parameters(), got.parameters(), strict=True):
        assert a.id != b.id
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert resumed.learning_rates() == optimizer.learning_rates()


def test_arrays_stand_under_the_paths_of_parameters(problem64):
    optimizer = optim.Adam()
    net = optimizer.step(
        problem64.net, problem64.gradients(problem64.net).without(problem64.net.out.weight)
    )
    record = optimizer.record(net)
    assert sorted(record.arrays) == [
        f"{path}.{name}"
        for path in ("hidden.bias", "hidden.weight", "out.bias")
        for name in ("first_moment", "second_moment")
    ]
    assert record.metadata["parameter_steps"]["out.bias"] == 1


def test_a_tied_parameter_is_recorded_once(problem64):
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.a = problem64.net.out
            self.b = self.a

    optimizer = optim.Adam()
    optimizer.step(problem64.net, problem64.gradients(problem64.net))
    assert {n.rpartition(".")[0] for n in optimizer.record(Tied()).arrays} == {"a.weight", "a.bias"}


def test_other_settings_are_an_error_unless_allowed(problem64):
    optimizer = optim.Adam(0.01)
    net = problem64.train(optimizer, 2)
    record = optimizer.record(net)
    other = optim.Adam(0.02)
    text = r"settings.optimizer.learning_rate=0.02, recorded as 0.01; pass allow_changes=True"
    with pytest.raises(RecordError, match=text):
        other.load_record(net, record)
    assert other.steps == 0
    assert other.load_record(net, record, allow_changes=True).steps == 2
    with pytest.raises(RecordError, match=r"settings.optimizer.type=SGD, recorded as Adam"):
        optim.SGD(0.01).load_record(net, record)
    with pytest.raises(RecordError, match=r"settings.groups"):
        optim.Adam(0.01).with_group("out.*").load_record(net, record)
    with pytest.raises(RecordError, match=r"settings.clipping"):
        optim.Adam(0.01).with_clipping(norm=1.0).load_record(net, record)


def test_a_schedule_of_other_settings_is_an_error(problem64):
    optimizer = optim.SGD(schedule.Linear(0.1, 0.0, steps=10))
    record = optimizer.record(problem64.train(optimizer, 1))
    with pytest.raises(RecordError, match=r"learning_rate.steps=20, recorded as 10"):
        optim.SGD(schedule.Linear(0.1, 0.0, steps=20)).load_record(problem64.net, record)


def test_what_does_not_fit_the_model_is_an_error_and_changes_nothing(problem64):
    optimizer = optim.Adam(0.01)
    record = optimizer.record(problem64.train(optimizer, 2))
    fresh_one = optim.Adam(0.01)
    with pytest.raises(RecordError, match=r"parameters of the model, got hidden.bias"):
        fresh_one.load_record(nn.Linear(2, 2), record)
    with pytest.raises(RecordError, match=r"first_moment of float32\[8, 4\], got float64"):
        fresh_one.load_record(problem64.net.astype("float32"), record)
    arrays = dict(record.arrays)
    del arrays["out.bias.second_moment"]
    with pytest.raises(RecordError, match=r"requires an array 'out.bias.second_moment', got none"):
        fresh_one.load_record(problem64.net, Record(arrays, record.metadata))
    with pytest.raises(RecordError, match=r"the model's own record is loaded by model.load_record"):
        fresh_one.load_record(problem64.net, problem64.net.record())
    assert fresh_one.steps == 0


def test_a_record_of_a_run_without_steps(problem64):
    record = optim.Adam().record(problem64.net)
    assert not record.arrays
    assert optim.Adam().load_record(problem64.net, record).steps == 0
