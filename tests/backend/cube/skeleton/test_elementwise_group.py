"""Elementwise kernels over tensors of different shapes in one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.elementwise_group import ElementwiseCall, grouped, map_apart
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.kernel.machine import Machine
from pyrite.kernel.trace import trace
from pyrite.op import Constant
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.types import Array, TensorType, dtype, float32

MACHINES = {
    "v4": Machine.cpu(64, 32), "gpu": Machine.gpu(workgroups=8),
    "wide gpu": Machine.gpu(workgroups=8, buffers=32),
}  # fmt: skip


@pytest.fixture(scope="module", params=MACHINES)
def backend(request: pytest.FixtureRequest) -> CubeBackend:
    runtime: Any = InterpreterRuntime(MACHINES[request.param])
    return CubeBackend(runtime)


def scaled(k: Any, x: Any, n: Any) -> Any:
    return x * k.cast(n, x.dtype) + 1


def call_of(
    backend: CubeBackend, shape: tuple[int, ...], layout: str, kind: str, number: float
) -> tuple[ElementwiseCall, Array]:
    """Return a call that writes x * number + 1 of numbers that lie so, and what it writes."""
    device: Any = Device(backend)
    type = TensorType(shape, dtype(kind))
    values = np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(type.dtype.numpy)
    settled = LAYOUTS[layout].settled(values)
    x = LAYOUTS[layout](settled, device)._handle
    target = backend.launcher.empty(type)

    def rule(b: Any, elements: Any, _: Any) -> list[Any]:
        return [trace(b, scaled, elements, type.dtype)]

    given = Constant(number, TensorType((), float32))
    call = ElementwiseCall("scaled", kind, rule, [x, given], [target])
    return call, (settled * np.asarray(number).astype(type.dtype.numpy) + 1).astype(settled.dtype)


PARTS = (
    ((7, 5), "dense", "float32"), ((1,), "dense", "int32"), ((), "dense", "float32"),
    ((3, 4, 5), "reversed", "float32"), ((257,), "every second", "float32"),
    ((64, 33), "transposed", "float32"), ((9,), "dense", "bfloat16"),
    ((2, 6), "broadcast on the first axis", "int8"),
)  # fmt: skip


@pytest.mark.parametrize("count", [2, 3, len(PARTS)])
def test_each_part_is_what_it_is_alone(backend: CubeBackend, count: int) -> None:
    found = [
        call_of(backend, shape, layout, kind, 2 + n)
        for n, (shape, layout, kind) in enumerate(PARTS[:count])
    ]
    launches = backend.runtime.report()["launches"]
    groups = grouped([call for call, _ in found], backend.launcher.machine)
    for group in groups:
        map_apart(backend.launcher, group)
    assert backend.runtime.report()["launches"] == launches + len(groups)
    for call, want in found:
        got = backend.download(call.targets[0])
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def test_a_launch_has_no_more_tensors_than_a_kernel(backend: CubeBackend) -> None:
    machine = backend.launcher.machine
    calls = [call_of(backend, (3,), "dense", "float32", 1.0)[0] for _ in range(50)]
    groups = grouped(calls, machine)
    assert [call for group in groups for call in group] == calls
    assert all(sum(call.tensors for call in group) <= machine.buffers for group in groups)
    assert all(len(group) <= 16 for group in groups)
    assert len(groups) == -(-50 // min(16, machine.buffers // 2))


def test_another_size_of_a_part_compiles_nothing(backend: CubeBackend) -> None:
    def run(n: int) -> None:
        calls = [call_of(backend, (n, 5), "dense", "float32", 2.0)[0],
                 call_of(backend, (3 * n,), "dense", "float32", 3.0)[0]]  # fmt: skip
        map_apart(backend.launcher, calls)

    run(40)
    before = backend.launcher.built
    run(52)
    assert backend.launcher.built == before


SHAPES = ((5, 3), (3,), (2, 2, 2), (1,), (300,), (4, 1), (), (9, 9))


def test_results_that_share_nothing_are_few_launches(backend: CubeBackend) -> None:
    random = np.random.default_rng(1)
    values = [random.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    found = []
    for device in (Device(backend), Device(Fusion(backend))):
        tensors = [tensor(v, device=device) for v in values]
        device.synchronize()
        before = backend.runtime.report()["launches"]
        updated = [(x * 0.5 + 1).tanh() for x in tensors]
        device.synchronize()
        launches = backend.runtime.report()["launches"] - before
        found.append([x.numpy() for x in updated])
    # Each reads a tensor and writes one.
    assert launches == -(-len(SHAPES) // min(backend.launcher.machine.buffers // 2, 16))
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x, y)
