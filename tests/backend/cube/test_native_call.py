"""Calls that machine code makes are those that Python makes."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.cpu import Cpu
from pyrite.backend.cube.native_call import NativeReplay, execute_of
from pyrite.backend.device import Device
from pyrite.backend.explanation import listeners
from pyrite.config import config
from pyrite.errors import DeviceError, IndexRangeError
from pyrite.runtime.cpu.runtime import CpuRuntime

pytestmark = pytest.mark.skipif(config.guard is not None, reason="memory is guarded")


class Counted:
    """A backend on `cpu` that counts the calls that Python makes."""

    def __init__(self) -> None:
        self.backend = Cpu()
        self.device = Device(self.backend)
        self.slow = 0
        assert isinstance(self.backend.runtime, CpuRuntime)
        native = execute_of(self.backend.runtime, self.backend._planned, self._slowly)
        assert native is not None, "CPython of 64 bits, with its lock"
        self.backend.execute = native

    def _slowly(self, *args: Any) -> Any:
        self.slow += 1
        return CubeBackend.execute(self.backend, *args)

    def tensor(self, value: Any) -> Tensor:
        return pyrite.tensor(value, device=self.device)


@pytest.fixture
def counted() -> Iterator[Counted]:
    found = Counted()
    yield found
    found.backend.runtime.close()


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


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bfloat16", "int8"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_python(name: str, dtype: str, counted: Counted) -> None:
    call = CALLS[name]
    if dtype.startswith("int") and name in ("one", "a float", "a negative number", "rows"):
        pytest.skip("of floats")
    x = counted.tensor(X * 3).astype(getattr(pyrite, dtype))
    first = call(x)

    again = [call(x) for _ in range(4)]

    for found in again:
        assert (found.dtype, found.shape) == (first.dtype, first.shape)
        assert found.primitive().strides == first.primitive().strides
        assert found.primitive().offset == first.primitive().offset
        assert found.astype(pyrite.float64).tolist() == first.astype(pyrite.float64).tolist()


@pytest.mark.parametrize("name", ["two tensors", "one", "a float", "a view", "a fold", "rows"])
def test_from_the_second_on_python_makes_no_call(name: str, counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(2):
        CALLS[name](x)
        counted.backend.synchronize()  # until its kernel is compiled Python makes the calls
    before = counted.slow

    for _ in range(5):
        CALLS[name](x)

    assert before >= 1
    assert counted.slow == before


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("float32", [1.5, -2, 0.1, 2**24 - 1, 2**24 + 1, 1e38, 1e39, math.inf, -math.inf, 1e-45]),
        ("float64", [1.5, -2, 0.1, 2**53 + 1, 1e308, math.inf, 5e-324]),
        ("int32", [1, -1, 2**31 - 1, -(2**31)]),
        ("int64", [1, -1, 2**63 - 1, -(2**63)]),
        ("int8", [1, -1, 127, -128]),
        ("uint32", [1, 2**31, 2**32 - 1]),
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


def test_a_nan_is_one(counted: Counted) -> None:
    x = counted.tensor([1.0])
    for _ in range(3):
        x * 2.0

    assert math.isnan((x * math.nan).item())


def test_memory_that_nobody_holds_is_used_again_and_no_other(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x + x
    kept = [x * float(n) for n in range(50)]
    live = counted.device.backend.memory().live

    for n in range(500):
        x * float(n)

    assert counted.device.backend.memory().live <= live + 1024
    for n, found in enumerate(kept):
        np.testing.assert_array_equal(found.numpy(), X * np.float32(n))
    del kept, found
    assert counted.device.backend.memory().live < live


def test_objects_are_held_as_often_as_before(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x * 2.0
        x.reshape((30,))
    (product,) = [
        r for r in counted.backend._planned.young.values() if r.state and len(r.state) > 88
    ]
    things = [None, product, product.state, x._handle.buffer, x._handle.strides, x._type, listeners]
    before = [sys.getrefcount(thing) for thing in things]

    for _ in range(1000):
        x * 2.0
        x.reshape((30,))

    after = [sys.getrefcount(thing) for thing in things]
    assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True)), (before, after)


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


def test_a_runtime_that_is_closed_raises(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(3):
        x + x
    counted.backend.runtime.close()

    with pytest.raises(DeviceError, match="closed"):
        x + x


def test_launches_are_handed_over_and_an_error_of_that_is_raised(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = counted.tensor(X)
    runtime = counted.backend.runtime
    for _ in range(3):
        x + x
    runtime.synchronize()
    before = runtime.report()["submissions"]

    for _ in range(2000):
        y = x + x

    assert runtime.report()["submissions"] > before
    np.testing.assert_array_equal(y.numpy(), X + X)


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


def test_a_view_and_a_launch_of_one_result_have_a_state(counted: Counted) -> None:
    x = counted.tensor(X)
    for _ in range(2):
        x.reshape((30,))
        x + x

    replays = counted.backend._planned.young.values()

    assert {type(r) for r in replays} == {NativeReplay}
    assert all(r.state for r in replays)
