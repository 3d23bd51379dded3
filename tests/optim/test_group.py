"""Groups: other settings, or another rule, by the path of a parameter."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, RecordError
from pyrite.record import Record
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream


def moved(problem, optimizer) -> dict[str, np.ndarray]:
    """The moves of one step by path."""
    after = optimizer.step(problem.net, problem.gradients(problem.net))
    pairs = zip(problem.net.named_parameters(), after.parameters(), strict=True)
    return {path: new.numpy() - old.numpy() for (path, old), new in pairs}


def test_a_group_has_its_own_settings(problem64):
    gradients = problem64.gradients(problem64.net)
    moves = moved(problem64, optim.SGD(0.1).with_group("hidden.*", learning_rate=0.5))
    for path, p in problem64.net.named_parameters():
        rate = 0.5 if path.startswith("hidden") else 0.1
        np.testing.assert_allclose(moves[path], -rate * gradients[p].numpy(), rtol=1e-9)


def test_groups_follow_pytorchs(problem64, agree):
    torch = pytest.importorskip("torch")

    def theirs(weights):
        groups = [
            {"params": weights[::2], "weight_decay": 0.1},
            {"params": weights[1::2], "weight_decay": 0.0, "lr": 0.05},
        ]
        return torch.optim.AdamW(groups, 0.01)

    ours = optim.AdamW(0.01, weight_decay=0.1).with_group(
        "*.bias", weight_decay=0.0, learning_rate=0.05
    )
    agree(problem64.train(ours, 30), problem64.train_torch(theirs, 30))


def test_a_group_may_have_another_rule(problem64):
    optimizer = optim.SGD(0.1).with_group("out.*", optimizer=optim.Lion(0.003))
    moves = moved(problem64, optimizer)
    np.testing.assert_allclose(np.abs(moves["out.weight"]), 0.003, rtol=1e-9)
    assert len(np.unique(np.abs(moves["hidden.weight"]))) > 10


def test_later_groups_win(problem64):
    optimizer = (
        optim.Lion(0.1)
        .with_group("hidden.*", learning_rate=0.01)
        .with_group("*.bias", learning_rate=0.001)
    )
    sizes = {path: np.abs(move).max() for path, move in moved(problem64, optimizer).items()}
    want = {"hidden.weight": 0.01, "hidden.bias": 0.001, "out.weight": 0.1, "out.bias": 0.001}
    assert sizes == pytest.approx(want)
    assert optimizer.learning_rates() == {"*": 0.1, "hidden.*": 0.01, "*.bias": 0.001}


def test_a_tied_parameter_is_matched_by_any_of_its_paths():
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.encoder = nn.Linear(3, 3, bias=False)
            self.decoder = self.encoder

        def forward(self, x):
            return self.decoder(self.encoder(x))

    with random_stream(0):
        tied = Tied()
    x = tensor(np.eye(3, dtype=np.float32))
    _, gradients = value_and_grad(lambda m: m(x).sum())(tied)
    after = optim.SGD(0.1).with_group("decoder.*", learning_rate=0.0).step(tied, gradients)
    np.testing.assert_array_equal(after.encoder.weight.numpy(), tied.encoder.weight.numpy())


def test_a_pattern_that_matches_nothing_is_an_error(problem64):
    with pytest.raises(ArgumentError, match=r"got 'encoder.\*'; hidden.weight, hidden.bias"):
        problem64.train(optim.SGD().with_group("encoder.*", learning_rate=0.1), 1)


def test_a_setting_that_the_rule_lacks_is_an_error():
    with pytest.raises(ArgumentError, match="settings of SGD, got beta1, rate; it has learning_"):
        optim.SGD().with_group("*", rate=0.1, beta1=0.5)
    with pytest.raises(ArgumentError, match="without groups"):
        optim.SGD().with_group("*", optimizer=optim.SGD().with_group("*"))


def test_an_optimiser_made_from_another_goes_on_and_leaves_it_alone(problem64):
    first = optim.Adam(0.01)
    net = problem64.train(first, 5)
    second = first.with_group("hidden.*", learning_rate=0.02)
    assert second.steps == 5
    problem64.train(second, 3, net)
    assert (first.steps, second.steps) == (5, 8)


def test_schedules_of_groups_run_side_by_side():
    schedule = optim.schedule.Exponential(1.0, gamma=0.5)
    optimizer = optim.SGD(schedule).with_group("head.*", learning_rate=0.1)
    assert optimizer.learning_rates() == {"*": 1.0, "head.*": 0.1}


def no_decay(path, parameter):
    return parameter.ndim < 2


def test_a_group_by_a_predicate_has_its_own_settings(problem64):
    gradients = problem64.gradients(problem64.net)
    optimizer = optim.SGD(0.1).with_group(no_decay, name="no_decay", learning_rate=0.5)
    moves = moved(problem64, optimizer)
    for path, p in problem64.net.named_parameters():
        rate = 0.5 if path.endswith("bias") else 0.1
        np.testing.assert_allclose(moves[path], -rate * gradients[p].numpy(), rtol=1e-9)
    assert optimizer.learning_rates() == {"*": 0.1, "no_decay": 0.5}
    assert ").with_group('no_decay', SGD(learning_rate=0.5, " in repr(optimizer)


def test_a_predicate_is_given_path_and_parameter(problem64):
    seen = {}
    optimizer = optim.SGD(0.1).with_group(
        lambda path, p: seen.setdefault(path, p.shape) == (3,), name="last", learning_rate=0.0
    )
    moves = moved(problem64, optimizer)
    assert seen == {path: p.shape for path, p in problem64.net.named_parameters()}
    assert {path for path, move in moves.items() if not move.any()} == {"out.bias"}


def test_what_a_predicate_needs_is_said_at_once(problem64):
    with pytest.raises(ArgumentError, match=r"got none; write with_group\(lambda path, p"):
        optim.SGD().with_group(no_decay, learning_rate=0.1)
    with pytest.raises(ArgumentError, match="a function of path and parameter, got int"):
        optim.SGD().with_group(3, learning_rate=0.1)
    nothing = optim.SGD().with_group(lambda path, p: False, name="none", learning_rate=0.1)
    with pytest.raises(ArgumentError, match=r"got 'none'; hidden\.weight"):
        problem64.train(nothing, 1)


def test_a_record_keeps_the_paths_of_groups_and_compares_them(problem64):
    def grouped(predicate):
        return optim.Adam(0.01).with_group(predicate, name="some", learning_rate=0.1)

    net = problem64.train(grouped(no_decay), 1)
    first = grouped(no_decay)
    net = problem64.train(first, 2)
    record = first.record(net)
    assert record.metadata["groups"] == [["some", ["hidden.bias", "out.bias"]]]
    assert grouped(no_decay).load_record(net, record).steps == 2
    # The same name and settings, another meaning.
    other = grouped(lambda path, p: path == "out.bias" or path == "out.weight")
    with pytest.raises(
        RecordError, match=r"got 'some' without hidden\.bias, with out\.weight; pass allow_changes"
    ):
        other.load_record(net, record)
    assert other.steps == 0
    assert other.load_record(net, record, allow_changes=True).steps == 2


def test_a_record_of_before_paths_were_kept_still_loads(problem64):
    optimizer = optim.Adam(0.01).with_group("*.bias", learning_rate=0.1)
    net = problem64.train(optimizer, 2)
    record = optimizer.record(net)
    old = Record(record.arrays, {k: v for k, v in record.metadata.items() if k != "groups"})
    again = optim.Adam(0.01).with_group("*.bias", learning_rate=0.1)
    assert again.load_record(net, old).steps == 2
