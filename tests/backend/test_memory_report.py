"""`pyrite.memory_report`: what is in memory, how large, and which lines made it."""

from __future__ import annotations

import gc
import json
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.backend.explanation.memory import MemorySummary
from pyrite.backend.fusion import Fusion
from pyrite.backend.memory import LARGE, LARGE_ON_GPU, DeviceMemory, TensorMemory
from pyrite.errors import OutOfMemoryError
from pyrite.runtime.cpu.memory import Block
from pyrite.runtime.cpu.runtime import CpuRuntime

MIB = 1 << 20
DEVICES = [n for n in ("cpu", "wgpu") if device_problem(n) is None]


def line(text: str) -> str:
    """Return the line of this file that ends with a comment."""
    with open(__file__) as source:
        lines = source.read().splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if line.endswith('# ' + text))}"


def memory(of: Device) -> DeviceMemory:
    (found,) = pyrite.memory_report(of).devices
    return found


def large(of: Device) -> int:
    """Return the least bytes of a tensor whose line is looked for at each call."""
    return LARGE if of.name == "cpu" else LARGE_ON_GPU


def made_at(of: Device, text: str) -> list[TensorMemory]:
    """Return the living tensors of a line, without those that wait for Python's collector."""
    gc.collect()
    return [t for t in memory(of).tensors if t.line == line(text)]


@pytest.fixture(params=DEVICES)
def plain(request: pytest.FixtureRequest) -> Device:
    return Device(pyrite.device(request.param).backend.root)


@pytest.fixture(params=["plain", "fused"])
def place(request: pytest.FixtureRequest, plain: Device) -> Device:
    return plain if request.param == "plain" else Device(Fusion(plain.backend))


def test_a_large_tensor_is_told_with_its_line_until_nobody_holds_it(place: Device) -> None:
    rows = large(place) // 2048
    x = pyrite.tensor(np.ones((rows, 1024), np.float16), device=place)  # upload
    y = (x * 2).exp()  # kernel
    seen = y[3:5, ::-1]
    place.synchronize()
    del y
    assert [(t.nbytes, str(t.type)) for t in made_at(place, "upload")] == [
        (large(place), f"float16[{rows}, 1024]")
    ]
    assert [t.nbytes for t in made_at(place, "kernel")] == [large(place)]
    now = memory(place)
    # Not what came since: tensors of earlier tests may die beside these, when Python collects.
    assert now.live >= 2 * large(place)
    assert now.peak >= now.live
    assert now.reserved >= now.live
    del x, seen
    assert not made_at(place, "upload") + made_at(place, "kernel")


def test_what_a_tape_holds_is_told_where_a_loss_asks(place: Device) -> None:
    found: list[MemorySummary] = []

    def loss(w: Any, x: Any) -> Any:
        h = (x @ w).tanh()  # activation
        result = (h * h).sum()
        found.append(pyrite.memory_report(place))
        return result

    x = pyrite.ones((1024, 256), device=place)
    w = pyrite.Parameter(pyrite.ones((256, 512), device=place))
    with pyrite.explain():
        pyrite.value_and_grad(loss)(w, x)[0].item()
    # Recorded calls have not run by then, and hold nothing.
    is_fused = isinstance(place.backend, Fusion)
    lines = [t.line for t in found[0].devices[0].tensors]
    assert (line("activation") in lines) is not is_fused


def test_a_value_of_a_program_has_the_line_of_its_call_each_time(plain: Device) -> None:
    fused = Device(Fusion(plain.backend))
    x = pyrite.ones((large(fused) // 2048, 512), device=fused)
    for _ in range(3):
        y = x + 1  # first
        z = y.cos()  # second
        z[0, 0].item()
        assert [t.nbytes for t in made_at(fused, "first")] == [large(fused)]
        assert [t.nbytes for t in made_at(fused, "second")] == [large(fused)]


def test_a_compiled_function_has_the_lines_of_its_calls(plain: Device) -> None:
    fused = Device(Fusion(plain.backend))

    @pyrite.compile
    def step(x: Any) -> Any:
        return x.tanh() * 2  # compiled

    x = pyrite.ones((large(fused) // 2048, 512), device=fused)
    for _ in range(4):
        x = step(x)
        x[0, 0].item()
    assert step.replays
    assert [t.nbytes for t in made_at(fused, "compiled")] == [large(fused)]


def test_small_tensors_are_told_in_a_block_of_explain(place: Device) -> None:
    x = pyrite.ones((3, 5), device=place)
    (x * 2).numpy()
    with pyrite.explain():
        y = x * 3  # small
        y.numpy()
    assert [(t.nbytes, str(t.type)) for t in made_at(place, "small")] == [(60, "float32[3, 5]")]
    del y


def test_a_program_tells_what_it_holds_at_most_and_at_which_lines() -> None:
    fused = Device(Fusion(pyrite.device("cpu").backend.root))
    x = pyrite.tensor(np.ones((512, 512), np.float32), device=fused)
    y = x @ x  # product
    z = y @ x  # again
    (z @ y).sum(-1).numpy()
    # Other tests may have larger ones on this device.
    found = memory(fused).programs
    (program,) = [p for p in found if line("product") in {t.line for t in p.largest}]
    # The first product is held while the other two are made.
    assert program.least >= 3 * MIB
    assert program.planned >= program.least
    assert {line("product"), line("again")} <= {t.line for t in program.largest}
    assert all(str(t.type) == "float32[512, 512]" for t in program.largest[:3])


def test_it_is_a_table_and_json(place: Device) -> None:
    x = pyrite.tensor(np.ones((1024, 1024), np.float32), device=place)  # table
    y = x + 1
    y.numpy()
    report = pyrite.memory_report(place)
    text = str(report)
    assert text.startswith(f"{place.name}: ")
    where = line("table").rpartition("/")[2]
    assert any("(1024, 1024)" in row and row.rstrip().endswith(where) for row in text.splitlines())
    (found,) = json.loads(report.to_json())
    assert found["device"] == place.name
    assert {
        "bytes": 4 * MIB, "dtype": "float32", "shape": [1024, 1024], "line": line("table"),
    } in found["tensors"]  # fmt: skip


def test_a_device_without_an_account_is_left_out() -> None:
    pyrite.ones((4,), device="numpy").numpy()
    assert pyrite.memory_report("numpy").devices == ()
    assert "numpy" not in [of.device for of in pyrite.memory_report().devices]


# ---- memory that ends ----


@pytest.fixture(params=["plain", "fused"])
def scarce(request: pytest.FixtureRequest) -> Device:
    """A processor with room for 9 MiB."""
    runtime = CpuRuntime()
    allocator: Any = runtime._allocator
    make = allocator._make

    def limited(capacity: int) -> Block:
        if allocator._reserved + capacity > 9 * MIB:
            raise MemoryError
        made: Block = make(capacity)
        return made

    allocator._make = limited
    backend = CubeBackend(runtime)
    return Device(Fusion(backend) if request.param == "fused" else backend)


def test_an_error_of_memory_names_the_lines_of_the_largest_tensors(scarce: Device) -> None:
    x = pyrite.tensor(np.ones((1024, 1024), np.float32), device=scarce)  # held
    y = x * 2  # also
    y[0, 0].item()
    with pytest.raises(OutOfMemoryError) as caught:
        (x + 1).numpy()  # too much
    message = str(caught.value)
    assert f"4,194,304 for float32[1024, 1024] of {line('held')}" in message
    assert f"4,194,304 for float32[1024, 1024] of {line('also')}" in message
    # The call, or of a program the line of what it was to make.
    assert line("too much") in (caught.value.location, *message.split())
    assert message.endswith("; use smaller batches, or checkpoint")


def test_an_error_of_memory_names_what_a_program_was_to_hold() -> None:
    runtime = CpuRuntime()
    fused = Device(Fusion(CubeBackend(runtime)))
    x = pyrite.tensor(np.ones((256, 256), np.float32), device=fused)
    y = x.reshape((1, 256, 256)) + pyrite.ones((16, 1, 1), device=fused)  # wide
    z = (y @ x).cumsum(axis=0) @ x  # stacked
    allocator: Any = runtime._allocator
    allocator._make = lambda capacity: (_ for _ in ()).throw(MemoryError)
    with pytest.raises(OutOfMemoryError) as caught:
        z.numpy()
    message = str(caught.value)
    assert "it was for a program of " in message
    assert f"4,194,304 for float32[16, 256, 256] of {line('stacked')}" in message
    del allocator._make
    assert z[15, 0, 0].item() == 16 * 2 * 256 * 256
