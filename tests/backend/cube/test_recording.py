"""What is recorded of an op, and replayed: right for every value, and holding no memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.recording_key import key_of
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.op import OPS, custom_op
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples
from pyrite.types import float32, int32

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


def backend_of(device: Device) -> CubeBackend:
    assert isinstance(device.backend, CubeBackend)
    return device.backend


# ---- values ----


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(100)
def test_a_second_call_computes_with_its_own_values(cpu: Device, example: Example) -> None:
    first = example.arrays(float32)
    others = [other_values(a) for a in first]
    for arrays in (first, others, first):
        got, want = (called(example, arrays, device) for device in (cpu, None))
        for x, y in zip(got, want, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def other_values(a: Any) -> Any:
    """The same types, in another order: they stay in the domain of the op."""
    return np.roll(a[::-1], 1).copy() if isinstance(a, np.ndarray) and a.ndim else a


def called(example: Example, arrays: list[Any], device: Device | None) -> list[Any]:
    given = [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]
    return [t.numpy() for t in example.call(given, device)]


def test_one_tensor_twice_and_two_tensors_are_one_recording_and_right(fresh: Device) -> None:
    x, y = (tensor(np.array(v, np.float32), device=fresh) for v in ([1, 2], [3, 4]))

    assert (x * x).tolist() == [1.0, 4.0]
    recorded = backend_of(fresh).recordings
    assert (x * y).tolist() == [3.0, 8.0]
    assert (y * x).tolist() == [3.0, 8.0]
    assert backend_of(fresh).recordings == recorded


def test_a_thousand_learning_rates_are_one_recording(fresh: Device) -> None:
    x = tensor(np.array([1.0, 2.0], np.float32), device=fresh)
    x * 0.5
    backend = backend_of(fresh)
    recorded = backend.recordings

    found = [(x * (n / 8)).tolist() for n in range(50)]

    assert found == [[n / 8, n / 4] for n in range(50)]
    assert backend.recordings == recorded


def test_numbers_and_attributes_that_are_equal_but_not_the_same_differ(cpu: Device) -> None:
    x = tensor(np.array([2.0], np.float32), device=cpu)._handle
    op = OPS["clip"]

    def key(value: object) -> Any:
        return key_of(op, [x], {"bound": value})

    assert len({key(v) for v in (1, 1.0, True, "1", 0.0, -0.0, (1,), (1.0,))}) == 8
    assert key((1, (2.0, None))) == key((1, (2.0, None)))
    assert key(float("nan")) == key(float("nan"))
    assert key([1]) != key((1,))
    assert key(Lock()) is None


def test_views_at_other_places_are_read_at_theirs(fresh: Device) -> None:
    x = tensor(np.arange(40, dtype=np.float32).reshape(8, 5), device=fresh)

    for i in range(8):
        assert (x[i] + 1).tolist() == [5.0 * i + j + 1 for j in range(5)]


def test_an_op_of_many_launches_is_replayed_in_order(cpu: Device) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal((3, 5000)).astype(np.float32)

        assert np.array_equal(tensor(x, device=cpu).sort(axis=1).numpy(), np.sort(x, axis=1))


# ---- memory ----


def test_a_recording_holds_no_memory() -> None:
    device = Device(CubeBackend(CpuRuntime(threads=1)))
    runtime = backend_of(device).runtime

    def work() -> None:
        x = tensor(np.ones((64, 64), np.float32), device=device)
        for _ in range(2):
            ((x @ x).softmax() + x.sum(0)).numpy()

    work()
    gc.collect()

    assert runtime.memory_report().live == 0
    runtime.close()


def test_scratch_memory_of_a_launch_that_is_past_serves_later_ones() -> None:
    runtime = CpuRuntime(threads=1)
    values = np.random.default_rng(0).integers(0, 2**31 - 1, 1 << 16)
    x = tensor(values.astype(np.int32), device=Device(CubeBackend(runtime)))
    x.argsort().numpy()

    # The input, and the keys and positions of two turns; there are more turns than two.
    assert runtime.memory_report().peak < 5.1 * 4 * x.size
    runtime.close()


# ---- faults and threads ----


def test_a_replayed_kernel_still_names_its_op_and_line(cpu: Device) -> None:
    x = tensor(np.zeros(4, np.float32), device=cpu)
    good, bad = (tensor(np.array([i], np.int32), device=cpu) for i in (1, 9))
    x.take(good, axis=0).numpy()

    with pytest.raises(IndexRangeError, match="take") as raised:
        x.take(bad, axis=0).numpy()

    assert __file__ in str(raised.value.location)
    assert x.take(good, axis=0).tolist() == [0.0]


def test_eight_threads_record_and_replay_the_same_ops() -> None:
    device = Device(CubeBackend(CpuRuntime(threads=2)))

    def work(n: int) -> bool:
        x = tensor(np.full((9, 9), n, np.float32), device=device)
        results = [((x * n + 1) @ x).sum(1) for _ in range(20)]
        return all(r.tolist() == [81.0 * (n * n + 1) * n] * 9 for r in results)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    backend_of(device).runtime.close()


@pytest.mark.parametrize("op", ["argwhere"])
def test_what_depends_on_values_is_not_recorded(fresh: Device, op: str) -> None:
    call: Callable[[Any], Any] = getattr(type(tensor([1])), op)
    x = tensor(np.array([0, 1, 1], np.int32), device=fresh)
    y = tensor(np.array([0, 0, 1], np.int32), device=fresh)

    assert OPS[op].sync
    assert [call(v).shape for v in (x, y)] == [(2, 1), (1, 1)]
    assert call(x).dtype is int32


def test_two_ops_of_one_name_are_two_ops(fresh: Device) -> None:
    def times(n: int) -> Callable[[Any], Any]:
        @custom_op(scalar=lambda k, x: x * n)
        def scaled(self: Any, /) -> Any:
            """Self times n."""

        return scaled

    x = tensor(np.ones(3, np.float32), device=fresh)

    assert [times(n)(x).tolist() for n in (2, 3)] == [[2.0] * 3, [3.0] * 3]
