"""That the process lives on: garbage in cycles, thousands of objects, odd orders of the end.

wgpu-native aborts where it is given what was released.  So each test is a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("wgpu")

Program = Callable[[str], str]


def test_memory_in_a_cycle_with_an_exception_comes_back_alive(program: Program) -> None:
    """The collector finalizes all of a cycle at once, a buffer of wgpu-py with its lease."""
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel = runtime.compile(scale())

        def fail(number):
            x, y = runtime.upload(ones), runtime.allocate(256)
            runtime.launch(kernel, [x, y, 64, float(number)], [1])
            error = RuntimeError("its traceback holds this frame, which holds it")
            raise error

        for number in range(10):
            try:
                fail(number)
            except RuntimeError:
                pass
            if number % 2:
                runtime.flush()
            gc.collect()
            x, y = runtime.upload(ones), runtime.allocate(256)
            runtime.launch(kernel, [x, y, 64, 2.0], [1])
            print(runtime.read(y, float32, (64,))[0], runtime.memory_report().live)
    """)

    assert printed.splitlines() == ["2.0 512"] * 10
