"""A program that runs again by machine code does what it does by Python, or Python does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube import native_run
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.native_run import NativeLaunches, NativeRun
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.errors import IndexRangeError, OutOfMemoryError
from pyrite.runtime.cpu.bundle_memory import LentBuffers

pytestmark = pytest.mark.skipif(config.guard is not None, reason="guarded memory has no such runs")
RNG = np.random.default_rng(7)


@pytest.fixture
def device() -> Device:
    made = Device(Fusion(pyrite.device("cpu").backend.root))
    if not native_run._code:
        pytest.skip("objects are not to be read here")
    return made


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run was made by machine code that was asked for it."""
    found: list[bool] = []
    run = NativeRun.run

    def noted(*given: Any) -> Any:
        results = run(*given)
        found.append(results is not None)
        return results

    monkeypatch.setattr(NativeRun, "run", noted)
    return found


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def plain(x: Tensor) -> Tensor:
    return pyrite.tensor(x.numpy(), device=Device(pyrite.device("cpu").backend.root))


def step(x: Tensor, y: Tensor, number: float = 2.0) -> tuple[Tensor, ...]:
    """Results that lie in buffers, in parts of them, in one another, and in an input."""
    z = (x @ y).tanh() * number
    return z, z.mT, (z + number).sum(0), x.mT, z.softmax(-1)[:, :1]


def agree(device: Device, given: Callable[[], tuple[Any, ...]], times: int = 8) -> None:
    for _ in range(times):
        x, y, *rest = given()
        found = step(x, y, *rest)
        device.synchronize()
        for one, other in zip(found, step(plain(x), plain(y), *rest), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 2), (17, 33, 9), (0, 3, 4), (4, 0, 3)])
def test_results_have_the_bits_of_the_ops(
    device: Device, runs: list[bool], dtype: Any, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes

    def given() -> tuple[Any, ...]:
        x, y = numbers((m, k), dtype), numbers((k, n), dtype)
        return pyrite.tensor(x, device=device), pyrite.tensor(y, device=device)

    agree(device, given)
    assert runs.count(True) >= (3 if 0 not in sizes else 0)


def test_other_layouts_come_between(device: Device, runs: list[bool]) -> None:
    turn = 0

    def given() -> tuple[Any, ...]:
        nonlocal turn
        turn += 1
        x = pyrite.tensor(numbers((6, 9)), device=device)
        y = pyrite.tensor(numbers((9, 4)), device=device)
        kind = turn // 6 % 4
        if kind == 1:
            x = pyrite.tensor(np.ascontiguousarray(x.numpy().T), device=device).mT
        if kind == 2:
            y = pyrite.tensor(numbers((9, 8)), device=device)[:, ::2]
        if kind == 3:
            x = pyrite.tensor(numbers((1, 9)), device=device).broadcast_to((6, 9))
        device.synchronize()
        return x, y

    agree(device, given, 48)
    assert runs.count(True) > 8
    assert runs.count(False) > 4


def test_numbers_are_those_of_each_run(device: Device, runs: list[bool]) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((5, 7), (7, 3)))
    # What overflows float32, and what is no float, is Python's.
    values = [0.5, 1.5, -2.5, 3.5, 7, 1e39, -1e39, float("inf"), 2.0**-149, 4.5, 1 << 24, 3.25]
    with np.errstate(all="ignore"):
        for value in [*values, *values]:
            agree(device, lambda value=value: (x, y, value), 1)  # type: ignore[misc]
    assert runs.count(True) > 4


def test_numbers_that_are_one_object_or_two(device: Device, runs: list[bool]) -> None:
    x = pyrite.tensor(numbers((8, 3)), device=device)
    for n in range(24):
        first = n + 0.5
        second = first if n % 8 < 5 else n + 1.5
        found = (x * first).exp() + (x.exp() * second).tanh()
        expected = (plain(x) * first).exp() + (plain(x).exp() * second).tanh()
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert runs.count(True) > 4


def test_other_results_are_held(device: Device, runs: list[bool]) -> None:
    x = pyrite.tensor(numbers((8, 3)), device=device)
    for n in range(32):
        y = x.exp()
        z = (y * 2).tanh()
        found = z.sum(0) + n
        if n % 8 > 4:
            del y
        want = (plain(x).exp() * 2).tanh().sum(0) + n
        np.testing.assert_array_equal(found.numpy(), want.numpy())
        if n % 8 <= 4:
            np.testing.assert_array_equal(y.numpy(), plain(x).exp().numpy())
    assert runs.count(True) > 4


def test_a_training_has_the_bits_that_python_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    root = pyrite.device("cpu").backend.root

    def trained() -> list[Any]:
        device = Device(Fusion(root))
        pyrite.seed(0)
        with pyrite.random_stream(0):
            layers = nn.Embedding(11, 8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1)
            model = nn.Sequential(*layers, nn.Linear(16, 5)).to(device)
        optimizer = pyrite.optim.Adam(lambda step: 1e-2 / (1 + step))
        train = pyrite.value_and_grad(lambda m, x, y: nn.CrossEntropyLoss()(m(x), y))
        random, found = np.random.default_rng(0), []
        for _ in range(14):
            x = pyrite.tensor(random.integers(0, 11, 16), device=device)
            y = pyrite.tensor(random.integers(0, 5, 16), device=device)
            loss, gradients = train(model, x, y)
            model = optimizer.step(model, gradients)
            found.append(loss.item())
        return [*found, *[p.numpy().tolist() for p in model.parameters()]]

    found = trained()
    with monkeypatch.context() as patched:
        patched.setattr(native_run, "_code", [])
        assert trained() == found


def test_an_index_outside_names_its_line(device: Device, runs: list[bool]) -> None:
    x = pyrite.tensor(numbers((6, 4)), device=device)
    right, wrong = [pyrite.tensor([n, 1, 2], device=device) for n in (0, 9)]

    def looked_up(at: Tensor) -> Tensor:
        return x.take(at, 0).exp() * 2

    for n in range(20):
        found = looked_up(wrong if n in (6, 11) else right)
        if n in (6, 11):
            with pytest.raises(IndexRangeError) as raised:
                found.numpy()
            assert raised.value.location == f"{__file__}:{looked_up.__code__.co_firstlineno + 1}"
        else:
            want = np.exp(x.numpy()[[0, 1, 2]]) * 2
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
    assert runs.count(True) > 8


def test_what_comes_of_a_wrong_index_is_in_doubt(device: Device, runs: list[bool]) -> None:
    x = pyrite.tensor(numbers((6, 4)), device=device)
    right, wrong = [pyrite.tensor([n, 1, 2], device=device) for n in (0, 9)]
    for n in range(20):
        rows = x.take(wrong if n in (6, 11) else right, 0)
        other = pyrite.tensor(numbers((3, 4)), device=device)
        device.backend.flush()  # type: ignore[attr-defined]
        both, sound = rows + other, other * 2
        device.backend.flush()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(sound.numpy(), other.numpy() * 2)
        if n in (6, 11):
            with pytest.raises(IndexRangeError):
                both.numpy()
        else:
            np.testing.assert_array_equal(both.numpy(), x.numpy()[[0, 1, 2]] + other.numpy())
    assert runs.count(True) > 8


def test_memory_comes_back(device: Device, runs: list[bool]) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((40, 70), (70, 30)))

    def live() -> int:
        device.synchronize()
        return pyrite.memory_report(device).devices[0].live

    held = None
    for _ in range(8):
        held = step(x, y)
        device.synchronize()
    one = live()
    for _ in range(20):
        held = step(x, y)
        device.synchronize()
        assert live() == one
    assert runs.count(True) > 12
    assert held is not None


def test_without_memory_nothing_is_lost(
    device: Device, runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((40, 70), (70, 30)))
    for _ in range(6):
        step(x, y)[0].numpy()
    before = runs.count(True)

    def none(memory: LentBuffers) -> Any:
        raise OutOfMemoryError("there is none")

    with monkeypatch.context() as patched:
        patched.setattr(LentBuffers, "take", none)
        agree(device, lambda: (x, y), 2)
    assert runs.count(True) == before
    agree(device, lambda: (x, y), 2)


def test_a_launch_that_raises_gives_back_what_it_took(
    device: Device, runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((40, 70), (70, 30)))
    found = [step(x, y)]
    for _ in range(7):
        device.synchronize()
        found = [step(x, y)]
    device.synchronize()
    live = pyrite.memory_report(device).devices[0].live

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    found = [step(x, y)]
    with monkeypatch.context() as patched:
        patched.setattr(NativeLaunches, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.synchronize()
    device.synchronize()
    assert pyrite.memory_report(device).devices[0].live == live
    for one, other in zip(found[0], step(plain(x), plain(y)), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_explain_and_a_budget_see_the_whole(device: Device, runs: list[bool]) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((40, 70), (70, 30)))
    for _ in range(8):
        step(x, y)[0].numpy()
    before, want = runs.count(True), step(plain(x), plain(y))[0].numpy()
    with pyrite.explain() as explained:
        np.testing.assert_array_equal(step(x, y)[0].numpy(), want)
    assert explained.hits == 1
    with pyrite.memory_budget("64 MiB"):
        np.testing.assert_array_equal(step(x, y)[0].numpy(), want)
    assert runs.count(True) == before
    np.testing.assert_array_equal(step(x, y)[0].numpy(), want)
    assert runs.count(True) == before + 1


def test_threads_run_what_one_of_them_knows(device: Device, runs: list[bool]) -> None:
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((40, 70), (70, 30)))
    want = [t.numpy() for t in step(plain(x), plain(y))]
    bad: list[str] = []

    def run() -> None:
        try:
            for _ in range(30):
                for found, one in zip(step(x, y), want, strict=True):
                    np.testing.assert_array_equal(found.numpy(), one)
        except BaseException as error:
            bad.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert runs.count(True) > 20


def test_large_results_have_their_lines(device: Device, runs: list[bool]) -> None:
    x = pyrite.tensor(numbers((1024, 1100)), device=device)
    for _ in range(8):
        y = x.exp() * 2
        device.synchronize()
    y = x.exp() * 3
    line = f"{__file__}:{test_large_results_have_their_lines.__code__.co_firstlineno + 3}"
    device.synchronize()
    found = pyrite.memory_report(device).devices[0].tensors
    assert any(line in str(tensor) for tensor in found)
    assert y.shape == x.shape
    assert runs.count(True) > 2


def test_a_program_of_a_block_takes_one_each_time(
    device: Device, runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyrite.backend.cube import recorded_memory

    monkeypatch.setattr(recorded_memory, "WORTH_A_BLOCK", 1e9)
    x, y = (pyrite.tensor(numbers(s), device=device) for s in ((43, 70), (70, 31)))
    agree(device, lambda: (x, y))
    assert runs.count(True) > 2
    assert isinstance(pyrite.device("cpu").backend.root.launcher, Launcher)
