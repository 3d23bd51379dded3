from __future__ import annotations

import numpy as np
import pytest

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.runtime.protocol import Runtime
from pyrite.types import float32, int32


def doubling() -> Kernel:
    b = KernelBuilder("double", workgroup_size=4)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    with b.if_(b.global_id() < n):
        y[b.global_id()] = x[b.global_id()] * 2.0
    return b.build()


def test_it_is_a_runtime() -> None:
    runtime: Runtime = InterpreterRuntime()  # mypy judges

    assert runtime.name == "interpreter"


def test_a_kernel_runs_on_uploaded_memory() -> None:
    runtime = InterpreterRuntime()
    x = runtime.upload(np.arange(6, dtype=np.float32))
    y = runtime.allocate(24)

    runtime.launch(runtime.compile(doubling()), [x, y, 6], (2,))

    assert runtime.read(y, float32, (2, 3)).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert runtime.report() == {"kernels": 1, "launches": 1, "read_backs": 1}


def test_an_equal_kernel_is_compiled_once() -> None:
    runtime = InterpreterRuntime()

    assert runtime.compile(doubling()) is runtime.compile(doubling())


def test_an_illegal_kernel_is_refused_when_it_is_compiled() -> None:
    b = KernelBuilder("reads_what_it_may_not")
    y = b.buffer("y", float32, "write")
    y[0] = y[0]

    with pytest.raises(KernelError, match="load needs access"):
        InterpreterRuntime().compile(b.build())


def test_an_upload_is_a_copy_in_row_major_order() -> None:
    runtime = InterpreterRuntime()
    array = np.arange(6, dtype=np.int32).reshape(2, 3).T
    buffer = runtime.upload(array)
    array[:] = 0

    assert runtime.read(buffer, int32, (6,)).tolist() == [0, 3, 1, 4, 2, 5]


def test_a_view_is_the_same_memory() -> None:
    runtime = InterpreterRuntime()
    whole = runtime.upload(np.arange(4, dtype=np.int32))
    runtime.copy(whole, whole.view(8, 8))

    assert runtime.read(whole, int32, (4,)).tolist() == [0, 1, 0, 1]


def test_fresh_memory_holds_no_convenient_zeros() -> None:
    runtime = InterpreterRuntime()

    assert runtime.read(runtime.allocate(4), int32, ()) != 0


def test_live_memory_is_what_somebody_holds() -> None:
    runtime = InterpreterRuntime()
    buffer = runtime.allocate(100)
    assert runtime.memory_report().live == 100
    del buffer

    assert (runtime.memory_report().live, runtime.memory_report().peak) == (0, 100)


def test_nothing_runs_after_close() -> None:
    runtime = InterpreterRuntime()
    runtime.close()

    with pytest.raises(DeviceError, match="requires a runtime that is open"):
        runtime.allocate(4)
