"""Guarded blocks: none is used twice, none is touched when it is free, and mappings are bounded."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from pyrite.config import Guard
from pyrite.runtime.cpu import guarded_memory
from pyrite.runtime.cpu.guarded_memory import CLOSED, GuardedAllocator, GuardedBlock
from pyrite.runtime.cpu.memory import size_class


def allocator(guard: Guard = "after") -> GuardedAllocator:
    return GuardedAllocator(guard, lambda: 1, lambda: 1)


@pytest.mark.parametrize("nbytes", [0, 1, 2, 20, 4096, 5000, 100_001])
def test_a_buffer_lies_against_a_page(nbytes: int) -> None:
    after, before = allocator("after").allocate(nbytes), allocator("before").allocate(nbytes)

    assert isinstance(after.block, GuardedBlock)
    assert isinstance(before.block, GuardedBlock)
    assert after.address + nbytes == after.block.after[0]
    assert before.address == before.block.before[1]


def test_a_freed_block_keeps_its_addresses_for_a_while() -> None:
    blocks = allocator()
    addresses = [blocks.allocate(100).address for _ in range(CLOSED)]

    assert len(set(addresses)) == CLOSED
    assert blocks.report().live == 0


def test_a_block_that_a_launch_may_use_is_not_closed() -> None:
    done = 0
    blocks = GuardedAllocator("after", lambda: 1, lambda: done)
    buffer = blocks.allocate(100)
    block = buffer.block
    del buffer
    blocks.trim()

    block.memory[:] = 1  # a fault if it were
    done = 1
    blocks.trim()
    assert list(blocks._closed) == [block]


def test_the_report_counts_as_that_of_the_ordinary_allocator() -> None:
    blocks = allocator()
    held = blocks.allocate(1000)
    del held
    kept = blocks.allocate(300)

    report = blocks.report()
    assert kept.nbytes == 300
    assert (report.live, report.reserved, report.peak) == (320, 320, size_class(1000))


def test_without_room_for_mappings_there_is_poison_and_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded_memory, "most_mappings", lambda: 2 * guarded_memory.MAPPINGS)
    blocks = allocator()
    held = [blocks.allocate(24) for _ in range(2)]
    with pytest.warns(RuntimeWarning, match=r"no more mappings after 2 buffers"):
        held.append(blocks.allocate(24))
    held.append(blocks.allocate(24))

    found = [b.block for b in held]
    assert [b.has_pages for b in found if isinstance(b, GuardedBlock)] == [True, True, False, False]
    assert blocks.without_pages == 2
    last = found[-1]
    assert isinstance(last, GuardedBlock)
    last._poison[last._start + 24] ^= 1
    assert blocks.damages() == ["at byte 24 of 24"]
    assert blocks.damages() == []


def test_allocators_share_the_mappings_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left = 8 * guarded_memory.MAPPINGS
    monkeypatch.setattr(guarded_memory, "most_mappings", lambda: left)
    monkeypatch.setattr(guarded_memory, "_BLOCKS_A_LOOK", 4)
    blocks = allocator()
    held = [blocks.allocate(8) for _ in range(4)]
    left = 0  # another took them
    with pytest.warns(RuntimeWarning, match="no more mappings after 4 buffers"):
        held.append(blocks.allocate(8))

    found = [b.block for b in held]
    assert [b.has_pages for b in found if isinstance(b, GuardedBlock)] == [True] * 4 + [False]


def test_many_buffers_stay_within_the_bound() -> None:
    blocks = allocator()
    held = [blocks.allocate(8) for _ in range(2000)]

    assert blocks.without_pages == 0
    assert len({b.address for b in held}) == 2000
