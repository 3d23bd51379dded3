"""Launches that are made again: each computes what it did, and no more is in use than is said."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pyrite.backend.cube.in_place import Overwriting
from pyrite.backend.cube.launch_schedule import (
    LaunchEffect,
    LaunchSchedule,
    NotedProgram,
    Occurrence,
)
from pyrite.backend.cube.rematerialization import once, rematerialised

#: What a slot holds, by what made it.
Content = tuple[object, ...]


def effect(
    reads: Sequence[int], writes: Sequence[int], work: int = 1, **more: bool
) -> LaunchEffect:
    pairs = {(0, len(reads))} if more.pop("over", False) and reads and writes else set()
    return LaunchEffect(
        Overwriting((*reads, *writes), frozenset(pairs)),
        frozenset(reads), frozenset(writes), work, more.get("is_repeatable", True),
    )  # fmt: skip


def program(
    effects: Sequence[LaunchEffect], sizes: dict[int, int], given: int, results: Sequence[int],
    checked: Sequence[int] = (),
) -> NotedProgram:  # fmt: skip
    return NotedProgram(
        effects, sizes, given, frozenset(results), {}, frozenset(checked), in_place=False
    )


def chain(length: int, size: int = 100) -> NotedProgram:
    """Return a network's launches: each layer's result is wanted again on the way back."""
    effects = [effect([n], [n + 1]) for n in range(length)]
    last = length
    for n in reversed(range(length)):
        effects.append(effect([last, n + 1], [last + 1 if last > length else length + 1]))
        last = length + 1 if last == length else last + 1
    sizes = {n: size for n in range(last + 1)} | {0: 0}
    return program(effects, sizes, 1, [last])


def some(seed: int) -> NotedProgram:
    """Return launches as they come: of several results, slots written in pieces or added to."""
    rng = Random(seed)
    given = rng.randint(1, 3)
    sizes = dict.fromkeys(range(given), 0)
    effects: list[LaunchEffect] = []
    for _ in range(rng.randint(4, 40)):
        known = list(sizes)
        reads = rng.sample(known, min(len(known), rng.randint(1, 3)))
        if rng.random() < 0.3:
            reads = [*dict.fromkeys([*reads, rng.choice(known[: given + 4])])]
        new = [len(sizes) + n for n in range(rng.choice([1, 1, 1, 2, 3]))]
        sizes |= {n: rng.randint(0, 20) * rng.choice([1, 64]) for n in new}
        writes = [*new]
        if rng.random() < 0.2 and len(known) > given:
            # A piece of what is there, or a sum that is added to.
            old = rng.choice(known[given:])
            writes.append(old)
            reads = [r for r in reads if r != old or rng.random() < 0.5]
        more = {"is_repeatable": rng.random() < 0.9, "over": rng.random() < 0.3}
        effects.append(effect(reads or [0], writes, rng.randint(1, 100), **more))
    made = range(given, len(sizes))
    results = rng.sample(made, rng.randint(1, max(1, len(made) // 4)))
    checked = rng.sample(range(len(effects)), rng.randint(0, 2))
    found = program(effects, sizes, given, results, checked)
    return NotedProgram(
        found.effects, found.sizes, given, found.results, {}, found.checked,
        in_place=rng.random() < 0.5,
    )  # fmt: skip


def contents(
    of: NotedProgram, calls: Sequence[Occurrence]
) -> tuple[dict[int, set[Content]], list[Content]]:
    """Make the calls on contents; return what each launch gave, and the results."""
    held: dict[int, Content] = {n: ("given", n) for n in range(of.given)}
    gave: dict[int, set[Content]] = {}
    for call in calls:
        does = of.effects[call.launch]
        seen = tuple(held[call.names.get(s, s)] for s in sorted(does.reads))
        for slot in sorted(does.writes):
            now = call.names.get(slot, slot)
            held[now] = (call.launch, slot, seen, held.get(now))
        gave.setdefault(call.launch, set()).add(seen)
    return gave, [held[s] for s in sorted(of.results)]


def most(of: NotedProgram, schedule: LaunchSchedule) -> int:
    """Return the most bytes in use at a call, where nothing lies in another's place."""
    end = len(schedule.calls)
    lives: dict[int, list[int]] = {}
    for place, call in enumerate(schedule.calls):
        does = of.effects[call.launch]
        for slot in {call.names.get(s, s) for s in does.reads | does.writes}:
            lives.setdefault(slot, []).append(place)
    for slot in of.results & lives.keys():
        lives[slot].append(end)
    return max(
        sum(schedule.sizes[s] for s, at in lives.items() if s >= of.given and at[0] <= n <= at[-1])
        for n in range(end)
    )


def test_what_is_made_again_is_what_it_was() -> None:
    again = 0
    for seed in range(60):
        of = some(seed)
        first = once(of)
        gave, results = contents(of, first.calls)
        for limit in (0, first.peak * 3 // 4):
            found = rematerialised(of, first, limit)
            now, others = contents(of, found.calls)
            assert others == results, f"seed {seed}"
            assert all(now[launch] == gave[launch] for launch in now), f"seed {seed}"
            assert now.keys() == gave.keys(), f"seed {seed}: a launch is gone"
            assert found.peak <= first.peak
            if not of.in_place:
                assert found.peak == most(of, found), f"seed {seed}"
                assert first.peak == most(of, first)
            again += len(found.calls) > len(first.calls)
    assert again > 10


def test_a_launch_that_may_give_something_else_is_made_once() -> None:
    for seed in range(30):
        of = some(seed)
        launches = [call.launch for call in rematerialised(of, once(of), 0).calls]
        assert all(
            launches.count(n) == 1 for n, does in enumerate(of.effects) if not does.is_repeatable
        )


@pytest.mark.parametrize("length", [9, 25])
def test_a_chain_takes_a_part_of_its_memory(length: int) -> None:
    of = chain(length)
    first = once(of)
    found = rematerialised(of, first, 0)
    assert contents(of, found.calls)[1] == contents(of, first.calls)[1]
    assert found.peak <= 0.55 * first.peak


def test_no_more_is_made_again_than_a_limit_takes() -> None:
    of = chain(16)
    first = once(of)
    assert rematerialised(of, first, first.peak).calls == first.calls
    little, more = (rematerialised(of, first, int(first.peak * x)) for x in (0.9, 0.6))
    assert little.peak <= 0.9 * first.peak
    assert more.peak <= 0.6 * first.peak
    assert len(first.calls) < len(little.calls) < len(more.calls)


def test_what_takes_least_work_is_made_again() -> None:
    """Of two values that wait, of one size."""
    effects = [
        effect([0], [1], work=1000), effect([0], [2], work=10), effect([1, 2], [3]),
        effect([3], [4]), effect([1, 2, 4], [5]),
    ]  # fmt: skip
    of = program(effects, {0: 0, 1: 64, 2: 64, 3: 512, 4: 512, 5: 4}, 1, [5])
    found = rematerialised(of, once(of), once(of).peak - 64)
    assert [call.launch for call in found.calls] == [0, 1, 2, 3, 1, 4]


def test_what_is_wanted_late_only_is_made_late_and_once() -> None:
    effects = [effect([0], [1]), effect([0], [2]), effect([2], [3]), effect([1, 3], [4])]
    of = program(effects, {0: 0, 1: 100, 2: 100, 3: 100, 4: 4}, 1, [4])
    found = rematerialised(of, once(of), 0)
    assert [call.launch for call in found.calls] == [1, 2, 0, 3]
    assert (once(of).peak, found.peak) == (300, 204)
