"""L-BFGS against PyTorch, on a quadratic, and on Rosenbrock's valley."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.errors import ArgumentError, DTypeError, RecordError, ShapeError
from pyrite.record import Record
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State


class Valley(nn.Module):
    """Rosenbrock's function; its minimum is 0 at (1, 1)."""

    def __init__(self, x: float = -1.2, y: float = 1.0) -> None:
        self.x = Parameter(tensor(x, dtype="float64"))
        self.y = Parameter(tensor(y, dtype="float64"))

    def forward(self):
        return (1 - self.x) ** 2 + 100 * (self.y - self.x**2) ** 2


def test_without_a_line_search_it_follows_pytorch(problem, agree):
    torch = pytest.importorskip("torch")
    settings = {"history_size": 5}
    net, optimizer = problem.net, optim.LBFGS(0.5, max_iterations=4, **settings)
    for _ in range(5):
        net, _ = optimizer.step(net, problem.loss)
    theirs = problem.train_torch(lambda p: torch.optim.LBFGS(p, 0.5, max_iter=4, **settings), 5)
    agree(net, theirs, rtol32=1e-3)


def test_with_a_line_search_it_gets_as_far_as_pytorch(problem64):
    torch = pytest.importorskip("torch")
    settings = {"line_search_fn": "strong_wolfe", "max_iter": 50}
    theirs = problem64.train_torch(lambda p: torch.optim.LBFGS(p, **settings), 1)
    optimizer = optim.LBFGS(max_iterations=50, line_search="strong_wolfe")
    net, first = optimizer.step(problem64.net, problem64.loss)
    arrays = iter(theirs)
    torch_net = problem64.net.map(lambda p: tensor(next(arrays)))
    assert float(first) == float(problem64.loss(problem64.net))
    assert float(problem64.loss(net)) < 1.1 * float(problem64.loss(torch_net)) < 0.2 * float(first)


def test_the_valley_is_walked_to_its_end():
    optimizer = optim.LBFGS(max_iterations=100, line_search="strong_wolfe")
    valley, first = optimizer.step(Valley(), lambda m: m())
    assert float(first) == pytest.approx(24.2)
    assert (valley.x.item(), valley.y.item()) == pytest.approx((1.0, 1.0), abs=1e-4)


def test_a_quadratic_takes_as_many_iterations_as_it_has_axes():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 5))
    a = a @ a.T + np.eye(5)
    b = rng.normal(size=5)

    class Quadratic(nn.Module):
        def __init__(self) -> None:
            self.x = Parameter(full((5,), 0.0, dtype="float64"))

        def forward(self):
            return (self.x @ tensor(a) @ self.x) / 2 - tensor(b) @ self.x

    optimizer = optim.LBFGS(max_iterations=30, max_evaluations=100, line_search="strong_wolfe")
    model, _ = optimizer.step(Quadratic(), lambda m: m())
    np.testing.assert_allclose(model.x.numpy(), np.linalg.solve(a, b), atol=1e-4)


def test_evaluations_are_bounded():
    calls = []

    def loss(m):
        calls.append(1)
        return m()

    optim.LBFGS(max_iterations=10, max_evaluations=6, line_search="strong_wolfe").step(
        Valley(), loss
    )
    assert len(calls) <= 6


def test_at_the_minimum_nothing_moves():
    valley = Valley(1.0, 1.0)
    after, loss = optim.LBFGS().step(valley, lambda m: m())
    assert float(loss) == 0.0
    assert (after.x.item(), after.x.version) == (1.0, 0)


def test_frozen_parameters_stay_and_ids_are_kept():
    valley = Valley().freeze("x")
    after, _ = optim.LBFGS(line_search="strong_wolfe").step(valley, lambda m: m())
    assert after.x is valley.x
    assert (after.y.id, after.y.version) == (valley.y.id, 1)
    assert after.y.item() == pytest.approx(1.44)


def test_states_are_those_of_the_last_evaluation():
    class Counting(Valley):
        def __init__(self) -> None:
            super().__init__()
            self.seen = State(full((), 0.0, dtype="float64"))

        def forward(self):
            return self.seen.emit(self.x * 1, through=super().forward())

    after, _ = optim.LBFGS(0.1, max_iterations=3).step(Counting(), lambda m: m())
    assert after.seen.item() != 0.0
    assert after.seen.version == 1


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_a_record_makes_the_continuation_bit_identical(problem64, tmp_path, line_search):
    def make():
        return optim.LBFGS(0.5, max_iterations=3, history_size=4, line_search=line_search)

    optimizer, net = make(), problem64.net
    for _ in range(3):
        net, _ = optimizer.step(net, problem64.loss)
    optimizer.record(net).save(tmp_path / "optimizer.safetensors")
    want, _ = optimizer.step(net, problem64.loss)
    resumed = make().load_record(net, Record.load(tmp_path / "optimizer.safetensors"))
    got, _ = resumed.step(net, problem64.loss)
    for a, b in zip(want.parameters(), got.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_record_of_other_settings_or_shapes_is_an_error(problem64):
    optimizer = optim.LBFGS()
    assert optim.LBFGS().load_record(problem64.net, optimizer.record(problem64.net))
    net, _ = optimizer.step(problem64.net, problem64.loss)
    record = optimizer.record(net)
    with pytest.raises(RecordError, match=r"history_size=5, recorded as 100"):
        optim.LBFGS(history_size=5).load_record(net, record)
    with pytest.raises(RecordError, match=r"requires an array 'x.move0'"):
        optim.LBFGS().load_record(Valley(), record)
    with pytest.raises(ArgumentError, match="the 4 trained parameters of its last step, got 2"):
        optimizer.step(Valley(), lambda m: m())
    with pytest.raises(ArgumentError, match="the 4 trained parameters of its last step, got 2"):
        optimizer.record(Valley())


def test_what_it_cannot_do_is_named():
    with pytest.raises(DTypeError, match="float32 or float64 parameters, got float16"):
        optim.LBFGS().step(Valley().astype("float16"), lambda m: m())
    with pytest.raises(ShapeError, match="scalar loss"):
        optim.LBFGS().step(Valley(), lambda m: m() * full((2,), 1.0))


def test_a_deep_copy_goes_on_from_the_same_point_apart(problem64):
    optimizer = optim.LBFGS(max_iterations=2)
    net, _ = optimizer.step(problem64.net, problem64.loss)
    apart = copy.deepcopy(optimizer)
    after, _ = optimizer.step(net, problem64.loss)
    again, _ = apart.step(net, problem64.loss)
    for one, other in zip(after.parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
