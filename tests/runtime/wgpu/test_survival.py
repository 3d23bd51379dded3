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


def test_what_was_being_uploaded_and_read_may_be_left_by_an_exception(program: Program) -> None:
    """A command that waits for its submission holds the staging buffer that it names."""
    printed = program("""
        from unittest import mock
        runtime = WgpuRuntime(open_device())
        x = runtime.upload(ones)
        with mock.patch.object(WgpuRuntime, "flush", side_effect=KeyboardInterrupt):
            try:
                runtime.read(x, float32, (64,))
            except KeyboardInterrupt:
                pass
        gc.collect()
        print(runtime.read(x, float32, (64,))[0])
    """)

    assert printed == "1.0\n"


def test_thousands_of_bind_groups_buffers_and_pipelines_are_made(program: Program) -> None:
    printed = program("""
        def add(number):
            b = KernelBuilder(f"add{number}", workgroup_size=64)
            x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
            i = b.global_id()
            y[i] = x[i] + float(number)
            return b.build()

        runtime = WgpuRuntime(open_device())
        x, y = runtime.upload(np.ones(1 << 20, np.float32)), runtime.allocate(4 << 20)
        kernel = runtime.compile(add(0))
        for i in range(6_000):
            parts = [b.view(256 * (i * step % 16_000), 256) for b, step in ((x, 1), (y, 7))]
            runtime.launch(kernel, parts, [1])
        held = []
        for i in range(6_000):
            held.append(runtime.allocate(256))
            runtime.launch(kernel, [x, held[-1]], [1])
        for i in range(500):
            runtime.launch(runtime.compile(add(i)), [x, y], [1])
        got = runtime.read_all([(b, float32, (64,)) for b in (held[0], held[-1], y.view(0, 256))])
        print(*(values[0] for values in got), runtime.report()["bind_groups"])
        del held, parts
        runtime.trim()
        print(runtime.report()["bind_groups"] < 4096, runtime.memory_report().live)
    """)

    assert printed.splitlines() == ["1.0 1.0 500.0 4096", f"True {8 << 20}"]


def test_devices_in_cycles_end_in_any_order(program: Program) -> None:
    printed = program("""
        class Holder:
            pass

        gc.set_threshold(50)
        survivor = WgpuRuntime(open_device())
        for i in range(24):
            holder = Holder()
            holder.itself = holder
            holder.runtime = runtime = WgpuRuntime(open_device())
            holder.kernel, holder.x = runtime.compile(scale()), runtime.upload(ones)
            for _ in range(i):
                runtime.launch(holder.kernel, [holder.x, runtime.allocate(256), 64, 2.0], [1])
            if i % 2:
                runtime.flush()
            del holder, runtime
            kernel, x, y = survivor.compile(scale()), survivor.upload(ones), survivor.allocate(256)
            survivor.launch(kernel, [x, y, 64, float(i)], [1])
            assert survivor.read(y, float32, (64,))[0] == i
        print("alive")
    """)

    assert printed == "alive\n"


def test_what_a_device_made_may_outlive_it(program: Program) -> None:
    printed = program("""
        held = []
        for i in range(12):
            runtime = WgpuRuntime(open_device())
            kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
            runtime.launch(kernel, [x, y, 64, 2.0], [1])
            held.append((kernel, x, y, runtime._queue, runtime._groups, runtime._pool))
            if i % 2:
                runtime.close()
            del runtime, kernel, x, y
            gc.collect()
        while held:
            del held[len(held) // 2]
            gc.collect()
        print("alive")
    """)

    assert printed == "alive\n"


def test_values_can_be_read_while_the_process_ends(program: Program) -> None:
    printed = program("""
        import atexit

        # Who is registered first comes last, when the runtime has stopped all other threads.
        atexit.register(lambda: print(runtime.read(y, float32, (64,))[0]))
        runtime = WgpuRuntime(open_device())
        kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        print("end")
    """)

    assert printed == "end\n2.0\n"


@pytest.mark.parametrize("opens", [True, False])
def test_daemon_threads_end_with_the_process(program: Program, opens: bool) -> None:
    """Python ends them where they come back from a callback, inside wgpu-native."""
    printed = program(f"""
        import threading
        shared = WgpuRuntime(open_device())
        rounds = [threading.Event() for _ in range(3)]

        def work(finished):
            while True:
                runtime = WgpuRuntime(open_device()) if {opens} else shared
                kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
                for _ in range(100):
                    runtime.launch(kernel, [x, y, 64, 2.0], [1])
                runtime.read(y, float32, (64,))
                finished.set()

        for finished in rounds:
            threading.Thread(target=work, args=[finished], daemon=True).start()
        for finished in rounds:
            finished.wait()
        print("end")
    """)

    assert printed == "end\n"


def test_a_device_that_is_lost_while_work_is_under_way_is_an_error_of_each_wait(
    program: Program,
) -> None:
    """To look at mapped memory of a lost device would abort the process."""
    printed = program("""
        import asyncio
        from pyrite.runtime.wgpu.native import lib

        def lose(use):
            runtime = WgpuRuntime(open_device())
            kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
            for _ in range(100):
                runtime.launch(kernel, [x, y, 64, 2.0], [1])
            submission = runtime.flush()
            lib.wgpuDeviceDestroy(runtime.device.raw)  # no flag in Python says it
            for _ in range(2):
                try:
                    use(runtime, y, submission)
                except DeviceError as error:
                    print(error)

        lose(lambda runtime, y, submission: runtime.read(y, float32, (64,)))
        lose(lambda runtime, y, submission: runtime.wait(submission))
        lose(lambda runtime, y, submission: runtime.synchronize())
        lose(lambda runtime, y, submission: runtime.upload(np.ones(1 << 22, np.float32)))
        lose(lambda runtime, y, submission: asyncio.run(runtime.synchronize_async()))
        lose(lambda runtime, y, submission: asyncio.run(
            runtime.read_all_async([(y, float32, (64,))])))
    """)

    message = "wgpu requires a device that works, got: it was lost (Parent device is lost)"
    assert printed.splitlines() == [message] * 12


def test_a_device_may_be_lost_while_a_read_is_awaited(program: Program) -> None:
    printed = program("""
        import asyncio
        from pyrite.runtime.wgpu.native import lib

        async def lose(runtime, y):
            reading = asyncio.create_task(runtime.read_all_async([(y, float32, (1 << 20,))]))
            await asyncio.sleep(0)
            is_there = reading.done()
            lib.wgpuDeviceDestroy(runtime.device.raw)
            try:
                (values,) = await reading
                assert is_there and (values == 2.0).all()
            except DeviceError as error:
                assert "it was lost" in str(error)
            print("alive")

        runtime = WgpuRuntime(open_device())
        kernel, x = runtime.compile(scale()), runtime.upload(np.ones(1 << 20, np.float32))
        y = runtime.allocate(4 << 20)
        for _ in range(50):
            runtime.launch(kernel, [x, y, 1 << 20, 2.0], [1 << 14])
        asyncio.run(lose(runtime, y))
    """)

    assert printed == "alive\n"


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.sample(1)
def test_sixty_four_devices_come_and_go(program: Program, closed: bool) -> None:
    printed = program(f"""
        for i in range(64):
            runtime = WgpuRuntime(open_device())
            kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
            runtime.launch(kernel, [x, y, 64, float(i)], [1])
            if i % 2:
                assert runtime.read(y, float32, (64,))[0] == i
            if {closed}:
                runtime.close()
            del runtime, kernel, x, y
            if i % 8 == 0:
                gc.collect()
        print("alive")
    """)

    assert printed == "alive\n"
