"""Which launches are made together: the order is legal, takes no more memory, and fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube.block import Use, least_bytes
from pyrite.backend.cube.joined_launch import Room, joined_launch
from pyrite.backend.cube.launch_groups import launch_groups
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.slot import FaultOperand, NumberOperand, Slot
from pyrite.backend.device import Device, device_problem
from pyrite.backend.fusion import Fusion
from pyrite.kernel import KernelBuilder
from pyrite.kernel.ir import Kernel
from pyrite.kernel.machine import Machine
from pyrite.types import float32, int32

RNG = np.random.default_rng(7)


def kernel(reads: int, *, lanes: int = 64, shared: int = 0, grid: int = 1) -> Kernel:
    """A kernel that adds some tensors, times a number."""
    b = KernelBuilder("add", workgroup_size=lanes, grid=grid)
    sources = [b.buffer(f"x{n}", float32, "read") for n in range(reads)]
    out, factor = b.buffer("out", float32, "write"), b.scalar("factor", int32)
    total = b.cast(factor, float32)
    for x in sources:
        total = total + x[b.global_id()]
    if shared:
        memory = b.shared(float32, shared)
        memory[b.local_index()] = total
        total = memory[b.local_index()]
    out[b.global_id()] = total
    return b.build()


def launch(of: Kernel, reads: Sequence[Slot], out: Slot, workgroups: int = 1) -> NotedLaunch:
    return NotedLaunch(SimpleNamespace(kernel=of), [*reads, out, 3], (workgroups,))


def chain_and_sums(layers: int) -> tuple[list[NotedLaunch], list[Slot], list[Slot]]:
    """A chain of launches, each with a sum of its result that nothing else needs."""
    step, fold = kernel(1), kernel(1, lanes=128)
    slots = [Slot(0, 1000)]
    launches: list[NotedLaunch] = []
    results: list[Slot] = []
    for _ in range(layers):
        value, total = Slot(len(slots), 1000), Slot(len(slots) + 1, 8)
        launches += [launch(step, slots[-2:-1] or slots, value), launch(fold, [value], total)]
        slots += [value, total]
        results.append(total)
    return launches, results, slots


def require_legal(launches: Sequence[NotedLaunch], groups: Sequence[Sequence[int]]) -> None:
    """Check that each launch is made once, after all that touch what it writes or wrote."""
    assert sorted(n for group in groups for n in group) == [*range(len(launches))]
    place = {n: at for at, group in enumerate(groups) for n in group}
    touched = [[(s.number, written) for s, written in one.slots] for one in launches]
    for later in range(len(launches)):
        for before in range(later):
            if any(s == t and (v or w) for s, v in touched[before] for t, w in touched[later]):
                assert place[before] < place[later], (before, later, groups)


def most_bytes(
    launches: Sequence[NotedLaunch], kept: Sequence[Slot], groups: Sequence[Sequence[int]]
) -> int:
    """The most bytes that are in use if launches are made by groups."""
    used: dict[int, list[int]] = {}
    nbytes: dict[int, int] = {}
    for at, group in enumerate(groups):
        for n in group:
            for slot, _ in launches[n].slots:
                used.setdefault(slot.number, []).append(at)
                nbytes[slot.number] = slot.nbytes
    for slot in kept:
        used.setdefault(slot.number, [0]).append(len(groups))
    return least_bytes([Use(nbytes[s], min(at), max(at)) for s, at in used.items() if s in nbytes])


def drawn(seed: int) -> tuple[list[NotedLaunch], list[Slot]]:
    """Launches that read what some before them wrote, now and then write to what is there."""
    random = np.random.default_rng(seed)
    slots = [Slot(n, 0) for n in range(3)]
    launches = []
    for _ in range(int(random.integers(1, 40))):
        reads = [slots[i] for i in random.integers(0, len(slots), random.integers(1, 4))]
        renews = len(slots) > 3 and random.random() < 0.1
        out = slots[-1] if renews else Slot(len(slots), int(random.integers(1, 5000)))
        lanes, grid = (int(random.choice(of)) for of in ((64, 128), (1, 7, 5000)))
        of = kernel(len(reads), lanes=lanes, shared=int(random.choice((0, 128))))
        one = launch(of, [r for r in reads], out, grid)
        if random.random() < 0.1:
            one = replace(one, is_ours=False)
        launches.append(one)
        if not renews:
            slots.append(out)
    made = slots[3:]
    return launches, [s for s in made if random.random() < 0.3] or made[-1:]


@pytest.mark.parametrize("machine", [Machine.gpu(), Machine.gpu(buffers=32), Machine.cpu()])
def test_random_launches_go_together_legally_in_no_more_memory(machine: Machine) -> None:
    together = 0
    for seed in range(60):
        launches, kept = drawn(seed)
        groups = launch_groups(launches, kept, machine)
        require_legal(launches, groups)
        alone = most_bytes(launches, kept, [[n] for n in range(len(launches))])
        assert most_bytes(launches, kept, groups) <= alone
        for group in groups:
            together += len(group) > 1
            room = Room(machine)
            assert all(room.takes(launches[n]) for n in group) or len(group) == 1
            written = [s.number for n in group for s, is_written in launches[n].slots if is_written]
            assert len(written) == len(set(written)) or len(group) == 1
    assert together > 20


def test_sums_of_a_chain_are_put_off_and_made_together() -> None:
    launches, results, slots = chain_and_sums(6)
    # Where all values are in use at once anyway, the sums wait until one could not wait longer.
    kept = [*results, *slots]
    groups = launch_groups(launches, kept, Machine.gpu(buffers=32))
    assert [group for group in groups if len(group) > 1] == [[1, 3, 5, 7, 9]]
    assert len(groups) == 8


def test_what_is_put_off_waits_for_no_more_memory_than_before() -> None:
    launches, results, _ = chain_and_sums(6)
    machine = Machine.gpu(buffers=32)
    groups = launch_groups(launches, results, machine)
    alone = [[n] for n in range(len(launches))]
    assert most_bytes(launches, results, groups) <= most_bytes(launches, results, alone)
    assert len(groups) < len(launches)


def test_a_processor_puts_off_what_its_caches_hold() -> None:
    launches, results, slots = chain_and_sums(12)
    for slot in slots:
        slot.nbytes *= 400
    held = launch_groups(launches, [*results, Slot(999, 40_000_000)], Machine.cpu())
    assert max(map(len, held)) <= 4


def test_a_group_takes_what_a_device_has() -> None:
    launches, results, slots = chain_and_sums(6)
    kept = [*results, *slots]
    for machine, most in (
        (Machine.gpu(), 4),  # two buffers each
        (Machine.gpu(buffers=32, argument_bytes=12), 3),  # one, and two beginnings
        (Machine.gpu(buffers=32, most_joined=3), 3),
        (Machine.gpu(buffers=32, most_joined=1), 1),
        (replace(Machine.gpu(buffers=32), busy=64), 1),  # one fills the device
    ):
        assert max(map(len, launch_groups(launches, kept, machine))) == most, machine


def test_what_may_raise_and_kernels_of_applications_stay_alone() -> None:
    launches, results, slots = chain_and_sums(4)
    foreign = [replace(one, is_ours=False) for one in launches]
    of = launches[1].executable
    raising = [
        replace(one, bindings=[*one.bindings[:2], FaultOperand(n, is_word=False)])
        if one.executable.kernel is of.kernel else one
        for n, one in enumerate(launches)
    ]  # fmt: skip
    for given in (foreign, raising):
        groups = launch_groups(given, [*results, *slots], Machine.gpu(buffers=32))
        assert groups == [[n] for n in range(len(launches))]


class Compiled:
    """A launcher that compiles nothing and notes its kernels by their keys."""

    def __init__(self) -> None:
        self.kernels: dict[object, Kernel] = {}

    def executable(self, key: object, build: Callable[[int], Kernel], axes: int) -> object:
        if key not in self.kernels:
            self.kernels[key] = build(axes)
        return SimpleNamespace(kernel=self.kernels[key])


def test_one_kernel_serves_groups_of_other_sizes() -> None:
    launcher, of = Compiled(), kernel(1)
    for workgroups in (2, 5):
        bound = [[Slot(n, 4), Slot(n + 1, 4), workgroups] for n in (0, 2)]
        pair = [NotedLaunch(SimpleNamespace(kernel=of), b, (workgroups,)) for b in bound]
        found = joined_launch(launcher, pair)  # type: ignore[arg-type]
        assert found.grid == (2 * workgroups,)
        # The number that both have is one parameter; the other says where the second begins.
        assert [b for b in found.bindings if isinstance(b, int)] == [workgroups, workgroups]
    assert len(launcher.kernels) == 1


def test_a_number_is_no_slot_of_the_same_number() -> None:
    of = kernel(1)
    pair = [
        NotedLaunch(SimpleNamespace(kernel=of), [Slot(9, 4), Slot(1, 4), 2], (1,)),
        NotedLaunch(SimpleNamespace(kernel=of), [Slot(2, 4), Slot(3, 4), 9], (1,)),
        NotedLaunch(
            SimpleNamespace(kernel=of), [Slot(9, 4), Slot(5, 4), NumberOperand(0, int32)], (1,)
        ),
    ]
    found = joined_launch(Compiled(), pair)  # type: ignore[arg-type]
    numbers = [b.number for b in found.bindings if isinstance(b, Slot)]
    assert numbers == [9, 1, 2, 3, 5]
    assert [b for b in found.bindings if not isinstance(b, Slot)] == [
        2,
        9,
        NumberOperand(0, int32),
        1,
        2,
    ]


def folds_of(*given: Tensor) -> list[Tensor]:
    """Values that need each other, with folds and copies beside them."""
    x, y = given
    found = []
    for _ in range(3):
        x = (x @ y).tanh()
        found += [x.sum(axis=0), x.T.flip(0).max(axis=1), x.cumsum(1)[:, -1:]]
    return [x, *found]


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_launches_together_give_the_bits_of_launches_apart(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if problem := device_problem(name):
        pytest.skip(problem)
    root: Any = pyrite.device(name).backend.root
    values = [RNG.standard_normal(shape, dtype=np.float32) for shape in ((33, 17), (17, 17))]
    values[0][3, 5] = np.inf
    counts, results = [], []
    for most in (1, 16):
        machine = replace(root.launcher.machine, most_joined=most)
        monkeypatch.setattr(root.launcher, "machine", machine)
        device = Device(Fusion(root))
        tensors = [pyrite.tensor(v, device=device).astype(dtype) for v in values]
        with pyrite.explain() as found:
            results.append([r.astype("float32").numpy() for r in folds_of(*tensors)])
        counts.append(len(found.launched))
    for apart, together in zip(*results, strict=True):
        np.testing.assert_array_equal(apart.view(np.int32), together.view(np.int32))
    assert counts[1] < counts[0]
