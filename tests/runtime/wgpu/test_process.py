"""The end and the forks of the process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("wgpu")

Program = Callable[[str], str]


def test_a_process_may_end_with_work_under_way(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel, x = runtime.compile(scale()), runtime.upload(np.ones(1 << 20, np.float32))
        for _ in range(200):
            runtime.launch(kernel, [x, x, 1 << 20, 1.0], [1 << 14])
        runtime.flush()
        print("end")
    """)

    assert printed == "end\n"


def test_a_forked_child_is_told_the_way_out(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        x = runtime.upload(ones)
        runtime.synchronize()
        pid = os.fork()
        if pid == 0:
            try:
                runtime.read(x, float32, (64,))
            except DeviceError as error:
                print(error, flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print(runtime.read(x, float32, (64,))[0])
    """)

    first, second = printed.splitlines()
    assert "this process is a fork of the one that opened it; start processes with" in first
    assert second == "1.0"
