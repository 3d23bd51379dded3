"""Ctrl-C at any moment: the program ends or goes on, and no tensor has a wrong value."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyrite.backend.device import device_problem
from pyrite.runtime.interruption import Uninterrupted

#: A program of its own, because what is torn may end the process.  It sends itself Ctrl-C at the
#: first place in the runtime where Python treats signals, then at the second, and so on.
PROGRAM = """
import dis, faulthandler, signal, sys
import numpy as np
import pyrite

faulthandler.dump_traceback_later(1200, exit=True)
device, files = sys.argv[1], tuple(sys.argv[2:])
pyrite.set_default_device(device)
a = np.arange(30, dtype=np.float32).reshape(5, 6)

class CtrlC:
    # Python treats signals after calls, and where functions and rounds of loops begin; not in
    # CALL_INTRINSIC_1, by which CPython 3.14, when traced, closes a generator that all() has left.
    POINTS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"}

    def __init__(self, at):
        self.left = at
        self.last = ""

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self.instruction

    def instruction(self, frame, event, arg):
        if event == "opcode":
            last, self.last = self.last, dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self.left -= last in self.POINTS
            if self.left == 0:
                self.left = -1
                signal.raise_signal(signal.SIGINT)
        return self.instruction

def work(kept):
    x = pyrite.tensor(a)
    y = x * 2.0 + 1.0
    kept += [(x, a), (y, a * 2 + 1)]
    y.sum(axis=0).numpy()
    kept.append((y - 3.0, a * 2 - 2))
    pyrite.device().synchronize()

work([])
at = raised = 0
while True:
    at += 1
    kept = [(pyrite.tensor(a) + float(i), a + i) for i in range(3)]
    ctrl_c = CtrlC(at)
    # CPython 3.12 traces opcodes only where a frame has asked for them before settrace (gh-103615).
    sys._getframe().f_trace_opcodes = True
    sys.settrace(ctrl_c)
    try:
        work(kept)
    except KeyboardInterrupt:
        raised += 1
    finally:
        sys.settrace(None)
    if ctrl_c.left > 0:
        break
    kept += [(pyrite.tensor(a) * float(i), a * i) for i in range(3)]
    for tensor, expected in kept:
        assert np.array_equal(tensor.numpy(), expected), f"after place {at}"
    assert raised == at, f"Ctrl-C at place {at} was lost"
print(raised, "times")
"""

#: Where launches are noted and handed over.
FILES = {
    "cpu": ("cpu/stream.py", "cpu/executor.py", "cpu/runtime.py", "cpu/memory.py"),
    "wgpu": tuple(
        f"wgpu/{name}.py"
        for name in (
            "runtime",
            "queue",
            "validation",
            "submission",
            "staging",
            "poller",
            "memory",
            "native",
        )
    ),
}


@pytest.mark.parametrize("device", FILES)
def test_ctrl_c_anywhere_in_a_runtime_loses_no_value(device: str) -> None:
    problem = device_problem(device)
    if problem is not None:
        pytest.skip(f"device does not work here: {problem}")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, device, *FILES[device]], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 50
    assert "KeyboardInterrupt" not in done.stderr


@pytest.fixture
def noted() -> Iterator[list[int]]:
    """The signals that a handler of the program has treated."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end_of_the_block(noted: list[int]) -> None:
    handler: Any = signal.getsignal(signal.SIGINT)

    with Uninterrupted():
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert noted == []

    assert noted == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_block_that_fails_gives_the_handler_back(noted: list[int]) -> None:
    handler: Any = signal.getsignal(signal.SIGINT)

    with pytest.raises(ZeroDivisionError), Uninterrupted():
        _ = 1 / 0

    assert signal.getsignal(signal.SIGINT) is handler


def test_a_signal_that_nobody_treats_in_python_stays_as_it_is(noted: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)

    assert noted == []


def test_other_threads_leave_signals_alone(noted: list[int]) -> None:
    handler: Any = signal.getsignal(signal.SIGINT)
    found: list[Any] = []

    def look() -> None:
        with Uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert found == [handler]
