"""Group norm as kernels: every config, number of groups, layout and dtype, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.lowering import group_norm
from pyrite.backend.cube.skeleton.numbered_rows import numbered_candidates
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees, called
from pyrite.types import Array, DType, bfloat16, float16, float32, float64

#: Shapes and numbers of groups: channels of 1 element, of whole vectors, and of neither.
CASES = [
    ((4, 6), 3), ((5, 1), 1), ((2, 8, 1), 1), ((3, 4, 4), 2), ((2, 6, 7), 3), ((2, 3, 16), 3),
    ((1, 4, 3, 3), 1), ((3, 4, 4, 4), 2), ((2, 4, 2, 2, 8), 2), ((1, 1, 130), 1),
]  # fmt: skip
TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 2e-5, "float64": 1e-12}
RNG = np.random.default_rng(0)


def array(*shape: int, dtype: DType = float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype.numpy)


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


def agree(device: Device, name: str, given: list[Any], **attrs: Any) -> None:
    assert_agrees(device, name, given, TOLERANCE, **attrs)


def both(
    device: Device, shape: tuple[int, ...], num_groups: int, dtype: DType = float32,
    eps: float = 0.1,
) -> None:  # fmt: skip
    attrs = {"num_groups": num_groups, "eps": eps}
    x, g = array(*shape, dtype=dtype), array(*shape, dtype=dtype)
    weight, bias = (array(shape[1], dtype=dtype) for _ in range(2))
    for given in ([x, weight, bias], [x, None, bias], [x, weight, None], [x, None, None]):
        agree(device, "group_norm", given, **attrs)
    for argnums in ((0, 1, 2), (0,), (2, 1), (2, 0)):
        for w in (weight, None) if argnums == (2, 0) else (weight,):
            agree(device, "_group_norm_backward", [g, x, w], argnums=argnums, **attrs)


@pytest.mark.parametrize(("shape", "num_groups"), CASES, ids=str)
def test_all_shapes_on_the_interpreter(
    interpreter: Device, shape: tuple[int, ...], num_groups: int
) -> None:
    both(interpreter, shape, num_groups)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(3, 4, 4, 4), (5, 4), (2, 4, 7)], ids=str)
def test_all_dtypes(cpu: Device, shape: tuple[int, ...], dtype: DType) -> None:
    both(cpu, shape, 2, dtype)


@pytest.mark.parametrize(
    ("shape", "num_groups"), [((8, 32, 8, 8), 8), ((3, 20, 7, 7), 5), ((2, 3, 5000), 1)], ids=str
)
def test_sizes_of_networks(cpu: Device, shape: tuple[int, ...], num_groups: int) -> None:
    both(cpu, shape, num_groups)


@pytest.mark.parametrize(
    "machine",
    [Machine("cpu", 8, (1,), 2**31 - 1), Machine("gpu", 4, (64, 32), 65535)],
    ids=lambda m: m.kind,
)
@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 4, 6), (2, 4)], ids=str)
@pytest.mark.sample(1, by="machine.kind", varies=True)
def test_every_config_gives_the_same(
    shape: tuple[int, ...], machine: Machine, interpreter: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = shape[2] if len(shape) > 2 else 1
    # One for groups and one for channels: both kernels have rows that they fit.
    found = {length: numbered_candidates(length, float32, machine) for length in (2 * size, size)}
    for n in range(max(map(len, found.values()))):
        chosen = {length: configs[n % len(configs)] for length, configs in found.items()}
        monkeypatch.setattr(group_norm, "select", lambda length, *_, of=chosen: of[length])
        # An eps of its own, so that nothing is found recorded.
        both(interpreter, shape, 2, eps=0.1 + (n + 1000 * (machine.kind == "gpu")) * 1e-6)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 3, 1), (3, 1, 2, 0)], ids=str)
def test_layouts_do_not_matter(interpreter: Device, order: tuple[int, ...]) -> None:
    x, back = array(3, 4, 4, 2), tuple(np.argsort(order).tolist())
    laid = tensor(np.ascontiguousarray(x.transpose(order)), device=interpreter).permute_dims(back)
    want = tensor(x).group_norm(num_groups=2).numpy()
    np.testing.assert_allclose(laid.group_norm(num_groups=2).numpy(), want, rtol=1e-5, atol=1e-5)


def test_a_mean_that_is_large_beside_the_deviation_does_no_harm(cpu: Device) -> None:
    x = array(8, 4, 16) * 0.01 + 1000
    rows = x.astype(np.float64).reshape(8, 2, 32)
    want = (rows - rows.mean(2, keepdims=True)) / rows.std(2, keepdims=True)
    (got,) = called("group_norm", [x], cpu, num_groups=2, eps=0.0)

    # What the rounding of the mean to float32 leaves.
    assert np.abs(got.reshape(rows.shape) - want).max() < 0.01


def test_it_is_one_kernel_and_its_gradients_are_a_few(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x, c = tensor(array(2, 4, 4, 4), device=fresh), tensor(array(4), device=fresh)

    def launches(call: Any) -> int:
        before: int = backend.runtime.report()["launches"]
        call()
        found: int = backend.runtime.report()["launches"]
        return found - before

    def backward(*argnums: int) -> int:
        attrs = {"num_groups": 2, "eps": 0.1, "argnums": argnums}
        return launches(lambda: x._group_norm_backward(x, c, **attrs))

    assert launches(lambda: x.group_norm(c, c, num_groups=2)) == 1
    assert launches(lambda: x.instance_norm(c, c)) == 1
    assert backward(0) == 1
    # Groups, channels, and the sums of both over samples.
    assert backward(0, 1, 2) == 4


def test_two_runs_give_the_same_bits(cpu: Device) -> None:
    given = [array(16, 16, 8, 8), array(16, 16, 8, 8), array(16)]
    attrs = {"num_groups": 4, "eps": 0.1, "argnums": (0, 1, 2)}
    first, second = (called("_group_norm_backward", given, cpu, **attrs) for _ in range(2))

    assert all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))


def test_an_empty_batch_is_as_in_numpy(interpreter: Device) -> None:
    x = np.zeros((0, 4, 3), np.float32)
    agree(interpreter, "group_norm", [x, array(4), None], num_groups=2, eps=0.1)
    agree(interpreter, "_group_norm_backward", [x, x, None], num_groups=2, eps=0.1, argnums=(0,))
