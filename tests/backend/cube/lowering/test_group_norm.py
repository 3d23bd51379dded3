"""Group norm as kernels: every config, number of groups, layout and dtype, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.lowering import group_norm
from pyrite.backend.cube.skeleton.row import candidates
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees, called
from pyrite.types import Array, DType, bfloat16, float16, float32, float64

#: Shapes and numbers of groups: channels of 1 element, of whole vectors, and of neither.
CASES = [
    ((4, 6), 3), ((5, 1), 1), ((2, 8, 1), 1), ((3, 4, 4), 2), ((2, 6, 7), 3), ((2, 3, 16), 3),
    ((1, 4, 3, 3), 1), ((3, 4, 4, 4), 2), ((2, 4, 2, 2, 8), 2), ((1, 1, 130), 1),
    ((2, 6, 5, 5), 3), ((3, 4, 33), 4), ((2, 4, 70), 1),
]  # fmt: skip
TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 2e-5, "float64": 1e-12}
RNG = np.random.default_rng(0)


def array(*shape: int, dtype: DType = float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype.numpy)


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


@pytest.fixture
def processor() -> Device:
    """A processor whose every access is checked."""
    return Device(CubeBackend(InterpreterRuntime(Machine.cpu(16, 32))))


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


@pytest.mark.parametrize(("shape", "num_groups"), CASES, ids=str)
def test_all_shapes_on_a_processor(
    processor: Device, shape: tuple[int, ...], num_groups: int
) -> None:
    both(processor, shape, num_groups)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(3, 4, 4, 4), (5, 4), (2, 4, 7)], ids=str)
def test_all_dtypes(cpu: Device, shape: tuple[int, ...], dtype: DType) -> None:
    both(cpu, shape, 2, dtype)


@pytest.mark.parametrize(
    ("shape", "num_groups"), [((8, 32, 8, 8), 8), ((3, 20, 7, 7), 5), ((2, 3, 5000), 1)], ids=str
)
def test_sizes_of_networks(cpu: Device, shape: tuple[int, ...], num_groups: int) -> None:
    both(cpu, shape, num_groups)


@pytest.mark.parametrize("shape", [(2, 4, 16), (3, 4, 19), (2, 2, 33)], ids=str)
def test_every_config_of_the_gradient_gives_the_same(
    shape: tuple[int, ...], processor: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine.cpu(16, 32)
    found = [
        c
        for c in candidates(1000, float32, machine)
        if c.lanes == 1 and not c.turns and c.rows == 1
    ]
    assert {c.width for c in found} == {1, 2, 4, 8, 16}
    x, g, weight = array(*shape), array(*shape), array(shape[1])
    for n, config in enumerate(found):
        monkeypatch.setattr(group_norm, "select_in_pieces", lambda *_, of=config: of)
        # An eps of its own, so that nothing is found recorded.
        attrs = {"num_groups": 2, "eps": 0.1 + n * 1e-6, "argnums": (0, 1, 2)}
        agree(processor, "_group_norm_backward", [g, x, weight], **attrs)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 3, 1), (3, 1, 2, 0)], ids=str)
def test_layouts_do_not_matter(interpreter: Device, order: tuple[int, ...]) -> None:
    x, back = array(3, 4, 4, 2), tuple(np.argsort(order).tolist())
    laid = tensor(np.ascontiguousarray(x.transpose(order)), device=interpreter).permute_dims(back)
    want = tensor(x).group_norm(num_groups=2).numpy()
    np.testing.assert_allclose(laid.group_norm(num_groups=2).numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 3, 1), (3, 1, 2, 0)], ids=str)
@pytest.mark.parametrize("flipped", [(), (1,), (0, 1), (2, 3)], ids=str)
def test_layouts_do_not_matter_to_gradients(
    processor: Device, order: tuple[int, ...], flipped: tuple[int, ...]
) -> None:
    """Operands and cotangents alike; some have channels that are no neighbours."""
    g, x, weight = array(2, 4, 4, 5), array(2, 4, 4, 5), array(8)
    back = tuple(np.argsort(order).tolist())

    def laid(a: Array, axes: tuple[int, ...]) -> Any:
        found = tensor(np.ascontiguousarray(a.transpose(order)), device=processor)
        return found.permute_dims(back).flip(axes) if axes else found.permute_dims(back)

    attrs: dict[str, Any] = {"num_groups": 2, "eps": 0.1, "argnums": (0, 1, 2)}
    every_second = tensor(weight, device=processor)[::2]
    found = laid(g, flipped)._group_norm_backward(laid(x, ()), every_second, **attrs)
    of_g = np.ascontiguousarray(np.flip(g, flipped)) if flipped else g
    want = tensor(of_g)._group_norm_backward(tensor(x), tensor(weight)[::2], **attrs)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_a_mean_that_is_large_beside_the_deviation_does_no_harm(cpu: Device) -> None:
    x = array(8, 4, 16) * 0.01 + 1000
    rows = x.astype(np.float64).reshape(8, 2, 32)
    want = (rows - rows.mean(2, keepdims=True)) / rows.std(2, keepdims=True)
    (got,) = called("group_norm", [x], cpu, num_groups=2, eps=0.0)

    # What the rounding of the mean to float32 leaves.
    assert np.abs(got.reshape(rows.shape) - want).max() < 0.01


def test_it_is_one_kernel_and_its_gradients_are_a_few(processor: Device) -> None:
    backend = processor.backend
    assert isinstance(backend, CubeBackend)
    x, c = tensor(array(2, 4, 4, 4), device=processor), tensor(array(4), device=processor)

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
    # Groups with what their channels have, and the sums of both over samples.
    assert backward(0, 1, 2) == 3


def test_a_group_of_infinities_or_nan_is_as_in_numpy(cpu: Device) -> None:
    """Other groups are untouched, and what g alone gives is finite."""
    for bad in (np.inf, -np.inf, np.nan):
        g, x, weight = array(2, 4, 5, 5), array(2, 4, 5, 5), array(4)
        x[0, 1, 2, 3] = bad
        with np.errstate(all="ignore"):
            agree(
                cpu, "_group_norm_backward", [g, x, weight], num_groups=2, eps=0.1,
                argnums=(0, 1, 2),
            )  # fmt: skip


def test_two_runs_give_the_same_bits(cpu: Device) -> None:
    given = [array(16, 16, 8, 8), array(16, 16, 8, 8), array(16)]
    attrs = {"num_groups": 4, "eps": 0.1, "argnums": (0, 1, 2)}
    first, second = (called("_group_norm_backward", given, cpu, **attrs) for _ in range(2))

    assert all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))


def test_an_empty_batch_is_as_in_numpy(interpreter: Device) -> None:
    x = np.zeros((0, 4, 3), np.float32)
    agree(interpreter, "group_norm", [x, array(4), None], num_groups=2, eps=0.1)
    agree(interpreter, "_group_norm_backward", [x, x, None], num_groups=2, eps=0.1, argnums=(0,))
