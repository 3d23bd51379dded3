"""What the machine and the process of a run do, where both are here."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass

from pyrite.train import RunStarted
from pyrite.train.view.watch.machine import MachineWatch, Usage
from pyrite.train.view.watch.run import RunState
from pyrite.train.view.watch.text import facts


@dataclass(frozen=True)
class GPU:
    """What a GPU says of itself."""

    load: float
    memory_used: int
    memory_total: int


def run(pid: int, host: str = platform.node()) -> RunStarted:
    return RunStarted("cpu", 0, 1, 1, None, 0, pid, host)


def test_the_process_of_a_run_lives_until_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        machine = MachineWatch(run(process.pid), time.time())
        assert machine.is_alive
        used = machine.use()
        assert used.process_memory
        assert used.memory_total > used.memory > 0
        process.kill()
        process.wait()
        assert machine.is_alive is False
        assert machine.use().process_memory is None


def test_another_machines_process_is_not_looked_for() -> None:
    for there in (run(os.getpid(), "elsewhere"), run(0), None):
        machine = MachineWatch(there, time.time())
        assert machine.is_alive is None
        assert machine.use().process_busy is None


def test_gpus_are_read_where_there_are_some() -> None:
    gpu = GPU(0.5, 3 << 30, 80 << 30)
    assert MachineWatch(None, 0.0, [lambda: gpu, lambda: gpu]).use().gpus == (gpu, gpu)
    lines = [
        line.plain for line in facts(RunState(), MachineWatch(None, 0.0, [lambda: gpu]).use(), 200)
    ]
    assert "GPU 0 50%, 3.0 GiB of 80.0 GiB" in lines[0]
    lost = GPU(float("nan"), 0, 0)
    assert "GPU 0 –" in facts(RunState(), Usage(1, 0.0, 0, 1, gpus=(lost,)), 200)[0].plain


def test_a_process_that_was_born_after_the_run_is_another_one() -> None:
    assert MachineWatch(run(os.getpid()), 1e9).is_alive is False
    assert MachineWatch(run(10**12), time.time()).is_alive is False
