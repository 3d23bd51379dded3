"""Bundles whose operands are looked up together give what launches one by one do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.device import Device
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.cpu import bundle as bundles
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.types import int32


def step(device: pyrite.Device, dtype: Any) -> list[list[float]]:
    """Return what a compiled function of many tensors and a number gives at some calls."""
    tensors = [pyrite.tensor(np.full(3, n), dtype=dtype, device=device) for n in range(40)]
    other = [pyrite.tensor(np.full((3, 2), n), dtype=dtype, device=device)[:, 0] for n in range(40)]
    made = []

    @pyrite.compile
    def scaled(tensors: Any, factor: float) -> Any:
        return [(t * factor + o).sum() for t, o in zip(tensors, other, strict=True)]

    for _ in range(6):
        made.append([float(x.item()) for x in scaled(tensors, 3.0)])
    assert scaled.replays > 0
    return made


@pytest.mark.parametrize("dtype", [pyrite.float32, pyrite.float64, pyrite.bfloat16, pyrite.float16])
@pytest.mark.parametrize("many", [1, 10**6])
def test_many_addresses_are_looked_up_as_each_by_itself(
    dtype: Any, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MANY", many)
    device = pyrite.fusion("cpu", check="off")
    want = [float(pyrite.tensor(n * 4 * 3.0).item()) for n in range(40)]
    for found in step(device, dtype):
        assert found == pytest.approx(want, rel=1e-2)


def kernel_of_steps() -> Kernel:
    """y[i] = y[i] * factor + x[step], for one workgroup of four."""
    b = KernelBuilder("step", workgroup_size=4)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "read_write")
    step, factor = b.scalar("step", int32), b.scalar("factor", int32)
    i = b.global_id()
    y[i] = y[i] * factor + x[step]
    return b.build()


@pytest.mark.parametrize("count", [1, 2, 70])
def test_steps_have_the_commands_that_each_has_by_itself(count: int) -> None:
    """Those of steps are copied from the one before, and their numbers filled in."""
    runtime = CpuRuntime(threads=1)
    kernel = runtime.compile(kernel_of_steps())
    values = np.arange(count + 1, dtype=np.int32)
    found = []
    for stepped in ((), (2,)):
        steps = [
            BundledLaunch(kernel, (0, 1, Fixed(n), 2), (1,), stepped if n else ())
            for n in range(count)
        ]
        # One of another kind between those that repeat each other.
        other = BundledLaunch(kernel, (0, 1, Fixed(count), Fixed(2)), (1,))
        bundle = runtime.bundle([*steps, other, *steps])
        x, y = runtime.upload(values), runtime.upload(np.ones(4, np.int32))
        for _ in range(3):
            bundle.launch([x, y, 3])
        assert bundle.is_settled
        made = bundle.commands
        found.append((made.given, made.nanoseconds, runtime.read(y, int32, (4,)).tolist()))
    assert found[0] == found[1]
    want = 1
    for _ in range(3):
        for n in [*range(count), None, *range(count)]:
            want = (want * 2 + count if n is None else want * 3 + n) & 0xFFFFFFFF
    assert found[0][2] == [int(np.uint32(want).view(np.int32))] * 4


def test_a_layers_steps_are_steps_of_its_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recording] = []
    recording = RecordingLauncher.recording

    def note(*given: Any) -> Recording:
        made.append(recording(*given))
        return made[-1]

    monkeypatch.setattr(RecordingLauncher, "recording", note)
    device = Device(CubeBackend(CpuRuntime(threads=1)))
    layer = nn.RNN(5, 7).to(device)
    for count in (4, 6, 11):
        layer(pyrite.ones((3, count, 5), device=device))
        (steps,) = [of.steps for of in made if of.name == "rnn"]
        assert sum(map(bool, [step.stepped for step in steps])) == count - 1
        made.clear()
