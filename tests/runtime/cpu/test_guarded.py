"""The guarded CPU finds kernels that leave their buffers: by a fault, by poison, or by an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from pyrite.config import Guard
from pyrite.errors import KernelError
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.runtime.poison import reach_of
from pyrite.testing.strays import COUNT, reading, run, writing
from pyrite.types import float32, int32

GUARDS: tuple[Guard, ...] = ("after", "before")


@pytest.fixture(params=GUARDS)
def runtime(request: pytest.FixtureRequest) -> Iterator[GuardedCpuRuntime]:
    made = GuardedCpuRuntime(request.param, threads=1)
    yield made
    made.close()


def towards_poison(runtime: GuardedCpuRuntime) -> int:
    """Return one element in the direction in which there is no page."""
    probe = runtime.allocate(4).block  # type: ignore[union-attr]
    return 1 if probe.before[1] == probe.address else -1  # type: ignore[union-attr]


def test_what_stays_inside_computes_what_it_computed(runtime: GuardedCpuRuntime) -> None:
    assert run(runtime, reading(0)).tolist() == [0, 1, 2, 3, 4]


def test_a_read_of_the_poison_shows_as_nan(runtime: GuardedCpuRuntime) -> None:
    found = run(runtime, reading(towards_poison(runtime)))

    assert np.isnan(found).sum() == 1


def test_a_write_to_the_poison_is_an_error_that_names_kernel_and_buffer(
    runtime: GuardedCpuRuntime,
) -> None:
    by = towards_poison(runtime)
    at = 4 * COUNT if by > 0 else -4

    with pytest.raises(KernelError, match=rf"'writes by {by}' .* 'y', got a write at byte {at} of"):
        run(runtime, writing(by))
    assert run(runtime, reading(0)).tolist() == [0, 1, 2, 3, 4]


def test_a_write_around_another_buffer_is_found_at_the_next_read(
    runtime: GuardedCpuRuntime,
) -> None:
    other = runtime.allocate(8)
    run(runtime, reading(0))
    run(runtime, writing(0))
    block = other.block  # type: ignore[union-attr]
    block._poison[block._start - 1 if block._start else 8] ^= 1

    with pytest.raises(KernelError, match=r"got a write at byte -?\d of 8 bytes of one; since"):
        runtime.read(other, float32, (2,))


def test_a_write_around_a_buffer_that_is_free_is_found_too(runtime: GuardedCpuRuntime) -> None:
    other = runtime.allocate(8)
    block = other.block  # type: ignore[union-attr]
    block._poison[block._start - 1 if block._start else 8] ^= 1
    del other

    with pytest.raises(KernelError, match=r"got a write at byte -?\d of 8 bytes of one"):
        runtime.synchronize()


def test_fresh_memory_is_no_number(runtime: GuardedCpuRuntime) -> None:
    fresh = runtime.allocate(12)

    assert np.isnan(runtime.read(fresh, float32, (3,))).all()
    assert (runtime.read(fresh, int32, (3,)) == 0x7FFD7FFD).all()


@pytest.mark.parametrize(
    ("offset", "stride", "by"), [(0, 1, 3), (3, 1, -1), (0, 2, 1), (8, -2, -1), (2, 0, 1)]
)
def test_an_operand_that_is_a_view_has_nothing_beside_it(
    runtime: GuardedCpuRuntime, offset: int, stride: int, by: int
) -> None:
    whole = runtime.upload(np.arange(9, dtype=np.float32))
    view = runtime.within(whole, reach_of(4, offset, (3,), (stride,)))
    memory = view.bytes().view(np.float32)  # type: ignore[attr-defined]
    own = sorted({offset + i * stride for i in range(3)})

    assert memory[~np.isnan(memory)].tolist() == own
    neighbour = offset + by
    assert neighbour not in own
    first, last = own[0], own[-1]
    assert not first <= neighbour <= last or np.isnan(memory[neighbour - first])


FAULTS = """
import sys
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.testing.strays import reading, run, writing
guard, what, by = sys.argv[1:]
run(GuardedCpuRuntime(guard, threads=1), {"reading": reading, "writing": writing}[what](int(by)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the report knows the signals of Linux")
@pytest.mark.parametrize(
    ("guard", "what", "by", "said"),
    [
        ("after", "reading", 1, ("kernel 'reads by 1'", "past the end of buffer 'x' (20 bytes)")),
        ("before", "writing", -1, ("kernel 'writes by -1'", "before the beginning of buffer 'y'")),
    ],
)
def test_a_touch_of_a_page_ends_the_process_and_says_whose_it_is(
    guard: str, what: str, by: int, said: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", FAULTS, guard, what, str(by)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert found.returncode != 0
    assert all(words in found.stderr for words in said), found.stderr
    assert "Segmentation fault" in found.stderr


def test_a_launch_that_a_buffer_counts_is_looked_at_too(runtime: GuardedCpuRuntime) -> None:
    kernel = runtime.compile(writing(towards_poison(runtime)))
    x, y = (runtime.upload(np.zeros(COUNT, np.float32)) for _ in range(2))
    none, all = (runtime.upload(np.array((n, 1, 1), np.uint32)) for n in (0, COUNT))

    runtime.launch_counted(kernel, [x, y], none)
    with pytest.raises(KernelError, match="requires to stay inside"):
        runtime.launch_counted(kernel, [x, y], all)
