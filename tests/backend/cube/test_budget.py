"""`pyrite.memory_budget`: what is live stays within it, and no bit of a result changes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.budget import bytes_of, memory_limit
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.thrift import ThriftyPlans
from pyrite.backend.device import Device, device_problem
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.errors import ArgumentError, DeviceError, IndexRangeError, MemoryBudgetError
from pyrite.optim import Adam
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.testing.random_graphs import RandomGraph
from pyrite.testing.random_steps import STEPS
from pyrite.types import Array

#: Guarded memory has margins, and nothing is written over.
unguarded = pytest.mark.skipif(config.guard is not None, reason="guarded memory has margins")


@contextlib.contextmanager
def new_device() -> Iterator[tuple[Device, CpuRuntime]]:
    """A device whose memory nobody else counts on."""
    runtime = CpuRuntime(threads=1)
    try:
        yield Device(Fusion(CubeBackend(runtime))), runtime
    finally:
        runtime.close()


def forget_peak(runtime: CpuRuntime) -> None:
    """Have the most that was live be what is live now."""
    runtime._allocator._peak = runtime.memory_report().live


def shared() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


# ---- budgets ----


@pytest.mark.parametrize(
    ("budget", "nbytes"),
    [
        ("2 GiB", 2 << 30), ("500 MB", 500_000_000), ("1.5KiB", 1536), (" 64 mib ", 64 << 20),
        ("3kB", 3000), ("7", 7), ("8 B", 8), ("1 TiB", 1 << 40), (4096, 4096),
        (np.int64(5), 5), ("1tb", 10**12),
    ],
)  # fmt: skip
def test_budgets_are_bytes(budget: Any, nbytes: int) -> None:
    assert bytes_of(budget) == nbytes


@pytest.mark.parametrize(
    "budget", ["2 gigs", "", "-1", "1 2 GiB", 0, -5, True, 2.5, None, "0 MB", "nan", "1e9", b"1"]
)
def test_what_is_no_budget_is_an_error(budget: Any) -> None:
    with pytest.raises(ArgumentError, match="memory_budget requires a number of bytes above 0"):
        pyrite.memory_budget(budget)
    assert memory_limit() is None


def test_of_nested_budgets_the_smallest_holds_here_and_in_no_other_thread() -> None:
    seen: list[int | None] = []
    with pyrite.memory_budget(100):
        with pyrite.memory_budget("1 GiB"):
            assert memory_limit() == 100
        with contextlib.suppress(KeyError), pyrite.memory_budget(50):
            assert memory_limit() == 50
            raise KeyError
        assert memory_limit() == 100
        thread = threading.Thread(target=lambda: seen.append(memory_limit()))
        thread.start()
        thread.join()
    assert (seen, memory_limit()) == ([None], None)


def test_a_budget_is_of_its_task() -> None:
    async def limited(budget: int, other: asyncio.Event, own: asyncio.Event) -> int | None:
        with pyrite.memory_budget(budget):
            own.set()
            await other.wait()
            return memory_limit()

    async def both() -> list[int | None]:
        x, y = asyncio.Event(), asyncio.Event()
        return [*await asyncio.gather(limited(10, x, y), limited(20, y, x)), memory_limit()]

    assert asyncio.run(both()) == [10, 20, None]


# ---- devices ----


@pytest.mark.parametrize("name", ["numpy", "cpu", "fused numpy", "tracked"])
def test_a_device_that_runs_ops_alone_is_an_error(name: str) -> None:
    root = pyrite.device("cpu").backend.root
    backend = {
        "numpy": pyrite.device("numpy").backend, "cpu": root, "tracked": pyrite.Autodiff(root),
        "fused numpy": Fusion(pyrite.device("numpy").backend),
    }[name]  # fmt: skip
    x = pyrite.tensor([1.0, 2.0], device=Device(backend))
    message = f"memory_budget requires a device that plans .*, got multiply on {backend.root.name}"
    with pyrite.memory_budget("1 GiB"), pytest.raises(DeviceError, match=message):
        x * 2
    assert (x * 2).sum().item() == 6
    done: list[float] = []
    with pyrite.memory_budget("1 GiB"):
        thread = threading.Thread(target=lambda: done.append(float((x * 2).sum().item())))
        thread.start()
        thread.join()
        y = pyrite.tensor([1.0], device=shared())
        assert (y + 1).item() == 2
    assert done == [6]


def test_a_program_that_is_compared_with_its_ops_is_an_error() -> None:
    device = Device(Fusion(pyrite.device("cpu").backend.root, check="always"))
    x = pyrite.tensor([1.0, 2.0], device=device)
    y = (x * 3).sum()
    with pyrite.memory_budget("1 GiB"), pytest.raises(DeviceError, match="got fusion_check='alw"):
        y.item()
    assert y.item() == 9


# ---- one program ----


def waiting(x: Tensor) -> Tensor:
    """Return a sum for which many values wait that are quickly made."""
    parts = [(x * n).exp() for n in range(1, 7)]
    row = parts[0]
    for part in parts:
        row = pyrite.softmax(row + part.cumsum(axis=-1), axis=-1)
    for part in reversed(parts):
        row = (row * part).cumsum(axis=-1)
    return row.sum()


@unguarded
def test_a_program_says_before_it_runs_what_it_lacks_and_then_keeps_to_it() -> None:
    given = np.random.default_rng(0).standard_normal((64, 513), dtype=np.float32)
    with new_device() as (device, runtime):
        wanted = waiting(pyrite.tensor(given, device=device)).numpy()
        free = runtime.memory_report().peak
    with new_device() as (device, runtime):
        x = pyrite.tensor(given, device=device)
        y = waiting(x)
        before = runtime.memory_report()
        message = r"memory_budget requires [\d,]+ bytes for a program"
        with pyrite.memory_budget(1000), pytest.raises(MemoryBudgetError, match=message) as found:
            y.item()
        assert runtime.memory_report().peak == before.peak, "nothing ran"
        needed = found.value.needed
        assert f"too few by {needed - 1000:,}" in str(found.value)
        assert f"{__file__}:" in str(found.value), "the lines of the largest"
        assert needed <= 0.8 * free
        with pyrite.memory_budget(needed - 1), pytest.raises(MemoryBudgetError):
            y.item()
        with pyrite.memory_budget(needed):
            np.testing.assert_array_equal(y.numpy(), wanted)
        assert before.live < runtime.memory_report().peak <= needed


@unguarded
def test_what_is_held_beside_a_program_is_counted() -> None:
    with new_device() as (device, _):
        x = pyrite.tensor(np.ones((64, 513), np.float32), device=device)

        def needed(budget: int) -> int:
            try:
                with pyrite.memory_budget(budget):
                    waiting(x).item()
            except MemoryBudgetError as error:
                return error.needed
            return budget

        first = needed(1)
        held = pyrite.tensor(np.ones(1 << 18, np.float32), device=device)
        assert needed(first) - first == held.size * 4
        del held
        assert needed(first) == first


def needed_by(make: Callable[[], Tensor]) -> int:
    """Return what a result needs.  Its error is let go: the traceback holds it, to be tried again.

    Who holds it has it computed beside the next one, for which that is too little.
    """
    try:
        with pyrite.memory_budget(1):
            make().item()
    except MemoryBudgetError as error:
        return error.needed
    raise AssertionError("a byte is enough for nothing")


@unguarded
def test_an_index_outside_is_found_where_it_was() -> None:
    with new_device() as (device, _):
        x = pyrite.tensor(np.ones((64, 513), np.float32), device=device)
        rows = pyrite.tensor(np.array([3, 64, 2], np.int32), device=device)

        def gathered() -> Tensor:
            taken = x.exp().take(rows, axis=0)
            return waiting(x) + (taken * waiting(x[:3])).sum()

        with pytest.raises(IndexRangeError) as plain:
            gathered().item()
        with pyrite.memory_budget(needed_by(gathered)), pytest.raises(IndexRangeError) as thrifty:
            gathered().item()
        assert str(plain.value) == str(thrifty.value)


# ---- random graphs ----


@pytest.fixture
def least(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every program of a budget run by the plan that takes least; note what is made again."""
    again: list[int] = []

    def within(self: ThriftyPlans, own: Any, limit: int) -> tuple[Any, int]:
        plan = self._made(0)
        again.append(len(plan.launches) - len(set(plan.launches)))
        return plan, 0

    monkeypatch.setattr(ThriftyPlans, "within", within)
    return again


@pytest.mark.parametrize("first", range(0, 2000, 4))
@pytest.mark.sample(1)
def test_random_graphs_give_the_same_bits_by_the_plans_that_take_least(
    first: int, least: list[int]
) -> None:
    device = shared()
    for seed in range(first, first + 4):
        graph = RandomGraph(seed, STEPS)
        wanted = graph.run(device)
        with pyrite.memory_budget("1 GiB"):
            found = graph.run(device)
        for x, y in zip(found, wanted, strict=True):
            assert x.tobytes() == y.tobytes(), f"seed {seed}"


class Blocks(nn.Module):
    """Layers of a transformer without attention, of some dtype inside."""

    def __init__(self, depth: int, width: int, inner: str) -> None:
        self.norms = [nn.LayerNorm(width) for _ in range(depth)]
        self.up = [nn.Linear(width, 2 * width) for _ in range(depth)]
        self.down = [nn.Linear(2 * width, width) for _ in range(depth)]
        self.drop = nn.Dropout(0.2)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            h = up(norm(x)).gelu().astype(self.inner)
            x = x + self.drop(down(h.astype("float32")).mT.mT)
        return (x * x).mean()


class Training:
    """Some steps of training, and what they gave."""

    def __init__(self, device: Device, depth: int = 3, inner: str = "bfloat16") -> None:
        rng = np.random.default_rng(0)
        with pyrite.random_stream(0):
            self.model: Any = Blocks(depth, 48, inner).to(device)
        self.x = pyrite.tensor(rng.standard_normal((256, 48), dtype=np.float32), device=device)
        optimizer = Adam(1e-2)
        gradients = pyrite.value_and_grad(lambda model, x: model(x))

        def step(model: Any, x: Tensor) -> tuple[Any, Tensor]:
            loss, found = gradients(model, x)
            return optimizer.step(model, found), loss

        self.step: Any = step

    def run(self, *, is_compiled: bool, steps: int = 5) -> list[Array]:
        """Return losses and the last parameters."""
        step = pyrite.compile(self.step) if is_compiled else self.step
        found = []
        with pyrite.random_stream(1):
            for _ in range(steps):
                self.model, loss = step(self.model, self.x)
                found.append(loss.numpy().copy())
        return [*found, *[p.numpy().copy() for p in self.model.parameters()]]


@unguarded
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.sample(1)
def test_a_step_of_training_takes_less_and_learns_the_same(is_compiled: bool) -> None:
    """Four fifths of what it takes otherwise, by a plan that is near its own bound."""
    with new_device() as (device, runtime):
        training = Training(device)
        wanted = training.run(is_compiled=is_compiled)
        free = runtime.memory_report().peak
        del training
        gc.collect()
        forget_peak(runtime)
        training = Training(device)
        budget = free * 4 // 5
        with pyrite.memory_budget(budget):
            found = training.run(is_compiled=is_compiled)
        assert runtime.memory_report().peak <= budget
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@unguarded
def test_a_held_model_is_copied_within_the_budget_or_not_at_all() -> None:
    with new_device() as (device, runtime):
        training = Training(device)
        wanted = training.run(is_compiled=True, steps=6)
        training = Training(device)
        step = pyrite.compile(training.step)
        with pyrite.random_stream(1):
            for _ in range(4):
                training.model, _ = step(training.model, training.x)
            device.synchronize()
            budget = 0
            try:
                with pyrite.memory_budget(1):
                    step(training.model, training.x)
            except MemoryBudgetError as error:
                # The draws and the optimizer are where they were.
                budget = error.needed
            assert budget > runtime.memory_report().live
            with pyrite.memory_budget(budget):
                old = training.model
                training.model, loss = step(old, training.x)
                late = next(iter(training.model.parameters()))
                with pytest.raises(MemoryBudgetError, match="let go of the old model"):
                    late.numpy()
                del old, late
                np.testing.assert_array_equal(loss.numpy(), wanted[4])
            with pyrite.memory_budget(budget + (64 << 10)):
                training.model, loss = step(training.model, training.x)
                np.testing.assert_array_equal(loss.numpy(), wanted[5])
        for x, y in zip(training.model.parameters(), wanted[6:], strict=True):
            np.testing.assert_array_equal(x.numpy(), y)


@pytest.mark.skipif(device_problem("wgpu") is not None, reason="no wgpu here")
def test_programs_on_a_gpu_keep_to_budgets() -> None:
    device = Device(Fusion(pyrite.device("wgpu").backend.root))
    given = np.random.default_rng(0).standard_normal((64, 513), np.float32)
    x = pyrite.tensor(given, device=device)
    wanted = waiting(x).numpy()
    with pytest.raises(MemoryBudgetError) as short, pyrite.memory_budget(1):
        waiting(x).item()
    with pyrite.memory_budget(short.value.needed + (8 << 20)):
        np.testing.assert_array_equal(waiting(x).numpy(), wanted)
