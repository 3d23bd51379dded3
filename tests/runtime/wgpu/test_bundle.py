"""Bundles: what they write to, and what they are bound to, from one run to the next."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu import WgpuRuntime, bundle_memory, launches
from pyrite.runtime.wgpu import bundle as bundle_module
from pyrite.runtime.wgpu.pace import SUBMIT_AFTER, Pace
from pyrite.runtime.wgpu.timestamps import Timestamps
from pyrite.types import float32


@pytest.fixture(autouse=True)
def _any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have bundles of two launches do what those of eight do."""
    monkeypatch.setattr(bundle_module, "LEAST_LAUNCHES", 2)
    monkeypatch.setattr(bundle_memory, "LEAST_BUFFERS", 1)


ONES = np.ones(64, np.float32)


def doubled_twice(runtime: WgpuRuntime, kernel: Kernel) -> Any:
    """Return a bundle: operand 1 is an inner buffer, 2 the result, 3 a number."""
    scale = runtime.compile(kernel)
    return runtime.bundle(
        [
            BundledLaunch(scale, (0, 1, Fixed(64), 3), (1,)),
            BundledLaunch(scale, (1, 2, Fixed(64), Fixed(2.0)), (1,)),
        ]
    )


@pytest.mark.parametrize("least", [2, 100])
def test_launches_that_are_stepped_have_their_own_numbers(
    runtime: WgpuRuntime, scale: Kernel, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_module, "LEAST_LAUNCHES", least)
    compiled = runtime.compile(scale)
    bundle = runtime.bundle(
        [
            BundledLaunch(compiled, (0, 1, Fixed(64), Fixed(2.0)), (1,)),
            BundledLaunch(compiled, (0, 1, Fixed(64), Fixed(5.0)), (1,), stepped=(3,)),
            BundledLaunch(compiled, (1, 2, Fixed(16), 3), (1,)),
            BundledLaunch(compiled, (1, 2, Fixed(64), 3), (1,), stepped=(2,)),
        ]
    )
    memory, x = runtime.bundle_memory([256, 256], [0]), runtime.upload(ONES)

    for factor in (3.0, 4.0):
        operands = [x, *memory.buffers(), factor]
        bundle.launch(operands)
        assert runtime.read(operands[2], float32, (64,)).tolist() == [5 * factor] * 64


def test_inner_buffers_stay_and_results_are_new(runtime: WgpuRuntime) -> None:
    memory = runtime.bundle_memory([1000, 2000, 1000], [0, 2])

    first, second = memory.buffers(), memory.buffers()

    assert [first[n].key for n in (0, 2)] == [second[n].key for n in (0, 2)]
    assert len({buffer.key[0] for buffer in (*first, second[1])}) == 4


def test_bundles_share_what_lives_within_a_run(runtime: WgpuRuntime) -> None:
    one = runtime.bundle_memory([1000, 2000], [0, 1])
    other = runtime.bundle_memory([1000, 1001, 1000], [0, 2])

    kept = {buffer.key[0] for buffer in one.buffers()}

    assert len(kept & {buffer.key[0] for buffer in other.buffers()}) == 1
    assert kept.isdisjoint(buffer.key[0] for buffer in other.buffers(are_new=True))


def test_a_result_comes_back_to_its_place(runtime: WgpuRuntime) -> None:
    memory = runtime.bundle_memory([1000, 1000], [])
    held = memory.buffers()
    seen = []
    for _ in range(6):
        held = memory.buffers()
        gc.collect()
        seen.append(tuple(buffer.key for buffer in held))

    assert len(set(seen)) == 2
    assert seen[0] == seen[2] != seen[1]


def test_what_is_in_its_place_goes_elsewhere_and_nothing_is_given_twice(
    runtime: WgpuRuntime,
) -> None:
    memory = runtime.bundle_memory([1000], [])
    (before,) = memory.buffers()
    serial = before.key[0]
    del before
    taken = runtime.allocate(1000)  # the storage that was its place

    (elsewhere,) = memory.buffers()
    held = [taken, elsewhere, *(runtime.allocate(1000) for _ in range(3)), *memory.buffers()]

    assert taken.key[0] == serial
    assert len({buffer.key[0] for buffer in held}) == len(held)


def test_trim_gives_back_what_bundles_keep(runtime: WgpuRuntime, scale: Kernel) -> None:
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)
    for factor in (3.0, 4.0):
        operands = [x, *memory.buffers(), factor]
        bundle.launch(operands)
        values = runtime.read(operands[2], float32, (64,))
        assert values.tolist() == [2 * factor] * 64
        del operands
        runtime.synchronize()
        runtime.trim()
        assert runtime.memory_report().reserved == x.storage.capacity


def test_a_set_of_buffers_that_is_known_is_bound_once(runtime: WgpuRuntime, scale: Kernel) -> None:
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)

    def run(factor: float) -> float:
        operands = [x, *memory.buffers(), factor]
        bundle.launch(operands)
        return float(runtime.read(operands[2], float32, (64,))[0])

    assert run(3.0) == 6.0
    before = runtime.report()
    assert [run(factor) for factor in (1.0, 2.5, -4.0)] == [2.0, 5.0, -8.0]
    after = runtime.report()

    assert after["bind_group_misses"] == before["bind_group_misses"]
    assert after["bind_group_hits"] == before["bind_group_hits"]
    assert after["launches"] - before["launches"] == 6


def test_runs_that_wait_together_keep_their_own_numbers(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)
    results = []
    for factor in range(1, 9):
        operands = [x, *memory.buffers(), float(factor)]
        bundle.launch(operands)
        results.append(operands[2])

    found = runtime.read_all([(result, float32, (64,)) for result in results])

    assert [values[0] for values in found] == [2.0 * factor for factor in range(1, 9)]


def test_an_inner_buffer_that_was_not_written_is_given_up(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)
    operands = [x, *memory.buffers(), 3.0]
    bundle.launch(operands)
    launches: Any = runtime._queue.pending.commands[-1]
    launches.calls.held = [(*call[:3], (100_000, 1, 1)) for call in launches.calls.held]
    with pytest.raises(KernelError, match="scale and 1 more requires a legal command"):
        runtime.read(operands[2], float32, (64,))

    again = [x, *memory.buffers(), 3.0]
    bundle.launch(again)

    assert runtime.read(again[2], float32, (64,))[0] == 6.0


def test_a_buffer_that_its_application_destroyed_is_found_after_it_was_bound(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)
    operands = [x, *memory.buffers(), 3.0]
    bundle.launch(operands)
    assert runtime.read(operands[2], float32, (64,))[0] == 6.0
    runtime.get_resource(x).resource().buffer().destroy()
    operands[1:3] = memory.buffers()
    bundle.launch(operands)

    with pytest.raises(DeviceError, match="destroyed"):
        runtime.read(operands[2], float32, (64,))
    operands = [runtime.upload(ONES), *memory.buffers(), 4.0]
    bundle.launch(operands)
    assert runtime.read(operands[2], float32, (64,))[0] == 8.0


def test_many_launches_go_to_the_device_in_pieces(runtime: WgpuRuntime, scale: Kernel) -> None:
    runtime._queue.pace = Pace(is_early=False)
    executable = runtime.compile(scale)
    count = 2 * SUBMIT_AFTER + 5
    steps = [
        BundledLaunch(executable, (n, n + 1, Fixed(64), Fixed(-1.0)), (1,)) for n in range(count)
    ]
    bundle, memory = runtime.bundle(steps), runtime.bundle_memory([256] * count, range(count - 1))
    before = runtime.report()["submissions"]
    operands = [runtime.upload(ONES), *memory.buffers()]
    bundle.launch(operands)

    assert runtime.report()["submissions"] - before == 2
    assert runtime.read(operands[-1], float32, (64,))[0] == -1.0


def test_threads_that_share_inner_buffers_do_not_disturb_each_other(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    bundle = doubled_twice(runtime, scale)
    wrong: list[float] = []

    def work(factor: float) -> None:
        memory = runtime.bundle_memory([256, 256], [0])
        x = runtime.upload(ONES)
        for _ in range(20):
            operands = [x, *memory.buffers(), factor]
            bundle.launch(operands)
            value = float(runtime.read(operands[2], float32, (64,))[0])
            if value != 2 * factor:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_native_calls_and_python_calls_encode_the_same(
    runtime: WgpuRuntime, scale: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pipelines by turns, launches with and without numbers, fixed and varying ones."""
    b = KernelBuilder("add_one", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    y[b.global_id()] = x[b.global_id()] + 1.0
    scaled, more = runtime.compile(scale), runtime.compile(b.build())
    steps = [
        BundledLaunch(scaled, (0, 1, Fixed(64), 4), (1,)),
        BundledLaunch(more, (1, 2), (1,)),
        BundledLaunch(more, (2, 1), (1,)),
        BundledLaunch(scaled, (1, 3, Fixed(64), Fixed(-2.0)), (1,)),
    ]
    found = []
    for has_loop in (True, False):
        if not has_loop:
            monkeypatch.setattr(launches, "loop", lambda: None)
        else:
            assert launches.loop() is not None
        bundle, memory = runtime.bundle(steps), runtime.bundle_memory([256] * 3, [0, 1])
        operands = [runtime.upload(ONES), *memory.buffers(), 0.0]
        for factor in (2.0, 3.0, 5.0):
            operands[4] = factor
            bundle.launch(operands)
            command: Any = runtime._queue.pending.commands[-1]
            assert (command.calls.rows is not None) == (has_loop and factor > 2.0)
            found.append(runtime.read(operands[3], float32, (64,)).tolist())

    assert found == [[-8.0] * 64, [-10.0] * 64, [-14.0] * 64] * 2


def test_an_op_of_few_launches_is_bound_anew_to_new_buffers(
    runtime: WgpuRuntime, scale: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    x = runtime.upload(ONES)
    runs = [[x, *memory.buffers(), factor] for factor in (3.0, 4.0)]
    for operands in runs:
        bundle.launch(operands)

    assert len({b.key for operands in runs for b in operands[1:3]}) == 4
    assert bundle._bound == {}
    assert [runtime.read(o[2], float32, (64,))[0] for o in runs] == [6.0, 8.0]


def test_a_launch_may_read_and_write_one_operand(runtime: WgpuRuntime, scale: Kernel) -> None:
    """As the steps of a sequence do with a state that lies around all of them."""
    kernel = runtime.compile(scale)
    inside = BundledLaunch(kernel, (0, 0, Fixed(64), Fixed(2.0)), (1,))
    bundle = runtime.bundle([inside, inside])
    x = runtime.upload(ONES)

    for _ in range(3):  # bound anew, as a table, and the table again
        bundle.launch([x])

    np.testing.assert_array_equal(runtime.read(x, float32, (64,)), 64 * ONES)


def test_launches_that_are_timed_have_the_numbers_of_their_run(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    """Each has a pass of its own, also where the set of buffers is known as a table."""
    bundle, memory = doubled_twice(runtime, scale), runtime.bundle_memory([256, 256], [0])
    operands = [runtime.upload(ONES), *memory.buffers(), 0.0]
    timestamps = Timestamps(runtime.device)
    found = []
    for factor in (1.0, 2.0, 3.0, 4.0):
        operands[3] = factor
        with runtime.timed(timestamps):
            bundle.launch(operands)
        found.append(runtime.read(operands[2], float32, (64,))[0])

    assert found == [2.0, 4.0, 6.0, 8.0]
    assert len(timestamps.read()) == 8


def test_numbers_of_runs_that_wait_together_are_their_own(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    executable = runtime.compile(scale)
    steps = [BundledLaunch(executable, (0, n + 1, Fixed(64), 10), (1,)) for n in range(9)]
    bundle, memory = runtime.bundle(steps), runtime.bundle_memory([256] * 9, [*range(8)])
    x = runtime.upload(ONES)
    for _ in range(3):  # with the same buffers from the second time on
        bundle.launch([x, *memory.buffers(), 0.0])
        runtime.flush()
    found = []
    for number in range(1, 25):
        operands = [x, *memory.buffers(), float(number)]
        bundle.launch(operands)
        copy = runtime.allocate(256)
        runtime.copy(operands[9], copy)
        found.append(copy)
        del operands
        if number in (3, 4, 13):
            runtime.flush()

    assert [runtime.read(y, float32, (64,))[0] for y in found] == [*range(1, 25)]
