"""The same kernels as machine code: what the interpreter judged right, LLVM makes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import value_and_grad
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.testing.memory import contents
from pyrite.types import DType, float16, float32

pytest.importorskip("llvmlite")

from pyrite.backend.cube.backend import CubeBackend
from pyrite.runtime.cpu.runtime import CpuRuntime

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

EXAMPLES = list(examples())
TOLERANCE = {"float16": 8e-3, "float32": 4e-6}


@pytest.fixture(scope="module")
def cpu() -> Device:
    from pyrite.backend.cube.cpu import Cpu

    return Device(Cpu())


@pytest.mark.parametrize("dtype", [float16, float32], ids=lambda d: d.name)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(80, by="dtype")
def test_values_are_those_of_numpy(cpu: Device, example: Example, dtype: DType) -> None:
    for got, want in zip(example.run(dtype, cpu), example.run(dtype), strict=True):
        g, w = got.numpy(), want.numpy()
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        tolerance = TOLERANCE.get(w.dtype.name, 0.0)
        np.testing.assert_allclose(
            g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("shape", [(1,), (17,), (100_003,), (300, 7), (7, 300), (3, 5, 64)])
def test_sums_and_maps_of_any_size_are_right(cpu: Device, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    x = tensor(array, device=cpu)

    np.testing.assert_array_equal((x * 3 - 1).numpy(), array * 3 - 1)
    np.testing.assert_array_equal(
        (x.reshape(shape[0], -1).mT + 1).numpy(), array.reshape(shape[0], -1).T + 1
    )
    for axis in (*range(x.ndim), None):
        np.testing.assert_array_equal(x.sum(axis).numpy(), array.sum(axis, dtype=np.int32))
        np.testing.assert_array_equal(x.argmax(axis).numpy(), array.argmax(axis))


def test_weight_gradients_of_a_norm_add_up_all_rows(cpu: Device) -> None:
    rng = np.random.default_rng(0)
    g, x, weight = (rng.normal(size=s).astype(np.float32) for s in ((70, 48), (70, 48), (48,)))
    given: dict[str, Any] = {"axis": -1, "eps": 1e-5, "argnums": (0, 1, 2)}
    on_cpu = [tensor(a, device=cpu) for a in (g, x, weight)]
    found = on_cpu[0]._layer_norm_backward(*on_cpu[1:], **given)
    wanted = tensor(g)._layer_norm_backward(tensor(x), tensor(weight), **given)

    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_an_index_outside_is_raised_by_the_next_read(cpu: Device) -> None:
    table = tensor(np.ones((4, 2), np.float32), device=cpu)
    found = table.embedding(tensor(np.array([3, 4], np.int32), device=cpu))

    with pytest.raises(IndexRangeError, match="embedding requires -4 <= index < 4 on axis 0"):
        found.numpy()
    assert contents(found).tolist() == [[1, 1], [0, 0]]


def test_a_gradient_through_many_kernels_is_that_of_numpy(cpu: Device) -> None:
    rng = np.random.default_rng(2)
    array = rng.normal(size=(33, 70)).astype(np.float32)
    labels = rng.integers(0, 70, 33).astype(np.int32)

    def loss(x: Tensor, targets: Tensor) -> Tensor:
        return (x.layer_norm().gelu().cumsum(1) * 0.1).cross_entropy(targets).mean()

    (got, g), (want, w) = (
        value_and_grad(lambda x, d=d: loss(x, tensor(labels, device=d)))(tensor(array, device=d))
        for d in (cpu, "numpy")
    )
    np.testing.assert_allclose(float(got), float(want), rtol=1e-5)
    np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-3, atol=1e-6)


def test_what_is_freed_is_used_again() -> None:
    runtime = CpuRuntime(threads=2)  # with no tensor of another test, which may die meanwhile
    cpu = Device(CubeBackend(runtime))
    x = tensor(np.zeros(1 << 16, np.float32), device=cpu)
    for step in range(30):
        x = x + 1.0
        if step == 5:
            cpu.synchronize()
            early = runtime.memory_report()
    cpu.synchronize()

    assert runtime.memory_report().live == early.live
    assert x.numpy()[0] == 30


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_number_of_threads_changes_no_bit(cpu: Device, threads: int) -> None:
    other = Device(CubeBackend(CpuRuntime(threads=threads)))
    a = np.random.default_rng(0).standard_normal((257, 3001), dtype=np.float32)

    def results(device: Device) -> list[Tensor]:
        x = tensor(a, device=device)
        sums = [x.sum(axis) for axis in (None, 0, 1)]
        return [*sums, x @ x.mT, x.var(0), x.softmax(1), x.cumsum(0), x.cumsum(1)]

    for got, want in zip(results(other), results(cpu), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
