"""Calls that are new: they run when they are made, and become programs when they come again."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op, nn
from pyrite.backend.compiling import Worth
from pyrite.backend.cube import ahead
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.history import MOST_STRAYS, SELDOM, Call
from pyrite.backend.fusion.new_program import BackgroundCompileWarning
from pyrite.backend.fusion.pending import PendingCalls
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.fusion.task_calls import TaskCalls
from pyrite.config import config
from pyrite.errors import IndexRangeError
from pyrite.extension import kernel

RNG = np.random.default_rng(3)


@pytest.fixture
def device() -> Device:
    """A device of its own, on which programs are compiled after two runs that were noted."""
    return Device(Fusion(pyrite.device("cpu").backend.root, after=2))


@pytest.fixture(autouse=True)
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nine ops be worth a program, however small: so each test is few of little."""
    root: Any = pyrite.device("cpu").backend.root
    monkeypatch.setattr(root, "program_worth", Worth(9))


@pytest.fixture
def in_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(ahead, "PAUSE", 0.0)


def recorded(device: Device) -> RecordedCalls:
    assert isinstance(device.backend, Fusion)
    return device.backend.recorded


def finish(device: Device) -> None:
    """Wait for what is compiled in the background."""
    device.backend.root.launcher.ahead.finish()  # type: ignore[attr-defined]


def some(device: Device, *shape: int) -> Tensor:
    return pyrite.tensor(RNG.standard_normal(shape, dtype=np.float32), device=device)


def longer(y: Tensor, x: Tensor) -> Tensor:
    """Eight ops more, so that a few are worth a program."""
    for _ in range(4):
        y = y * 0.5 + x
    return y


def chain(x: Tensor) -> Tensor:
    """Ops that are worth a program."""
    return longer(((x * 2 + 1).tanh() * x).exp(), x)


def alone(x: Tensor) -> np.ndarray:
    plain = Device(x.device.backend.root)
    return chain(pyrite.tensor(x.numpy(), device=plain)).numpy()


def test_what_is_new_runs_as_its_ops_and_compiles_no_program(device: Device) -> None:
    x = some(device, 7, 9)
    for n in range(12):
        y = x
        for bit in format(n, "05b"):
            y = y + 1 if bit == "1" else y.tanh()
        y.numpy()
    assert recorded(device).compiled == 0
    np.testing.assert_array_equal(chain(x).numpy(), alone(x))


def test_what_comes_again_is_compiled_and_gives_the_same(device: Device) -> None:
    x = some(device, 7, 9)
    expected = alone(x)
    for _ in range(8):
        np.testing.assert_array_equal(chain(x).numpy(), expected)
    counts = recorded(device)
    assert counts.compiled == 1
    assert counts.runs - counts.new_runs == 4, "it is new, looked at twice, then noted"


def test_a_thread_compiles_it_and_the_next_run_takes_it(
    device: Device, in_background: None
) -> None:
    x = some(device, 7, 9)
    expected = alone(x)
    threads: list[str] = []
    compile = type(device.backend.root).compile

    def compiled(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return compile(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(device.backend.root), "compile", compiled)
        for _ in range(4):
            np.testing.assert_array_equal(chain(x).numpy(), expected)
        finish(device)
    assert threads == ["pyrite-ahead"]
    before = recorded(device).new_runs
    np.testing.assert_array_equal(chain(x).numpy(), expected)
    assert recorded(device).new_runs == before, "it ran as a program"


def test_the_run_that_is_due_compiles_where_a_program_may_round_otherwise(
    device: Device, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device.backend.root, "keeps_bits", False)
    x = some(device, 7, 9)
    for n in range(6):
        assert recorded(device).compiled == (n > 3), "by how often it came alone"
        chain(x).numpy()
    assert recorded(device).compiled_ahead == 1
    assert recorded(device).program_runs == 2


def test_an_error_in_the_background_leaves_the_ops_and_is_told_once(
    device: Device, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(type(device.backend.root), "compile", fails)
    x = some(device, 7, 9)
    expected = alone(x)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(9):
            np.testing.assert_array_equal(chain(x).numpy(), expected)
            finish(device)
    assert [w.category for w in told] == [BackgroundCompileWarning]
    assert told[0].filename == __file__
    assert "no such kernel" in str(told[0].message)


def test_what_nobody_can_ask_for_any_more_is_not_compiled(
    device: Device, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr(type(device.backend.root), "compile_later", lambda _, job: jobs.append(job))
    x = some(device, 7, 9)
    for _ in range(4):
        chain(x).numpy()
    assert len(jobs) == 1
    recorded(device).root = Call()
    # An input knows the calls that took it last.
    (x + 1).numpy()
    del x
    gc.collect()
    jobs[0]()
    assert recorded(device).compiled == 0


def test_one_op_and_few_ops_of_little_stay_ops(device: Device) -> None:
    x = some(device, 6, 8)
    for _ in range(40):
        (x + 1).numpy()
        (x.mT @ x).numpy()
        (x * 2).sum().item()
    assert recorded(device).compiled == 0


def test_calls_that_begin_as_a_program_and_go_on_otherwise_run_as_their_ops(
    device: Device,
) -> None:
    x = some(device, 7, 9)
    for _ in range(5):
        chain(x).numpy()
    values, known = x.numpy(), recorded(device).calls

    def other(x: Tensor) -> Tensor:
        return longer(((x * 2 + 1).tanh() - x) * 3, x)

    for _ in range(2):
        plain = pyrite.tensor(values, device=Device(device.backend.root))
        np.testing.assert_array_equal(other(x).numpy(), other(plain).numpy())
    assert recorded(device).compiled == 1
    assert recorded(device).calls == known, "what comes once is not kept"
    for _ in range(3):
        other(x).numpy()
    assert recorded(device).compiled == 2


def test_what_begins_as_a_program_and_goes_on_otherwise_each_time_is_not_recorded(
    device: Device,
) -> None:
    x = some(device, 7, 9)
    for _ in range(5):
        chain(x).numpy()
    counts = recorded(device)

    def otherwise() -> int:
        for n in range(16):
            (x * 2 + 1 + n).tanh().numpy() if n % 2 else (x * 2 - n).exp().numpy()
        return counts.op_runs

    found = otherwise()
    assert MOST_STRAYS <= found < 16
    assert otherwise() == found
    expected, programs = alone(x), counts.program_runs
    for _ in range(2 * SELDOM):
        np.testing.assert_array_equal(chain(x).numpy(), expected)
    assert counts.program_runs > programs, "what came back is found again"


def test_an_op_of_an_application_ends_what_is_noted(device: Device) -> None:
    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] * 3.0

    @custom_op(infer=lambda x: x, kernels=[body])
    def tripled(x: Tensor, /) -> Tensor:
        """3 x."""
        ...

    x = some(device, 7, 9)
    values = x.numpy()
    for _ in range(12):
        y = chain(x)
        z = tripled(y)
        np.testing.assert_array_equal((z - x).numpy(), y.numpy() * np.float32(3) - values)
    assert recorded(device).runs > recorded(device).new_runs


def test_what_runs_at_once_costs_no_object_more(device: Device) -> None:
    x = some(device, 7, 9)
    y = x * 2 + 1
    assert type(x._handle) is type(y._handle) is type(device.backend.root.upload(np.ones(3)))


def test_a_note_knows_an_input_again_and_no_other_with_its_id(device: Device) -> None:
    x, y = some(device, 7, 9), some(device, 7, 9)

    def ops(x: Tensor, y: Tensor) -> Tensor:
        z = x * 2
        for n in range(6):
            # Each is let go of, so that the next one may have its id.
            z = z * pyrite.tensor(np.full((7, 9), n, np.float32), device=z.device) + y
        return z + x

    plain = [pyrite.tensor(t.numpy(), device=Device(device.backend.root)) for t in (x, y)]
    expected = ops(plain[0], plain[1]).numpy()
    for _ in range(8):
        np.testing.assert_array_equal(ops(x, y).numpy(), expected)
    assert recorded(device).compiled == 1
    assert recorded(device).program_runs == 4


def test_an_index_outside_names_its_line_however_it_ran(device: Device) -> None:
    x = some(device, 5, 4)
    places = pyrite.tensor([0, 7], device=device)
    lines: set[str | None] = set()
    for _ in range(8):
        y = x * 2 + 1
        z = y.take(places, 0)
        w = (longer(z, z).tanh() * 3).exp()
        with pytest.raises(IndexRangeError) as raised:
            w.numpy()
        lines.add(raised.value.location)
    assert recorded(device).runs > recorded(device).new_runs
    assert len(lines) == 1, "the line of the op, new or not"
    assert str(lines.pop()).startswith(__file__)


def test_an_index_outside_in_calls_that_were_recorded_but_new_names_its_line(
    device: Device,
) -> None:
    x = some(device, 7, 9)
    places = pyrite.tensor([0, 70], device=device)
    for _ in range(5):
        chain(x).numpy()
    line = test_an_index_outside_in_calls_that_were_recorded_but_new_names_its_line
    y = (x * 2 + 1).take(places, 0).tanh()
    with pytest.raises(IndexRangeError) as raised:
        y.numpy()
    assert raised.value.location == f"{__file__}:{line.__code__.co_firstlineno + 8}"
    assert recorded(device).compiled == 1


def test_what_is_let_go_of_gives_its_memory_back_though_it_is_noted(device: Device) -> None:
    def live() -> int:
        return pyrite.memory_report(device).devices[0].live

    for _ in range(2):
        before = live()
        x = some(device, 256, 1024)
        y = (x * 2).sum() + 1
        del x
        assert live() - before < 1 << 20
        y.item()


def test_a_budget_plans_at_once_what_was_new(device: Device) -> None:
    x = some(device, 64, 64)
    expected = alone(x)
    with pyrite.memory_budget("64 MiB"):
        np.testing.assert_array_equal(chain(x).numpy(), expected)
    assert recorded(device).compiled == 1
    y = x + 1
    with pyrite.memory_budget("64 MiB"):
        (y * 2).exp().numpy()
    assert recorded(device).compiled == 2, "calls before the block end where it begins"


def test_memory_of_an_application_is_read_before_it_is_written_again(device: Device) -> None:
    memory = RNG.standard_normal((32, 32), dtype=np.float32)
    values = memory.copy()
    x = pyrite.from_dlpack(memory, device=device)
    for _ in range(5):
        memory[:] = values
        found = x[::2].mT + 1, (x * 2).tanh()
        device.synchronize()
        memory[:] = 0
        np.testing.assert_array_equal(found[0].numpy(), values[::2].T + 1)
        np.testing.assert_allclose(found[1].numpy(), np.tanh(values * 2), rtol=1e-5, atol=1e-6)


def test_threads_and_tasks_note_their_own_calls(device: Device) -> None:
    x = some(device, 7, 9)
    expected = alone(x)
    found: list[np.ndarray] = []

    def work() -> None:
        found.extend(chain(x).numpy() for _ in range(6))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def task() -> None:
        for _ in range(6):
            y = x * 2
            await asyncio.sleep(0)
            found.append(longer((((y + 1).tanh()) * x).exp(), x).numpy())

    async def tasks() -> None:
        await asyncio.gather(*[task() for _ in range(3)])

    asyncio.run(tasks())
    assert len(found) == 36
    for one in found:
        np.testing.assert_array_equal(one, expected)
    assert 1 <= recorded(device).compiled <= 2


def test_a_task_that_goes_on_in_another_run_of_its_loop_is_waited_for(device: Device) -> None:
    x = some(device, 7, 9)
    expected = alone(x)
    for _ in range(5):
        chain(x).numpy()
    counts = recorded(device)
    loop = asyncio.new_event_loop()
    event = asyncio.Event()

    async def work() -> tuple[int, np.ndarray]:
        y = chain(x)
        await event.wait()
        before = counts.program_runs
        device.synchronize()
        return counts.program_runs - before, y.numpy()

    async def let_it_begin() -> None:
        await asyncio.sleep(0)

    try:
        task = loop.create_task(work())
        loop.run_until_complete(let_it_begin())
        (x + 1).numpy()
        event.set()
        runs, found = loop.run_until_complete(task)
    finally:
        loop.close()
    assert runs == 1
    np.testing.assert_array_equal(found, expected)


def test_what_was_recorded_outside_of_a_task_is_waited_for_behind_it(device: Device) -> None:
    x = some(device, 7, 9)
    expected = alone(x)
    for _ in range(5):
        chain(x).numpy()
    counts = recorded(device)
    y = chain(x)

    async def new() -> np.ndarray:
        return (x - 3).abs().numpy()

    np.testing.assert_array_equal(asyncio.run(new()), np.abs(x.numpy() - 3))
    before = counts.program_runs
    device.synchronize()
    assert counts.program_runs == before + 1
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_task_whose_calls_are_looked_at_is_asked_for_seldom(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = some(device, 7, 9)
    expected = x.numpy()
    for n in range(20):
        expected = expected + np.float32(n)
    turns: list[int] = []
    turn = TaskCalls.turn

    def counted(calls: TaskCalls) -> None:
        turns[-1] += 1
        turn(calls)

    monkeypatch.setattr(TaskCalls, "turn", counted)

    async def work() -> list[np.ndarray]:
        found = []
        for _ in range(6):
            turns.append(0)
            y = x
            for n in range(20):
                y = y + float(n)
                if n == 10:
                    await asyncio.sleep(0)
            found.append(y.numpy())
        return found

    async def both() -> list[list[np.ndarray]]:
        return await asyncio.gather(work(), work())

    alone = asyncio.run(work())
    assert max(turns[1:3]) <= 8, "of 20 calls, where it is looked at how they go on"
    for one in [*alone, *[y for found in asyncio.run(both()) for y in found]]:
        np.testing.assert_array_equal(one, expected)


def test_what_is_not_worth_a_program_is_noted_once(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Any] = []
    record = PendingCalls.record

    def noting(calls: PendingCalls, *given: Any) -> Any:
        noted.append(given)
        return record(calls, *given)

    monkeypatch.setattr(PendingCalls, "record", noting)
    x = some(device, 7, 9)
    for _ in range(200):
        (x * x).sum().item()
    assert len(noted) == 2, "two calls, once"
    assert recorded(device).plain_runs == 200
    assert recorded(device).compiled == 0


def test_a_value_of_a_program_is_taken_by_calls_that_run_at_once(device: Device) -> None:
    """Behind another one that is new, so that nothing is asked; and by an op of an application."""

    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] * 2.0

    @custom_op(infer=lambda x: x, kernels=[body])
    def twice(x: Tensor, /) -> Tensor:
        """2 x."""
        ...

    x = some(device, 7, 9)
    expected = alone(x)
    for _ in range(5):
        y = chain(x)
        y.numpy()
    for _ in range(SELDOM // 2):
        x.abs().numpy()
    before = recorded(device).new_runs
    z = x.abs()
    np.testing.assert_array_equal((y - z).numpy(), expected - np.abs(x.numpy()))
    z = x.abs()
    np.testing.assert_array_equal(twice(y).numpy(), expected * 2)
    assert recorded(device).new_runs > before


def test_a_value_that_another_thread_recorded_is_computed(device: Device) -> None:
    x = some(device, 7, 9)
    for _ in range(5):
        chain(x).numpy()
    y = x * 2 + 1
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append((-y).numpy()))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], -(x.numpy() * 2 + 1))


def test_a_training_that_becomes_a_program_has_the_losses_of_its_ops(device: Device) -> None:
    def losses(device: Device) -> list[float]:
        with pyrite.random_stream(0):
            model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)).to(device)
        optimizer = pyrite.optim.Adam(1e-2)
        step = pyrite.value_and_grad(lambda m, x: (m(x) ** 2).mean())
        x = pyrite.tensor(np.linspace(-1, 1, 48, dtype=np.float32).reshape(8, 6), device=device)
        found = []
        for _ in range(10):
            loss, gradients = step(model, x)
            model = optimizer.step(model, gradients)
            found.append(float(loss.item()))
        return found

    found, expected = losses(device), losses(Device(device.backend.root))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert recorded(device).compiled >= 1
    assert recorded(device).runs > recorded(device).new_runs


def test_a_compiled_function_is_planned_when_it_is_captured(device: Device) -> None:
    function = pyrite.compile(chain)
    x = some(device, 7, 9)
    expected = alone(x)
    for _ in range(4):
        np.testing.assert_array_equal(function(x).numpy(), expected)
    assert recorded(device).compiled == 1


def test_explain_tells_what_ran_as_its_ops(device: Device) -> None:
    x = some(device, 7, 9)
    with pyrite.explain() as explained:
        chain(x).numpy()
    assert (explained.plans, explained.hits, explained.as_ops) == (0, 0, 1)
    assert len(explained.kernels) > 1
    assert "ran as ops: new" in str(explained)
    for _ in range(3):
        chain(x).numpy()
    with pyrite.explain() as explained:
        chain(x).numpy()
    assert (explained.plans, explained.hits, explained.as_ops) == (0, 1, 0)
    assert len(explained.kernels) == 1


@pytest.fixture(autouse=True)
def _nothing_is_left(device: Device) -> Iterator[None]:
    yield
    finish(device)
