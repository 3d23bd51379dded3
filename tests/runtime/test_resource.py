"""The memory under a buffer on the host; `tests/runtime/wgpu` has that of a GPU."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.errors import DeviceError
from pyrite.runtime.interpreter import InterpreterRuntime


@pytest.fixture(params=["interpreter", "cpu"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "interpreter":
        yield InterpreterRuntime()
        return
    pytest.importorskip("llvmlite")
    from pyrite.runtime.cpu.runtime import CpuRuntime

    runtime = CpuRuntime(threads=1)
    yield runtime
    runtime.close()


def test_a_resource_is_the_memory_itself_to_read(runtime: Any) -> None:
    x, y = runtime.upload(np.arange(64, dtype=np.float32)), runtime.allocate(256)
    runtime.copy(x, y)

    resource = runtime.get_resource(y).resource()

    assert (resource.offset, resource.size) == (0, 256)
    values = np.frombuffer(resource.buffer(), np.float32)
    assert values.tolist() == list(range(64))
    assert not values.flags.writeable


def test_a_part_has_its_own_bytes(runtime: Any) -> None:
    x = runtime.upload(np.arange(64, dtype=np.float32))

    resource = runtime.get_resource(x.view(64, 8)).resource()

    assert np.frombuffer(resource.buffer(), np.float32).tolist() == [16.0, 17.0]


def test_whoever_holds_the_bytes_holds_the_memory(runtime: Any) -> None:
    x = runtime.upload(np.full(64, 7, np.float32))
    values = np.frombuffer(runtime.get_resource(x).resource().buffer(), np.float32)
    del x
    gc.collect()

    for _ in range(3):
        runtime.upload(np.zeros(64, np.float32))

    assert values.tolist() == [7.0] * 64


def test_memory_that_the_application_let_go_of_is_used_again(runtime: Any) -> None:
    x = runtime.upload(np.full(64, 7, np.float32))
    held = runtime.get_resource(x).resource().buffer()
    del x, held
    gc.collect()

    assert runtime.memory_report().live == 0


def test_none_of_it_is_the_applications(runtime: Any) -> None:
    with pytest.raises(DeviceError, match=r"invalidate requires memory of the application"):
        runtime.renew(runtime.allocate(4))
