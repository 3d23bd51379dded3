"""The allocator: what is given back is used again, in the order of the stream, and is bounded."""

from __future__ import annotations

import sys
import threading
import weakref
from itertools import pairwise

import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite.errors import ArgumentError, DeviceError
from pyrite.runtime.cpu import bundle_memory, memory
from pyrite.runtime.cpu.memory import ALIGNMENT, Allocator, size_class


class Stream:
    """A stream of which the test says how far it is."""

    def __init__(self, limit: int | None = None) -> None:
        self.now, self.done = 1, 1
        self.allocator = Allocator(lambda: self.now, lambda: self.done, limit)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 1000, 4096, 5000, (1 << 20) + 1])
def test_a_class_wastes_at_most_a_quarter(nbytes: int) -> None:
    size = size_class(nbytes)

    assert size >= nbytes
    assert size % ALIGNMENT == 0
    assert size <= max(memory.SMALLEST, nbytes * 5 // 4)
    assert size_class(size) == size


def test_blocks_are_aligned_and_apart() -> None:
    allocator = Stream().allocator
    buffers = [allocator.allocate(n) for n in (1, 100, 1000, 10_000, 3)]

    assert all(b.address % ALIGNMENT == 0 for b in buffers)
    spans = sorted((b.address, b.address + b.nbytes) for b in buffers)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_a_large_block_begins_a_page_so_that_no_load_lies_just_behind_a_store_modulo_4096() -> None:
    allocator = Stream().allocator
    buffers = [allocator.allocate(n) for n in (1 << 16, 1 << 21, 1 << 21, 100_001)]

    assert not any(b.address % memory.PAGE for b in buffers)


def test_what_is_given_back_is_used_again() -> None:
    allocator = Stream().allocator
    first = allocator.allocate(1000)
    address = first.address
    del first

    assert allocator.allocate(1001).address == address


def test_a_block_that_goes_from_hand_to_hand_is_counted_once() -> None:
    allocator = Stream().allocator
    held, address = [allocator.allocate(1000)], 0
    for _ in range(3):
        address = held.pop().address
        held.append(allocator.allocate(1001))
    report = allocator.report()

    assert held[0].address == address
    assert (report.live, report.reserved, report.peak) == (1024, 1024, 1024)


def test_one_of_another_size_is_not_handed_on() -> None:
    allocator = Stream().allocator
    small, large = allocator.allocate(1000), allocator.allocate(2000)
    address = large.address
    del small
    other = allocator.allocate(2000)
    assert other.address != address
    del large
    report = allocator.report()

    assert (report.live, report.reserved, report.peak) == (2048, 5120, 5120 - 1024)


def test_the_host_gets_no_block_that_a_launch_may_still_use() -> None:
    stream = Stream()
    buffer = stream.allocator.allocate(1000)
    address = buffer.address
    stream.now = 2  # its last launch belongs to submission 2
    del buffer

    fresh = stream.allocator.allocate(1000, for_host=True)
    assert fresh.address != address
    stream.done = 2
    assert stream.allocator.allocate(1000, for_host=True).address == address


def test_what_goes_from_hand_to_hand_is_counted_as_it_is() -> None:
    allocator = Stream().allocator
    kept = [allocator.allocate(1000) for _ in range(2)]
    for nbytes in (1000, 1000, 5000, 5000, 1000, 900):
        allocator.allocate(nbytes)  # let go of at once
    one, other = size_class(1000), size_class(5000)

    report = allocator.report()
    del kept
    after = allocator.report()

    # A block of each size was lent again and again, the two kept beside them.
    assert (report.live, report.reserved) == (2 * one, 3 * one + other)
    assert report.peak == 2 * one + max(one, other)
    assert (after.live, after.reserved) == (0, report.reserved)


def test_a_block_that_ends_while_others_are_taken_back_waits_for_its_own_launch() -> None:
    """Another thread launches with a buffer and drops it between two that are taken back."""
    held = []
    submission = 1

    def now() -> int:
        nonlocal submission
        if held:
            held.clear()
            submission = 2
            return 1
        return submission

    allocator = Allocator(now, lambda: 1)
    first, last = allocator.allocate(1000), allocator.allocate(1000)
    address = last.address
    held.append(last)
    del first, last

    taken = [allocator.allocate(1000, for_host=True) for _ in range(3)]
    assert address not in [buffer.address for buffer in taken]


def test_the_report_counts_live_reserved_and_peak() -> None:
    allocator = Stream().allocator
    a, b = allocator.allocate(1024), allocator.allocate(2048)
    assert allocator.report() == memory.MemoryReport(live=3072, reserved=3072, peak=3072)
    del a
    assert allocator.report() == memory.MemoryReport(live=2048, reserved=3072, peak=3072)
    allocator.trim()
    assert allocator.report() == memory.MemoryReport(live=2048, reserved=2048, peak=3072)
    assert b.nbytes == 2048


def test_free_memory_is_bounded() -> None:
    allocator = Stream(limit=4096).allocator
    buffers = [allocator.allocate(1024) for _ in range(10)]
    del buffers

    assert allocator.report().reserved == 4096


def test_blocks_in_use_by_launches_are_not_trimmed() -> None:
    stream = Stream()
    buffer = stream.allocator.allocate(1024)
    stream.now = 5
    del buffer

    stream.allocator.trim()
    assert stream.allocator.report().reserved == 1024
    stream.done = 5
    stream.allocator.trim()
    assert stream.allocator.report().reserved == 0


def test_a_view_keeps_the_whole() -> None:
    allocator = Stream().allocator
    buffer = allocator.allocate(1024)
    view = buffer.view(256, 512).view(64, 64)
    address = buffer.address
    del buffer

    assert view.address == address + 320
    assert allocator.allocate(1024).address != address
    view.bytes()[:] = 1
    with pytest.raises(ArgumentError, match="part of 1024 bytes, got 65 from 960 on"):
        view.base.view(960, 65)


def test_no_room_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoBlock:
        def __init__(self, capacity: int) -> None:
            raise MemoryError

    allocator = Stream().allocator
    held = allocator.allocate(512)
    monkeypatch.setattr(memory, "Block", NoBlock)

    with pytest.raises(DeviceError, match=r"room for 1,024 bytes, .* free, 512 are in use"):
        allocator.allocate(1024)
    assert held.nbytes == 512


def test_when_there_is_no_room_free_blocks_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Stream().allocator
    del_me = allocator.allocate(1 << 16)
    del del_me
    real, refusals = memory.Block, iter([True, False])

    def scarce(capacity: int) -> memory.Block:
        if next(refusals):
            raise MemoryError
        return real(capacity)

    monkeypatch.setattr(memory, "Block", scarce)
    buffer = allocator.allocate(1024)

    assert allocator.report().reserved == buffer.nbytes == 1024


def test_many_threads_share_no_block() -> None:
    allocator = Stream().allocator
    clashes = []

    def work(number: int) -> None:
        for _ in range(300):
            buffer = allocator.allocate(700)
            buffer.bytes()[:] = number
            if not (buffer.bytes() == number).all():
                clashes.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not clashes
    assert allocator.report().live == 0


def test_a_block_that_is_lost_on_its_way_is_not_freed_under_a_launch() -> None:
    allocator = Stream().allocator
    buffer = allocator.allocate(1000)
    memory = weakref.ref(buffer.bytes().base)

    del buffer
    allocator.size_class(1000).ended.clear()  # as Ctrl-C between two lines would

    assert memory() is not None


def test_buffers_lent_together_are_those_lent_one_by_one() -> None:
    """By machine code, which `device` puts in place, and by the Python that does the same."""
    pyrite.device("cpu")
    for lend in (bundle_memory.lenders[0], bundle_memory.lent):
        allocator = Allocator(lambda: 1, lambda: 1)
        sizes = [1, 300, 1, 5000, 0, 1 << 17]
        wanted = [(allocator.size_class(n), n) for n in sizes]
        rows = tuple([(of.ended, of.ended.pop, of.end, n, of) for of, n in wanted])
        first = lend(allocator.lend, rows)
        assert [b.nbytes for b in first] == sizes
        assert len({b.address for b in first}) == len(sizes)
        assert {b.address % ALIGNMENT for b in first} == {0}
        reserved = allocator.report().reserved
        addresses = sorted(b.address for b in first)
        for _ in range(3):
            del first
            first = lend(allocator.lend, rows)
            assert sorted(b.address for b in first) == addresses
            assert all(b.block.lease is not None and b.block.lease() is b for b in first)
            assert {b.origin for b in first} == {None}
        report = allocator.report()
        assert (report.live, report.reserved) == (reserved, reserved)
        first.clear()
        assert allocator.report().live == 0
        assert lend(allocator.lend, ()) == []


def test_lending_together_holds_nothing() -> None:
    pyrite.device("cpu")
    allocator = Allocator(lambda: 1, lambda: 1)
    of = allocator.size_class(1000)
    row = (of.ended, of.ended.pop, of.end, 1000, of)
    bundle_memory.lenders[0](allocator.lend, (row,) * 8)
    before = [sys.getrefcount(x) for x in (of, of.end, None, row)]
    for _ in range(5000):
        bundle_memory.lenders[0](allocator.lend, (row,) * 8)
    after = [sys.getrefcount(x) for x in (of, of.end, None, row)]
    assert all(abs(n - m) < 100 for n, m in zip(before, after, strict=True))
