"""A lowering that leaves the reach of a view is found: by the interpreter, on cpu and on wgpu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.guard import guarding
from pyrite.backend.cube.lowering import LOWERINGS
from pyrite.backend.cube.operand import Operand, bindings_of, invocation_of, layout_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device, device_problem
from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


def neighbour(by: int) -> Callable[..., Sequence[CubeTensor]]:
    """Return a lowering that negates the elements ``by`` places further on in the buffer."""

    def lowering(
        launcher: Any, op: Any, inputs: Sequence[Any], attrs: Any, out: Any
    ) -> Sequence[CubeTensor]:
        (x,) = inputs
        y = launcher.empty(x.type)

        def build(axes: int) -> Kernel:
            b = KernelBuilder("neighbour", grid=axes)
            source = Operand(b, "x", layout_of(x), "read")
            target = Operand(b, "y", layout_of(y), "write")
            i = invocation_of(b)
            target[[i]] = -source.load(source.at([i]) + by)
            return b.build()

        key = ("neighbour", by, layout_of(x))
        launcher.launch(key, build, [*bindings_of(x), *bindings_of(y)], x.type.size)
        return [y]

    return lowering


def cpu() -> Device:
    pytest.importorskip("llvmlite")
    from pyrite.runtime.cpu.guarded import GuardedCpuRuntime

    return Device(CubeBackend(GuardedCpuRuntime("before")))


def wgpu() -> Device:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    from pyrite.runtime.wgpu.guarded import GuardedWgpuRuntime

    runtime: Any = GuardedWgpuRuntime()
    return Device(CubeBackend(runtime))


def part(x: Tensor) -> Tensor:
    return x[:3]


def every_second(x: Tensor) -> Tensor:
    return x[::2]


def backwards(x: Tensor) -> Tensor:
    return x.flip(0)[::3]


VIEWS = [part, every_second, backwards]


def negated(device: Device, by: int, view: Callable[[Tensor], Tensor]) -> Array:
    return view(tensor(np.arange(1, 10, dtype=np.float32), device=device)).neg().numpy()


@pytest.fixture(params=[0, 1])
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    by: int = request.param
    monkeypatch.setitem(LOWERINGS, "negative", neighbour(by))
    return by


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.__name__)
@pytest.mark.parametrize("make", [cpu, wgpu], ids=lambda m: m.__name__)
def test_what_is_read_beside_a_view_shows_as_nan(
    make: Callable[[], Device], view: Callable[[Tensor], Tensor], planted: int
) -> None:
    found = negated(make(), planted, view)

    assert np.isnan(found).any() == (planted != 0)


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.__name__)
def test_the_interpreter_refuses_it_and_shows_the_line(
    view: Callable[[Tensor], Tensor], planted: int
) -> None:
    device = Device(CubeBackend(InterpreterRuntime()))
    if not planted:
        assert (negated(device, 0, view) < 0).all()
        return

    with pytest.raises(KernelError, match=r"'neighbour': x\[\d\] is outside .* = load x, %\d+$"):
        negated(device, planted, view)


def test_views_of_inputs_are_views_of_the_whole() -> None:
    """What is bound in place of an input does not outlive the launch."""
    device = Device(CubeBackend(InterpreterRuntime()))
    x = tensor(np.arange(6, dtype=np.float32), device=device)

    assert x[1:4].primitive().handle.binding() is x.primitive().handle.binding()
    assert x[1:4].reshape((3, 1)).primitive().handle.binding() is x.primitive().handle.binding()


def test_an_ordinary_runtime_does_not_guard() -> None:
    pytest.importorskip("llvmlite")
    from pyrite.backend.cube.cpu import Cpu
    from pyrite.config import config

    assert config.guard is not None or guarding(Cpu().runtime) is None
