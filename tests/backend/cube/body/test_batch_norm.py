"""Batch norm as kernels: every config, size, layout and dtype, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.body import row_layouts
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.numbered_rows import numbered_candidates
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees, called
from pyrite.types import Array, DType, bfloat16, float16, float32, float64

SHAPES = [
    (4, 3), (5, 1), (1, 4, 1), (3, 2, 4), (2, 3, 8), (2, 5, 7), (3, 4, 4, 4), (2, 3, 3, 3),
    (1, 2, 64), (6, 2, 16), (4, 2, 2, 2, 2),
]  # fmt: skip
TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 2e-5, "float64": 1e-12}
RNG = np.random.default_rng(0)


def array(*shape: int, dtype: DType = float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype.numpy)


def machines() -> list[Machine]:
    return [Machine("cpu", 8, (1,), 2**31 - 1), Machine("gpu", 4, (64, 32), 65535)]


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


def agree(device: Device, name: str, given: list[Any], **attrs: Any) -> None:
    assert_agrees(device, name, given, TOLERANCE, **attrs)


def all_three(device: Device, shape: tuple[int, ...], dtype: DType = float32) -> None:
    x, c = array(*shape, dtype=dtype), shape[1]
    weight, bias, mean = (array(c, dtype=dtype) for _ in range(3))
    variance = np.abs(array(c, dtype=dtype)) + np.asarray(0.5, dtype.numpy)
    agree(device, "batch_norm", [x, weight, bias], eps=0.1)
    agree(device, "batch_norm", [x, None, bias], eps=0.1)
    agree(device, "batch_norm_inference", [x, mean, variance, weight, None], eps=0.1)
    agree(device, "batch_norm_inference", [x, mean, variance, None, bias], eps=0.1)
    g, of_mean, of_variance = array(*shape, dtype=dtype), mean, array(c, dtype=dtype)
    for argnums in ((0, 1, 2), (0,), (2, 1), (1, 0)):
        given = [g, of_mean, of_variance, x, weight if 1 in argnums else None]
        agree(device, "_batch_norm_backward", given, eps=0.1, argnums=argnums)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_shapes_on_the_interpreter(interpreter: Device, shape: tuple[int, ...]) -> None:
    all_three(interpreter, shape)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(3, 2, 4, 4), (5, 3), (2, 3, 7)], ids=str)
def test_all_dtypes(cpu: Device, shape: tuple[int, ...], dtype: DType) -> None:
    all_three(cpu, shape, dtype)


@pytest.mark.parametrize(
    "shape", [(32, 16, 8, 8), (33, 20, 7, 7), (300, 40), (2, 3, 5000)], ids=str
)
def test_sizes_of_networks(cpu: Device, shape: tuple[int, ...]) -> None:
    all_three(cpu, shape)


@pytest.mark.parametrize("machine", machines(), ids=lambda m: m.kind)
@pytest.mark.parametrize("shape", [(3, 2, 8), (16, 3, 16), (7, 3, 3)], ids=str)
@pytest.mark.sample(1, by="machine.kind")
def test_every_config_gives_the_same(
    shape: tuple[int, ...], machine: Machine, interpreter: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, x = shape[1], array(*shape)
    given = [array(*shape), array(c), array(c), x, array(c)]
    divisor = 0 if shape[2] % row_layouts.LEAST_WIDTH else shape[2]
    found = numbered_candidates(shape[0] * shape[2], float32, machine, divisor=divisor)
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    assert len({c.lanes for c in found}) == (1 if machine.kind == "cpu" else 2)
    for n, config in enumerate(found):
        monkeypatch.setattr(row_layouts, "config_for", lambda *_, config=config: config)
        # An eps of its own, so that nothing is found recorded.
        eps = 0.1 + (n + 1000 * (machine.kind == "gpu")) * 1e-6
        agree(interpreter, "batch_norm", [x, array(c), array(c)], eps=eps)
        agree(interpreter, "_batch_norm_backward", given, eps=eps, argnums=(0, 1, 2))


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 3, 1), (3, 1, 2, 0)], ids=str)
def test_layouts_do_not_matter(interpreter: Device, order: tuple[int, ...]) -> None:
    x, back = array(3, 4, 4, 2), tuple(np.argsort(order).tolist())
    laid = tensor(np.ascontiguousarray(x.transpose(order)), device=interpreter).permute_dims(back)
    got, mean, variance = laid.batch_norm()
    for a, b in zip((got, mean, variance), tensor(x).batch_norm(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_a_mean_that_is_large_beside_the_deviation_does_no_harm(cpu: Device) -> None:
    x = array(8, 3, 16) * 0.01 + 1000
    exact = x.astype(np.float64)
    want = (exact - exact.mean((0, 2), keepdims=True)) / exact.std((0, 2), keepdims=True)
    got, _, _ = called("batch_norm", [x], cpu, eps=0.0)

    # What the rounding of the mean to float32 leaves.
    assert np.abs(got - want).max() < 0.01


def test_each_is_one_kernel_where_vectors_fit(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x, c = tensor(array(2, 3, 4, 4), device=fresh), tensor(array(3), device=fresh)

    def launches(call: Any) -> int:
        before: int = backend.runtime.report()["launches"]
        call()
        found: int = backend.runtime.report()["launches"]
        return found - before

    assert launches(lambda: x.batch_norm(c, c)) == 1
    assert launches(lambda: x._batch_norm_backward(c, c, x, c, eps=0.1, argnums=(0, 1, 2))) == 1
    assert launches(lambda: x.batch_norm_inference(c, c * c, c, c)) == 2


def test_two_runs_give_the_same_bits(cpu: Device) -> None:
    given = [array(64, 16, 8, 8), array(16), array(16)]
    first, second = (called("batch_norm", given, cpu) for _ in range(2))

    assert all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))


def test_an_empty_batch_is_as_in_numpy(interpreter: Device) -> None:
    with np.errstate(all="ignore"):
        x = np.zeros((0, 3, 4), np.float32)
        agree(interpreter, "_batch_norm_backward", [x, array(3), array(3), x, None], eps=0.1,
              argnums=(0,))  # fmt: skip
