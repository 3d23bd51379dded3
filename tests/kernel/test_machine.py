"""Facts of a device: one record, which every runtime reports."""

from __future__ import annotations

from typing import Any

import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import device_problem
from pyrite.kernel.machine import MOST_JOINED, Machine
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.runtime.cpu.guarded import GuardedCpuRuntime
from pyrite.runtime.cpu.host import machine_of
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime


def test_a_grid_of_more_workgroups_than_an_axis_holds_has_two_axes() -> None:
    machine = Machine.gpu(most_workgroups=10)
    assert machine.grid(10) == (10,)
    assert machine.grid(21) == (7, 3)


@pytest.mark.parametrize(
    ("target", "facts"),
    [
        (LLVMTarget("x86_64-unknown-linux-gnu", vector_bytes=64), (16, 32, 1)),
        (LLVMTarget("x86_64-unknown-linux-gnu", vector_bytes=32), (8, 16, 2)),
        (LLVMTarget("aarch64-unknown-linux-gnu", vector_bytes=16), (4, 32, 2)),
    ],
    ids=["avx512", "avx2", "arm"],
)
def test_a_processor_tells_its_registers(target: LLVMTarget, facts: tuple[int, ...]) -> None:
    machine = machine_of(target, 3)
    assert (machine.vector, machine.registers, machine.products) == facts
    assert (machine.kind, machine.threads) == ("cpu", 3)


@pytest.mark.parametrize("runtime", [CpuRuntime, GuardedCpuRuntime], ids=["plain", "guarded"])
def test_the_runtime_of_processors_reports_them(runtime: Any) -> None:
    made = runtime(threads=2) if runtime is CpuRuntime else runtime("after", threads=2)
    try:
        assert made.machine == machine_of(made.target, 2)
        assert CubeBackend(made).launcher.machine is made.machine
    finally:
        made.close()


def test_an_interpreter_is_whatever_it_is_told_and_else_the_least_gpu() -> None:
    assert InterpreterRuntime().machine == Machine.gpu()
    assert InterpreterRuntime(Machine.cpu()).machine.kind == "cpu"


def test_a_gpu_reports_what_it_grants() -> None:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    device = pytest.importorskip("pyrite.runtime.wgpu.adapter").open_device(limits="default")
    rounds = 65_535 if "llvmpipe" in device.name else None
    joined = 1 if device.is_software else MOST_JOINED
    assert device.machine == Machine.gpu(rounds=rounds, most_joined=joined)


def test_hardware_takes_several_small_launches_at_once_and_software_none() -> None:
    adapter = pytest.importorskip("pyrite.runtime.wgpu.adapter")
    limits = adapter.DEFAULT_LIMITS
    software, hardware = (
        adapter.Device(None, "x", is_one, limits, frozenset()) for is_one in (True, False)
    )
    assert (software.machine.most_joined, hardware.machine.most_joined) == (1, MOST_JOINED)
