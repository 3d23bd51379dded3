"""What goes wrong on a GPU, as its user sees it: named, at the line or at the next read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.errors import DeviceError, KernelError
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.launches import BoundLaunch
from pyrite.runtime.wgpu.native_calls import ROW

Program = Callable[[str], str]

MEBIBYTE = 1 << 20


@pytest.fixture
def narrow(device: Any) -> Iterator[Device]:
    """A device with room for 9 MiB."""
    runtime = WgpuRuntime(device, limit=9 * MEBIBYTE)
    yield Device(CubeBackend(runtime))
    runtime.close()


def test_no_room_is_an_error_at_the_line_and_nothing_is_lost(narrow: Device) -> None:
    x = pyrite.ones((MEBIBYTE,), device=narrow)

    with pytest.raises(DeviceError, match=r"room for 4,194,304 bytes, got the limit of 9,437,184"):
        x * 2.0 + x * 3.0

    assert (x[:5] + 1.0).tolist() == [2.0] * 5
    y = x * 2.0  # what was computed before the error was let go
    assert y.sum().item() == 2.0 * MEBIBYTE


def spoil(device: Device) -> None:
    """Make the command that was asked for last one that the device refuses."""
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    command = runtime._queue.pending.commands[-1]
    assert isinstance(command, BoundLaunch)
    row = np.frombuffer(command.row[: ROW.itemsize], ROW).copy()
    row["grid"] = (100_000, 1, 1)
    command.row = row.tobytes() + command.row[ROW.itemsize :]


@pytest.mark.parametrize(
    "read",
    [
        lambda bad, good: bad.numpy(),
        lambda bad, good: asyncio.run(bad.to_numpy_async()),
        lambda bad, good: pyrite.read(good, bad),
        lambda bad, good: bad.sum().item(),
    ],
)
def test_a_command_that_fails_names_its_op_at_the_next_read(narrow: Device, read: Any) -> None:
    x = pyrite.tensor([1.0, 2.0], device=narrow)
    bad = x.exp()
    spoil(narrow)
    outcome = bad * 2.0 + 1.0
    good = x + 5.0

    for spoiled in (outcome, bad):
        with pytest.raises(KernelError, match="exp requires a legal command"):
            read(spoiled, good)
    assert good.tolist() == [6.0, 7.0]


def test_tensors_of_a_lost_device_say_so(program: Program) -> None:
    printed = program("""
        import pyrite
        from pyrite.backend.cube import CubeBackend
        from pyrite.backend.device import Device
        from pyrite.runtime.wgpu.native import lib

        device = Device(CubeBackend(WgpuRuntime(open_device())))
        x = pyrite.ones((4,), device=device)
        y = x.exp()
        lib.wgpuDeviceDestroy(device.backend.root.runtime.device.raw)
        for use in (y.numpy, y.tolist, lambda: (x + 1.0).sum().item(),
                    device.synchronize, lambda: pyrite.read(x, y)):
            try:
                use()
            except DeviceError as error:
                print(error)
        print(pyrite.ones((2,), device="numpy").tolist())
    """)

    message = "wgpu requires a device that works, got: it was lost (Parent device is lost)"
    *errors, last = printed.splitlines()
    assert errors == [message] * 5
    assert last == "[1.0, 1.0]"
