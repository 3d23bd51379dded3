"""Calls on `wgpu` that machine code makes are those that Python makes."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("wgpu")

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.native_call import NativeReplay
from pyrite.backend.cube.native_wgpu_call import execute_of
from pyrite.backend.cube.wgpu import Wgpu
from pyrite.backend.device import Device
from pyrite.backend.explanation import listeners
from pyrite.config import config
from pyrite.errors import DeviceError, IndexRangeError
from pyrite.runtime.bundle import parts_one_by_one
from pyrite.runtime.wgpu import memory
from pyrite.runtime.wgpu.pace import SUBMIT_AFTER
from pyrite.types import Array

pytestmark = pytest.mark.skipif(config.guard is not None, reason="memory is guarded")


class Counted:
    """A backend on `wgpu` that counts the calls that Python makes."""

    def __init__(self) -> None:
        try:
            self.backend = Wgpu()
        except DeviceError:
            pytest.skip("no WebGPU adapter: install mesa-vulkan-drivers")
        self.runtime: Any = self.backend.runtime
        self.device = Device(self.backend)
        self.slow = 0
        native = execute_of(
            self.backend.code.compiler, self.runtime, self.backend._planned, self._slowly
        )
        assert native is not None, "CPython of 64 bits, with its lock"
        self.backend.execute = native  # type: ignore[method-assign]

    def _slowly(self, *args: Any) -> Any:
        self.slow += 1
        return CubeBackend.execute(self.backend, *args)

    def tensor(self, value: Any) -> Tensor:
        return pyrite.tensor(value, device=self.device)


@pytest.fixture(scope="module")
def shared() -> Iterator[Counted]:
    found = Counted()
    yield found
    found.runtime.close()


@pytest.fixture
def counted(shared: Counted, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """The one of the module, as if no application of another test had memory in hand."""
    monkeypatch.setattr(memory.Storage, "is_any_lent", False)
    kept = [*memory.lends]
    memory.lends.clear()
    yield shared
    memory.lends[:] = kept


@pytest.fixture
def fresh() -> Iterator[Counted]:
    found = Counted()
    yield found
    found.runtime.close()


X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)

CALLS: dict[str, Callable[[Any], Any]] = {
    "two tensors": lambda x: x + x,
    "one": lambda x: x.exp(),
    "a float": lambda x: x * 0.1,
    "a whole number": lambda x: x - 3,
    "a negative number": lambda x: x * -0.0,
    "a view": lambda x: x.mT,
    "an offset": lambda x: x[2:, 1:],
    "strides": lambda x: x[::2, ::-1] + x[1::2],
    "a broadcast one": lambda x: x + x[:1],
    "a fold": lambda x: x.sum(0),
    "a product": lambda x: x @ x.mT,
    "rows": lambda x: x.softmax(-1),
    "no elements": lambda x: x[:0] + 1.0,
    "no axes": lambda x: x[0, 0] + x[1, 1],
    "three tensors": lambda x: x.greater(0)._where(x, x[:, ::-1]),
}


def values(x: Tensor) -> Array:
    return x.astype(pyrite.float32).numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bfloat16", "int8", "uint32"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_python(name: str, dtype: str, counted: Counted) -> None:
    call = CALLS[name]
    if "int" in dtype and name in ("one", "a float", "a negative number", "rows"):
        pytest.skip("of floats")
    x = counted.tensor(np.abs(X) * 3 + 3).astype(getattr(pyrite, dtype))
    first = call(x)

    again = [call(x) for _ in range(6)]

    for found in again:
        assert (found.dtype, found.shape) == (first.dtype, first.shape)
        assert found.primitive().strides == first.primitive().strides
        assert found.primitive().offset == first.primitive().offset
        np.testing.assert_array_equal(values(found), values(first))


@pytest.mark.parametrize(
    "name", ["two tensors", "one", "a float", "a view", "a fold", "rows", "no axes", "a product"]
)
def test_python_makes_no_call_whose_buffers_it_has_bound(name: str, counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(10):
        CALLS[name](x)
    counted.runtime.synchronize()
    before = counted.slow

    for _ in range(100):
        CALLS[name](x)

    assert counted.slow == before


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("float32", [1.5, -2, 0.1, 2**24 - 1, 2**24 + 1, 1e38, 1e39, math.inf, -math.inf]),
        ("int32", [1, -1, 2**31 - 1, -(2**31)]),
        ("int8", [1, -1, 127, -128]),
        ("uint32", [1, 2**31, 2**32 - 1]),
        ("float16", [1.5, 0.1, 6e4]),
        ("bfloat16", [1.5, 0.1, 3e38]),
    ],
)
def test_numbers_are_rounded_as_by_python(
    dtype: str, numbers: list[float], counted: Counted
) -> None:
    x = counted.tensor([0, 1]).astype(getattr(pyrite, dtype))
    for _ in range(3):
        x.maximum(1)
        x.maximum(1.0) if "float" in dtype else None

    with np.errstate(over="ignore"):
        for number in numbers:
            kind = x.numpy().dtype.type
            want = np.maximum(x.numpy(), kind(number))
            assert x.maximum(number).numpy().tolist() == want.tolist()


def test_each_launch_that_waits_has_its_own_numbers(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x * 0.5

    found = [x * float(n) for n in range(SUBMIT_AFTER // 2)]

    for n, one in enumerate(found):
        np.testing.assert_array_equal(one.numpy(), X * np.float32(n))


def test_memory_that_nobody_holds_is_used_again_and_no_other(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x * 2.0
    kept = [x * float(n) for n in range(50)]
    live, reserved = (getattr(counted.runtime.memory_report(), n) for n in ("live", "reserved"))

    for n in range(500):
        x * float(n)

    report = counted.runtime.memory_report()
    assert report.live <= live + 1024
    assert report.reserved <= reserved + 1024
    assert sum(one.nbytes for one in counted.runtime.held()) <= report.live
    for n, found in enumerate(kept):
        np.testing.assert_array_equal(found.numpy(), X * np.float32(n))
    del kept, found
    assert counted.runtime.memory_report().live < live


def test_what_was_trimmed_is_bound_anew(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(5):
        y = x + x
    del y
    counted.runtime.trim()

    found = [x + x for _ in range(5)]

    for one in found:
        np.testing.assert_array_equal(one.numpy(), X + X)


def test_objects_are_held_as_often_as_before(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(5):
        x * 2.0
        x.reshape((30,))
    counted.runtime.synchronize()
    storage = x._handle.buffer.storage
    things = [
        None, True, False, x._handle.buffer, x._handle.buffer.contents, x._handle.strides, x._type,
        listeners, storage, storage.serial, counted.runtime._queue, *counted.runtime.pool.totals,
    ]  # fmt: skip
    before = [sys.getrefcount(thing) for thing in things]

    for _ in range(1000):
        x * 2.0
        x.reshape((30,))
    counted.runtime.synchronize()

    after = [sys.getrefcount(thing) for thing in things]
    assert all(abs(b - a) < 100 for a, b in zip(before, after, strict=True)), (before, after)


def test_a_doubt_goes_on_to_what_comes_of_it(counted: Counted) -> None:
    x, good, bad = counted.tensor(X), counted.tensor([1, 2]), counted.tensor([1, 9])
    for _ in range(3):
        (x.take(good, axis=0) + 1.0) * 2.0

    with pytest.raises(IndexRangeError, match="outside"):
        ((x.take(bad, axis=0) + 1.0) * 2.0).numpy()
    assert ((x.take(good, axis=0) + 1.0) * 2.0).shape == (2, 5)


def test_who_listens_is_told(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x + x

    with pyrite.explain() as found:
        x + x

    assert "add" in str(found)


def test_launches_are_counted_and_submitted(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(10):
        x + x
    counted.runtime.synchronize()
    before = counted.runtime.report()

    for _ in range(2000):
        y = x + x

    after = counted.runtime.report()
    assert after["launches"] == before["launches"] + 2000
    assert after["bind_group_hits"] == before["bind_group_hits"] + 2000
    assert after["submissions"] > before["submissions"]
    np.testing.assert_array_equal(y.numpy(), X + X)


def test_what_is_computed_of_memory_that_is_gone_is_an_error(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(5):
        x + x
    x._handle.buffer.contents.gone = DeviceError("it was written to")

    with pytest.raises(DeviceError, match="written to"):
        (x + x).numpy()


def test_an_application_may_have_memory_in_hand(fresh: Counted) -> None:
    x = fresh.tensor(X)
    for _ in range(5):
        y = x + x
    y._handle.buffer.storage.lend()
    before = fresh.slow

    z = y + y

    assert fresh.slow == before + 1
    np.testing.assert_array_equal(z.numpy(), 4 * X)


def test_a_runtime_that_is_closed_raises(fresh: Counted) -> None:
    x = fresh.tensor(X)
    for _ in range(5):
        x + x
    fresh.runtime.close()

    with pytest.raises(DeviceError, match="closed"):
        x + x


def test_a_device_that_was_destroyed_raises(fresh: Counted) -> None:
    x = fresh.tensor(X)
    for _ in range(5):
        x + x
    fresh.runtime.synchronize()
    fresh.runtime.device.gpu.destroy()

    with pytest.raises(DeviceError, match="destroyed"):
        x + x


def test_a_lock_that_another_thread_has_is_waited_for(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(5):
        x + x
    counted.runtime.synchronize()
    is_taken, found = threading.Event(), list[Any]()

    def work() -> None:
        is_taken.wait()
        found.append((x + x).numpy())

    thread = threading.Thread(target=work)
    thread.start()
    with counted.runtime._life.lock:
        is_taken.set()
        thread.join(0.05)
        assert not found
    thread.join()

    np.testing.assert_array_equal(found[0], X + X)


def test_threads_may_call_at_once(counted: Counted) -> None:
    wrong = list[int]()

    def work(k: int) -> None:
        x = counted.tensor(X)
        total = x * 0.0
        for n in range(200):
            total = total + x * float(n % 7)
        if not np.allclose(total.numpy(), X * sum(n % 7 for n in range(200)), rtol=1e-4):
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


def test_a_view_and_a_launch_of_one_result_have_a_state(fresh: Counted) -> None:
    x = fresh.tensor(X)
    for _ in range(2):
        x.reshape((30,))
        x + x

    replays = fresh.backend._planned.young.values()

    assert {type(r) for r in replays} == {NativeReplay}
    assert all(r.state for r in replays)


SIZES = [1000] * 6 + [5000] * 4


def test_results_of_programs_come_back_to_their_storages(counted: Counted) -> None:
    assert counted.runtime.pool.allocate_again != counted.runtime.pool.allocate_again_by_python
    bundle_memory = counted.runtime.bundle_memory(SIZES, [0, 1])
    live = counted.runtime.memory_report().live
    found = []
    for _ in range(4):  # those of a run are held during the next: two sets take turns
        buffers = bundle_memory.buffers()
        assert len({b.key[0] for b in buffers}) == len(buffers)
        assert [b.nbytes for b in buffers] == SIZES
        assert all(b.lease.contents is b.contents for b in buffers)
        found.append([b.key for b in buffers])
    kept = bundle_memory.buffers()
    others = bundle_memory.buffers()

    assert found[2:] == found[:2]
    assert not {b.key[0] for b in kept[2:]} & {b.key[0] for b in others[2:]}
    assert [b.key for b in kept[:2]] == [b.key for b in others[:2]]
    del kept, others, buffers
    inner = sum(map(counted.runtime.capacity, SIZES[:2]))
    assert counted.runtime.memory_report().live <= live + inner


def test_results_of_programs_are_new_where_their_storages_were_trimmed(counted: Counted) -> None:
    bundle_memory = counted.runtime.bundle_memory(SIZES, [0])
    for _ in range(2):
        before = {b.key[0] for b in bundle_memory.buffers()}
    counted.runtime.trim()

    after = {b.key[0] for b in bundle_memory.buffers()}

    assert len(after) == len(SIZES)
    assert not before & after


def test_parts_of_buffers_are_their_views(counted: Counted) -> None:
    bundle_memory = counted.runtime.bundle_memory(SIZES, [])
    which, offsets, nbytes = (9, 0, 9, 3), (256, 0, 1024, 512), (512, 1000, 100, 10)
    for _ in range(3):
        buffers = bundle_memory.buffers()
        kept = bundle_memory.buffers()  # the next run finds others
        for bases in (buffers, kept):
            parts = bundle_memory.parts(bases, which, offsets, nbytes)
            views = parts_one_by_one(bases, which, offsets, nbytes)
            for part, view in zip(parts, views, strict=True):
                fields = ("key", "offset", "nbytes", "contents", "lease")
                assert all(getattr(part, n) == getattr(view, n) for n in fields)
