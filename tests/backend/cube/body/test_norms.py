"""Norms by their bodies, with every config of their rows: the values and gradients of NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.body import row_layouts
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton import row as rows
from pyrite.backend.device import Device
from pyrite.kernel import Kernel
from pyrite.kernel.ir import Node, walk
from pyrite.runtime.cpu.executable import CpuExecutable
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees, called
from pyrite.types import float32

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def agree(device: Device, name: str, *inputs: Any, note: object = "", **attrs: Any) -> None:
    assert_agrees(device, name, inputs, {"float32": 2e-6}, note=note, **attrs)


@pytest.mark.parametrize(
    ("machine", "length"), [(CPU, 1), (CPU, 10), (CPU, 67), (CPU, 64), (GPU, 10), (GPU, 100)],
    ids=lambda m: getattr(m, "kind", m),
)  # fmt: skip
@pytest.mark.sample(1, by="machine.kind")
def test_every_candidate_is_right(
    fresh: Device, machine: Machine, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, g, weight = array(3, length), array(3, length), array(length)
    found = rows.candidates(length, float32, machine, adds=True)
    assert len(found) == len(set(found))
    for config in found:
        monkeypatch.setattr(row_layouts, "config_for", lambda *_, config=config: config)
        agree(fresh, "_softmax_backward", g, x, axis=-1, note=config)
        agree(
            fresh, "_layer_norm_backward", g, x, weight, axis=-1, eps=0.1, argnums=(0, 1, 2),
            note=config,
        )  # fmt: skip


def test_weights_lie_along_the_axes_in_order_whatever_the_order_asked(interpreter: Device) -> None:
    x, weight, bias = array(4, 3, 5), array(4, 5), array(4, 5)

    agree(interpreter, "layer_norm", x, weight, bias, axis=(2, 0))
    agree(interpreter, "rms_norm", x, weight, axis=(2, 0))
    agree(
        interpreter, "_layer_norm_backward", x[::-1].copy(), x, weight,
        axis=(2, 0), eps=0.1, argnums=(1, 0),
    )  # fmt: skip


def test_a_large_mean_does_no_harm(interpreter: Device) -> None:
    x = (array(2, 64) + 10_000).astype(np.float32)
    (got,) = called("layer_norm", [x, None, None], interpreter)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)

    assert np.abs(got - exact).max() < 2e-3


def launches(device: Device, call: Any) -> int:
    """Return how many kernels a call launches."""
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    before: int = backend.runtime.report()["launches"]
    call()
    found: int = backend.runtime.report()["launches"]
    return found - before


def test_a_norm_and_its_gradient_are_one_kernel(fresh: Device) -> None:
    x, w = tensor(array(3, 8), device=fresh), tensor(array(8), device=fresh)

    assert launches(fresh, lambda: x.layer_norm(w, w)) == 1
    assert launches(fresh, lambda: x.rms_norm(w)) == 1
    attrs = {"axis": (1,), "eps": 0.1}
    assert launches(fresh, lambda: x._layer_norm_backward(x, w, argnums=(0,), **attrs)) == 1
    # The sums over rows of what each group of them left.
    assert launches(fresh, lambda: x._layer_norm_backward(x, w, argnums=(0, 1, 2), **attrs)) == 3


class Noting(CpuRuntime):
    """A processor that keeps the kernels it compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []

    def compile_later(self, kernel: Kernel) -> CpuExecutable:
        self.kernels.append(kernel)
        return super().compile_later(kernel)


@pytest.fixture
def noting() -> Iterator[Noting]:
    runtime = Noting()
    yield runtime
    runtime.close()


def memory_of(kind: str, nodes: Iterable[Node]) -> set[int]:
    """Return the positions of the buffers that nodes of a kind name."""
    return {n.inputs[0].attr[0] for n in nodes if n.kind == kind}


def test_of_a_norm_the_next_row_and_its_result_are_fetched_and_no_weights(noting: Noting) -> None:
    called("layer_norm", [array(3, 256), array(256), array(256)], Device(CubeBackend(noting)))

    x, out = 0, 3
    assert memory_of("prefetch", noting.kernels[-1].walk()) == {x, out}


def test_of_a_channel_the_images_that_follow_are_fetched_and_their_results(noting: Noting) -> None:
    called("batch_norm", [array(16, 8, 24, 24), array(8), array(8)], Device(CubeBackend(noting)))
    loops = [list(walk(n.regions[0])) for n in noting.kernels[0].walk() if n.kind == "for"]
    inner = [body for body in loops if not any(n.kind == "for" for n in body)]
    hints = [memory_of("prefetch", body) for body in inner if "load" in {n.kind for n in body}]

    x, out = 0, 3
    # The mean reads the channel from afar, the variance finds it in a cache, then it is written.
    # Each ends with the masked rest of an image, for which nobody waits.
    assert [h for h, _ in groupby(hints)] == [{x}, set(), {out}, set()]


def test_of_a_channel_its_weight_is_read_before_the_loop_over_it(noting: Noting) -> None:
    # Of whole turns of all lanes: else the order of its sums goes over the borders of channels.
    operands = [array(2, 4, 128), array(4), array(4)]
    called("group_norm", operands, Device(CubeBackend(noting)), num_groups=2)
    loops = [list(walk(n.regions[0])) for n in noting.kernels[-1].walk() if n.kind == "for"]
    inner = [n for loop in loops if not any(m.kind == "for" for m in loop) for n in loop]

    assert memory_of("load", inner) == {0}
    assert memory_of("load", noting.kernels[-1].walk()) == {0, 1, 2}
