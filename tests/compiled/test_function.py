"""What compiled functions may do and may not: kinds of calls, guards, outputs, errors."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.device import Device
from pyrite.errors import CompileError

SCALE = 2.0
SETTINGS = SimpleNamespace(shift=1.0)
TABLE = [1.0, 2.0]


@pytest.fixture(params=["numpy", "cpu"])
def device(request: pytest.FixtureRequest) -> Device:
    return pyrite.fusion(request.param)


@pytest.fixture
def host() -> Device:
    return pyrite.fusion("numpy")


def of(values: Any, device: Device, dtype: Any = np.float32) -> Tensor:
    return pyrite.tensor(np.asarray(values, dtype), device=device)


def scaled(x: Tensor) -> Tensor:
    return x * SCALE + SETTINGS.shift + TABLE[1]


# ---- which calls are alike ----


def test_a_replay_does_not_enter_the_function(device: Device) -> None:
    entered = itertools.count()

    @pyrite.compile
    def double(x: Tensor) -> Tensor:
        next(entered)
        return x * 2

    found = [double(of([n, -n], device)).numpy().tolist() for n in range(9)]

    assert found == [[2.0 * n, -2.0 * n] for n in range(9)]
    assert next(entered) == 4  # plain, captured twice, and the 4th replay is captured again
    assert double.replays == 6


def test_layouts_choose_their_programs(device: Device) -> None:
    @pyrite.compile
    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x * 2 + y).sum(1)

    base = of(np.arange(36).reshape(6, 6), device)
    layouts = [base, base.mT, base.flip(0), base[:1].broadcast_to((6, 6)), (base + 1)[::1]]
    for _ in range(3):
        for x in layouts:
            for y in layouts:
                want = (x.numpy() * 2 + y.numpy()).sum(1)
                np.testing.assert_array_equal(f(x, y).numpy(), want)
    assert f.replays > 60


def test_one_tensor_twice_is_another_kind_than_two(device: Device) -> None:
    @pyrite.compile
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x * y + x

    x, y = of([1, 2, 3], device), of([4, 5, 6], device)
    for _ in range(5):
        assert product(x, x).numpy().tolist() == [2, 6, 12]
    for _ in range(5):
        assert product(x, y).numpy().tolist() == [5, 12, 21]
    for _ in range(2):
        assert product(y, y).numpy().tolist() == [20, 30, 42]


def test_two_tensors_that_share_a_handle_may_part(device: Device) -> None:
    @pyrite.compile
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    x = of([1, 2, 3], device)
    for _ in range(5):
        product(x, x.clone())
    assert product(x, of([0, 1, 0], device)).numpy().tolist() == [0, 2, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_, np.float64])
def test_shapes_and_dtypes_are_kinds(device: Device, dtype: Any) -> None:
    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return x.astype(pyrite.float32).sum()

    for size in (0, 1, 7) * 4:
        assert f(of(np.ones(size), device, dtype)).item() == size


def test_python_arguments_are_kinds(host: Device) -> None:
    @pyrite.compile
    def power(x: Tensor, n: int, *, flip: bool = False) -> Tensor:
        return (x**n).flip(0) if flip else x**n

    x = of([1, 2], host)
    for _ in range(4):
        assert power(x, 2).numpy().tolist() == [1, 4]
        assert power(x, 3).numpy().tolist() == [1, 8]
        assert power(x, 3, flip=True).numpy().tolist() == [8, 1]
    assert power.replays == 5


def test_many_kinds_are_told(host: Device) -> None:
    @pyrite.compile
    def shifted(x: Tensor, by: float) -> Tensor:
        return x + by

    with pytest.warns(UserWarning, match=r"8 kinds of calls.*no tensor differs"):
        found = [shifted(of([1], host), float(n)).item() for n in range(10)]
    assert found == [1.0 + n for n in range(10)]


def test_a_global_a_cell_and_what_they_hold_are_watched(
    host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = 0.0

    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return scaled(x) + offset

    def now() -> float:
        return float(f(of(1, host)).item())

    assert [now() for _ in range(5)] == [5.0] * 5
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert [now() for _ in range(4)] == [13.0] * 4
    monkeypatch.setattr(SETTINGS, "shift", 0.0)
    assert [now() for _ in range(4)] == [12.0] * 4
    TABLE[1] = 3.0
    assert [now() for _ in range(4)] == [13.0] * 4
    TABLE[1] = 2.0
    offset = 100.0
    assert [now() for _ in range(4)] == [112.0] * 4


def test_a_list_that_grows_at_each_call_is_told(host: Device) -> None:
    seen: list[int] = []

    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        seen.append(len(seen))
        return x * 2

    with pytest.warns(UserWarning, match="8 times that seen had changed"):
        assert [f(of([n], host)).item() for n in range(12)] == [2 * n for n in range(12)]
    assert len(seen) == 12


def test_a_module_and_its_training_flag_are_seen(host: Device) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(host)

    @pyrite.compile
    def f(model: nn.Module, x: Tensor) -> Tensor:
        return model(x)

    x = of(np.ones((2, 3)), host)
    want = model(x).numpy()
    for _ in range(5):
        np.testing.assert_array_equal(f(model, x).numpy(), want)
    trained = model.with_training(True)
    found = {f(trained, x).numpy().tobytes() for _ in range(6)}
    assert len(found) > 1
    with pyrite.training_mode(True):
        assert len({f(model, x).numpy().tobytes() for _ in range(6)}) > 1
    np.testing.assert_array_equal(f(model, x).numpy(), want)


def test_a_module_is_compiled(device: Device) -> None:
    model = nn.Linear(3, 2).to(device)
    whole = pyrite.compile(model)

    x = of(np.ones((4, 3)), device)
    for _ in range(6):
        np.testing.assert_array_equal(whole(x).numpy(), model(x).numpy())
    assert whole.replays == 3
    assert repr(whole) == "compile(Linear)"


def test_methods_and_options(host: Device) -> None:
    class Doubler:
        @pyrite.compile()
        def of(self, x: Tensor) -> Tensor:
            """Return the double."""
            return x * 2

    doubler = Doubler()
    assert [doubler.of(of(n, host)).item() for n in range(5)] == [0, 2, 4, 6, 8]
    assert Doubler.of.__doc__ == "Return the double."


# ---- what is returned ----


@dataclass
class Pair:
    first: Tensor
    name: str


def test_trees_come_back(host: Device) -> None:
    @pyrite.compile
    def f(x: Tensor) -> Any:
        y = x + 1
        return {"pair": Pair(y, "sum"), "same": [x, y, None], "n": 3, "t": (y.mT, ())}

    x = of(np.ones((2, 3)), host)
    for _ in range(6):
        found = f(x)
        assert list(found) == ["pair", "same", "n", "t"]
        assert isinstance(found["pair"], Pair)
        assert found["same"][0] is x
        assert found["same"][1] is found["pair"].first
        assert found["same"][2:] == [None]
        assert found["t"][0].shape == (3, 2)
        assert (found["n"], found["t"][1], found["pair"].name) == (3, (), "sum")


def test_what_is_returned_keeps_its_memory_apart(device: Device) -> None:
    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return (x * 3).exp()

    kept = [f(of([n, 0], device)) for n in range(7)]

    for n, t in enumerate(kept):
        np.testing.assert_allclose(t.numpy(), np.exp([3.0 * n, 0]), rtol=1e-5)


def test_tensors_that_a_call_makes_stay(device: Device) -> None:
    table = of([10.0, 20.0], device)

    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return (
            x * table + pyrite.tensor([1.0, 2.0], device=device) + pyrite.arange(2, device=device)
        )

    for n in range(6):
        assert f(of([n, n], device)).numpy().tolist() == [10 * n + 1, 20 * n + 3]
    assert f.replays == 3


def test_a_made_tensor_that_differs_is_never_replayed(host: Device) -> None:
    count = iter(range(100))

    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return x + pyrite.tensor(np.float32(next(count)), device=host)

    with pytest.warns(UserWarning, match="runs as it is written"):
        found = [f(of(0, host)).item() for _ in range(12)]
    assert found == [*range(12)]


def test_an_index_error_names_the_line_and_the_next_call_is_right(device: Device) -> None:
    @pyrite.compile
    def f(x: Tensor, i: Tensor) -> Tensor:
        return x.take(i) * 2

    x = of([1, 2, 3], device)
    good, bad = of([0, 2], device, np.int32), of([0, 7], device, np.int32)
    for _ in range(4):
        f(x, good).numpy()
    with pytest.raises(pyrite.errors.IndexRangeError):
        f(x, bad).numpy()
    assert f(x, good).numpy().tolist() == [2, 6]


# ---- nesting, threads ----


def test_inside_of_a_gradient_or_another_it_is_plain(host: Device) -> None:
    @pyrite.compile
    def square(x: Tensor) -> Tensor:
        return x * x

    @pyrite.compile
    def outer(x: Tensor) -> tuple[Tensor, Tensor]:
        return square(x), pyrite.grad(lambda x: square(x).sum())(x)

    for n in range(6):
        value, slope = outer(of([n], host))
        assert (value.item(), slope.item()) == (n * n, 2 * n)
    assert (outer.replays, square.replays) == (3, 0)


def test_second_derivatives(device: Device) -> None:
    f = pyrite.compile(lambda x: pyrite.grad(lambda x: pyrite.grad(lambda x: x**3)(x))(x))

    assert [f(of(n, device, np.float64)).item() for n in range(6)] == [6.0 * n for n in range(6)]


def test_threads_replay_together(device: Device) -> None:
    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        return (x * 2 + 1).sum()

    for _ in range(4):
        f(of(np.ones(5), device)).item()
    wrong: list[Any] = []

    def run(n: int) -> None:
        for _ in range(30):
            if f(of(np.full(5, n), device)).item() != 10 * n + 5:
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.replays >= 110


def test_draws_are_of_the_stream_of_the_call(device: Device) -> None:
    f = pyrite.compile(
        lambda x: x + pyrite.uniform((3,), device=device) + pyrite.uniform((3,), device=device)
    )
    plain = f.__wrapped__
    x = of(np.zeros(3), device)
    for _ in range(5):
        f(x)
    for seed in (1, 2):
        with pyrite.random_stream(seed) as stream:
            found = [f(x).numpy() for _ in range(3)]
            assert stream.next_draw == 6
        with pyrite.random_stream(seed):
            want = [plain(x).numpy() for _ in range(3)]
        np.testing.assert_array_equal(found, want)


def test_a_stream_of_its_own_is_the_same_each_call(host: Device) -> None:
    @pyrite.compile
    def f(x: Tensor) -> Tensor:
        with pyrite.random_stream(5):
            return x + pyrite.uniform((3,), device=host)

    before = pyrite.random_state()
    assert len({f(of(np.zeros(3), host)).numpy().tobytes() for _ in range(6)}) == 1
    assert pyrite.random_state() == before


# ---- errors ----


def reads(x: Tensor) -> Any:
    return x if x.sum().item() > 0 else -x


def reads_an_argument(x: Tensor) -> Any:
    return x * float(x[0].item())


def branches(x: Tensor) -> Any:
    return x if x.sum() > 0 else -x


def has_no_shape(x: Tensor) -> Any:
    return x.nonzero()


def reseeds(x: Tensor) -> Any:
    pyrite.seed(3)
    return x


def leaves_the_device(x: Tensor) -> Any:
    return x.to("numpy")


def makes_a_parameter(x: Tensor) -> Any:
    return pyrite.Parameter(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (reads, "reads no value"),
        (reads_an_argument, "reads no value"),
        (branches, "reads no value"),
        (has_no_shape, "compile requires"),
        (reseeds, "random state alone"),
        (leaves_the_device, "compile requires"),
        (makes_a_parameter, "parameters and states to be made outside"),
    ],
)
def test_what_cannot_be_replayed_is_an_error_at_the_line(
    host: Device, function: Any, message: str
) -> None:
    f = pyrite.compile(function)
    x = of([1, 2], host)
    f(x)

    with pytest.raises(CompileError, match=message) as caught:
        f(x)

    assert caught.value.location is not None
    assert __file__ in caught.value.location
    f.__wrapped__(x)  # as ever


def test_a_number_that_changes_must_not_become_one_that_stays(host: Device) -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Rule(optim.Optimizer):
        def init(self, parameter: Tensor) -> dict[str, Tensor]:
            return {}

        def update(
            self, gradient: Any, parameter: Any, state: Any, *, learning_rate: float, step: int
        ) -> Any:
            return parameter - gradient * np.sqrt(learning_rate), state

    model, optimizer = nn.Linear(2, 1).to(host), Rule(0.1)

    @pyrite.compile
    def train(model: nn.Module, x: Tensor) -> nn.Module:
        _, grads = pyrite.value_and_grad(lambda m: m(x).sum())(model)
        return optimizer.step(model, grads)

    x = of(np.ones((3, 2)), host)
    model = train(model, x)
    with pytest.raises(CompileError, match="arithmetic with a number that changes"):
        train(model, x)
    assert optimizer.steps == 1


def test_an_accumulator_is_refused_by_name(host: Device) -> None:
    accumulator = optim.GradientAccumulator(2)
    model = nn.Linear(2, 1).to(host)

    @pyrite.compile
    def f(model: nn.Module, x: Tensor) -> Any:
        _, grads = pyrite.value_and_grad(lambda m: m(x).sum())(model)
        accumulator.add(grads)
        return x

    x = of(np.ones((3, 2)), host)
    f(model, x)
    with pytest.raises(CompileError, match=r"GradientAccumulator\.add"):
        f(model, x)


def test_hidden_state_is_found_by_a_later_look(host: Device) -> None:
    class Hidden:
        __slots__ = ("calls",)

        def __init__(self) -> None:
            self.calls = 0

        def next(self) -> float:
            self.calls += 1
            return 0.0 if self.calls < 4 else 1.0

    hidden = Hidden()
    f = pyrite.compile(lambda x: x + hidden.next())
    x = of([1], host)
    for _ in range(6):
        f(x)

    with pytest.raises(
        CompileError, match=r"same at each call.*number 0 of its ops, 0\.0 and 1\.0"
    ):
        f(x)


def test_other_ops_are_captured_anew(host: Device) -> None:
    class Hidden:
        __slots__ = ("calls",)

        def __init__(self) -> None:
            self.calls = 0

        def next(self) -> bool:
            self.calls += 1
            return self.calls >= 4

    hidden = Hidden()
    f = pyrite.compile(lambda x: x.exp() if hidden.next() else x + 1)
    x = of([0], host)

    assert [f(x).item() for _ in range(9)] == [1.0] * 9
    assert f(of([1], host)).item() == pytest.approx(np.e)


def test_devices_without_fusion_are_told(host: Device) -> None:
    f = pyrite.compile(lambda *x: x[0] * 2)
    with pytest.raises(CompileError, match=r'one device with fusion, got numpy.*fusion\("numpy"\)'):
        f(pyrite.tensor([1.0], device="numpy"))
    with pytest.raises(CompileError, match="one device with fusion"):
        f(of([1], host), of([1], pyrite.fusion("cpu")))
    with pytest.raises(CompileError, match="a function or a module, got int"):
        pyrite.compile(3)  # type: ignore[call-overload]


# ---- numbers that are returned ----


@dataclass(frozen=True)
class Report:
    loss: Tensor
    rate: float


def test_numbers_of_the_optimizer_are_returned_as_they_are_at_each_call(device: Device) -> None:
    def trained(compiled: bool) -> list[Any]:
        optimizer = optim.SGD(lambda step: 0.1 / (1 + step))
        with pyrite.random_stream(3):
            model = nn.Linear(2, 1).to(device)

        def train(model: nn.Linear, x: Tensor) -> tuple[Any, Report, dict[str, Any]]:
            rates = optimizer.learning_rates()
            loss, grads = pyrite.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
            report = Report(loss, rates["*"])
            return optimizer.step(model, grads), report, {"half": [rates["*"] / 2], "name": "a"}

        step = pyrite.compile(train) if compiled else train
        found = []
        for _ in range(7):
            model, report, more = step(model, of([[1.0, 2.0]], device))
            assert type(report.rate) is float
            assert type(more["half"][0]) is float
            found.append((report.loss.item(), report.rate, more))
        if compiled:
            assert step.replays >= 3  # type: ignore[attr-defined]
        return found

    assert trained(compiled=True) == trained(compiled=False)


async def waits(x: Tensor) -> Tensor:
    return x


def yields(x: Tensor) -> Any:
    yield x


@pytest.mark.parametrize("function", [waits, yields])
def test_what_returns_before_it_is_done_is_refused(function: Any) -> None:
    with pytest.raises(CompileError, match=r"returns when it is done, got '(waits|yields)'"):
        pyrite.compile(function)
