"""The pool: what is given back is used again, in the order of the queue, and is bounded."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("wgpu")

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.memory import ALIGNMENT, Storage
from pyrite.runtime.wgpu.pool import Pool, size_class

MiB = 1 << 20


class Device:
    """Memory of a size, and what was asked of it."""

    def __init__(self, size: int = 100 * MiB, limit: int | None = None) -> None:
        self.room = size
        self.asked: list[int] = []
        self.drained = 0
        self.forgotten: list[Storage] = []
        self.destroyed: list[Storage] = []
        self.pool = Pool(
            self.create, self.drain, self.forget,
            is_usable=lambda storage: storage not in self.destroyed,
            limit=limit, largest=64 * MiB,
        )  # fmt: skip

    def create(self, capacity: int) -> Any:
        self.asked.append(capacity)
        if capacity > self.room:
            raise MemoryError("a full device")
        self.room -= capacity
        return SimpleNamespace(_internal=object())

    def drain(self) -> None:
        self.drained += 1

    def forget(self, storage: Storage) -> None:
        self.forgotten.append(storage)
        self.room += storage.capacity


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 1000, 1025, 4096, 5000, MiB + 1])
def test_a_class_wastes_at_most_a_fifth(nbytes: int) -> None:
    size = size_class(nbytes)

    assert size >= nbytes
    assert size % ALIGNMENT == 0
    assert size <= max(1024, nbytes * 5 / 4)
    assert size_class(size) == size


def test_what_nobody_holds_is_used_again_at_once() -> None:
    device = Device()
    storage = device.pool.allocate(1000).storage

    again = device.pool.allocate(900)

    assert again.storage is storage
    assert device.asked == [1024]


def test_what_a_view_holds_is_not() -> None:
    device = Device()
    view = device.pool.allocate(1000).view(256, 100)

    other = device.pool.allocate(1000)

    assert other.storage is not view.storage
    assert view.offset == 256
    assert device.pool.report().live == 2048


def test_the_report_counts_live_reserved_and_peak() -> None:
    pool = Device().pool
    x, y = pool.allocate(1000), pool.allocate(5000)
    del y

    report = pool.report()

    assert (report.live, report.reserved, report.peak) == (1024, 1024 + 5120, 1024 + 5120)
    pool.trim()
    assert pool.report().reserved == 1024
    assert x.nbytes == 1000


def test_a_hundred_rounds_reserve_no_more_than_one() -> None:
    device = Device()
    for _ in range(100):
        kept = [device.pool.allocate(n * 1000) for n in range(1, 10)]
        del kept

    assert len(device.asked) == 9


class Finalized(SimpleNamespace):
    """What wgpu-py releases in Python, with Ctrl-C in the middle of it."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_buffers_are_released_comes_when_all_are() -> None:
    def create(capacity: int) -> Any:
        return Finalized(_internal=None)

    pool = Pool(
        create, lambda: None, lambda _: None, is_usable=lambda _: True, limit=None, largest=MiB
    )
    held = [pool.allocate(1000) for _ in range(3)]
    del held

    with pytest.raises(KeyboardInterrupt):
        pool.trim()

    assert pool.report().reserved == 0


def test_memory_that_an_application_destroyed_is_given_to_nobody_else() -> None:
    device = Device()
    kept, destroyed = device.pool.allocate(1000), device.pool.allocate(1000)
    for buffer in (kept, destroyed):
        buffer.storage.is_lent = True
    good, bad = kept.storage, destroyed.storage
    device.destroyed.append(bad)
    del buffer, kept, destroyed

    again = [device.pool.allocate(1000) for _ in range(2)]

    assert again[0].storage is good
    assert again[1].storage is not bad
    assert device.forgotten == [bad]
    assert device.pool.report().reserved == 2048


def test_a_full_device_is_trimmed_and_asked_once_more() -> None:
    device = Device(size=10 * MiB)
    device.pool.allocate(6 * MiB)

    device.pool.allocate(8 * MiB)

    assert device.asked == [6 * MiB, 8 * MiB, 8 * MiB]
    assert device.drained == 2
    assert [s.capacity for s in device.forgotten] == [6 * MiB]


def test_a_device_that_stays_full_is_an_error_with_a_report() -> None:
    device = Device(size=10 * MiB)
    held = device.pool.allocate(6 * MiB)

    with pytest.raises(
        DeviceError, match=r"room for 8,388,608 bytes, got a full device; in use"
    ) as e:
        device.pool.allocate(8 * MiB)

    assert "6,291,456 bytes" in str(e.value)
    assert len(device.asked) == 3
    assert device.pool.allocate(MiB).nbytes == MiB
    assert held.nbytes == 6 * MiB


def test_the_limit_bounds_what_is_reserved() -> None:
    device = Device(limit=10 * MiB)
    held = device.pool.allocate(8 * MiB)

    with pytest.raises(DeviceError, match="got the limit of 10,485,760 bytes"):
        device.pool.allocate(4 * MiB)

    del held
    assert device.pool.allocate(4 * MiB).nbytes == 4 * MiB


def test_one_buffer_has_an_upper_bound() -> None:
    with pytest.raises(DeviceError, match="at most 67,108,864 bytes in one buffer"):
        Device().pool.allocate(65 * MiB)


@pytest.mark.parametrize(("offset", "nbytes"), [(4, 8), (-256, 8), (256, 800), (1024, 1)])
def test_a_view_lies_inside_at_an_aligned_place(offset: int, nbytes: int) -> None:
    buffer = Device().pool.allocate(1000)

    with pytest.raises(DeviceError, match="view requires an offset that is a multiple of 256"):
        buffer.view(offset, nbytes)
