"""The guarded wgpu finds kernels that leave their buffers, as far as a binding can show it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pyrite.errors import DeviceError, KernelError
from pyrite.runtime.poison import reach_of
from pyrite.runtime.wgpu.guarded import MARGIN, GuardedWgpuRuntime
from pyrite.testing.strays import COUNT, reading, run, writing
from pyrite.types import float32, int32


@pytest.fixture(scope="module")
def runtime() -> Iterator[GuardedWgpuRuntime]:
    try:
        made = GuardedWgpuRuntime()
    except DeviceError:
        pytest.skip("no WebGPU adapter: install mesa-vulkan-drivers")
    yield made
    made.close()


def test_what_stays_inside_computes_what_it_computed(runtime: GuardedWgpuRuntime) -> None:
    assert run(runtime, reading(0)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("by", [1, COUNT, MARGIN // 4])
def test_what_is_read_behind_a_buffer_is_nan(runtime: GuardedWgpuRuntime, by: int) -> None:
    assert np.isnan(run(runtime, reading(by))[-min(by, COUNT) :]).all()


@pytest.mark.parametrize("by", [1, COUNT, MARGIN // 4 - 1])
def test_what_is_written_behind_a_buffer_is_an_error(runtime: GuardedWgpuRuntime, by: int) -> None:
    with pytest.raises(KernelError, match=rf"at byte {4 * max(COUNT, by)} of 20 .*: writes by"):
        run(runtime, writing(by))
    assert run(runtime, reading(0)).tolist() == [0, 1, 2, 3, 4]


def test_what_was_not_written_is_nan(runtime: GuardedWgpuRuntime) -> None:
    """As where a write went before the beginning, which no binding shows."""
    assert np.isnan(run(runtime, writing(-1))[-1])


def test_fresh_memory_is_no_number(runtime: GuardedWgpuRuntime) -> None:
    fresh = runtime.allocate(12)

    assert np.isnan(runtime.read(fresh, float32, (3,))).all()
    assert (runtime.read(fresh, int32, (3,)) == 0x7FFD7FFD).all()


def test_freed_memory_is_poison_when_the_next_is_asked_for(runtime: GuardedWgpuRuntime) -> None:
    buffer = runtime.upload(np.ones(3, np.float32))
    contents, offset = buffer.contents, buffer.offset
    del buffer
    other = [runtime.allocate(1 << 16)]

    from pyrite.runtime.wgpu.memory import Buffer, Lease

    freed = Buffer(Lease(contents.storage, 12), offset, 12)
    assert np.isnan(runtime.read(freed, float32, (3,))).all()
    assert len(other) == 1


def test_an_operand_that_is_a_view_has_nothing_beside_it(runtime: GuardedWgpuRuntime) -> None:
    whole = runtime.upload(np.arange(9, dtype=np.float32))
    view = runtime.within(whole, reach_of(4, 1, (3,), (2,)))
    memory = runtime.read(view, float32, (9,))

    assert np.flatnonzero(~np.isnan(memory)).tolist() == [1, 3, 5]
