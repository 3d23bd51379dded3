"""What a kernel of rows writes, and in which pass: the sums of what it writes along with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.explanation.launched import Launched
from pyrite.backend.fusion import Fusion
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array, DType, bfloat16, float16, float32

TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 2e-4}
AXES = (0, 2, 3)


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(Fusion(CubeBackend(CpuRuntime(threads=2))))


@pytest.fixture(scope="module")
def interpreted() -> Device:
    return Device(Fusion(CubeBackend(InterpreterRuntime())))


def array(*shape: int, dtype: DType = float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype.numpy)


def held(x: Array, device: Device, order: Sequence[int] = ()) -> Tensor:
    """Return a tensor whose axes lie in an order in memory."""
    if not order:
        return pyrite.tensor(x, device=device)
    back = tuple(np.argsort(order).tolist())
    return pyrite.tensor(np.ascontiguousarray(x.transpose(order)), device=device).permute(back)


def gradients(g: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """Return what comes out of a batch norm behind a convolution with a bias."""
    nothing = weight * 0
    found = g._batch_norm_backward(nothing, nothing, x, weight, eps=0.1, argnums=(0, 1, 2))
    return (*found, found[0].sum(AXES))


def launched(device: Device, call: Callable[[], Sequence[Tensor]]) -> tuple[list[Launched], Any]:
    """Return what ran for a call, and what it gave."""
    with pyrite.explain() as found:
        given = [x.numpy() for x in call()]
    return found.launched, given


def buffers_written(one: Launched) -> int:
    parameters = one.kernel.parameters
    return sum(p.kind == "buffer" and p.attr[2] != "read" for p in parameters)


@pytest.mark.parametrize("order", [(), (1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)], ids=str)
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "shape", [(3, 2, 4, 4), (2, 3, 5, 7), (4, 1, 3, 3), (1, 2, 1, 40)], ids=str
)
def test_a_gradient_and_its_sum_are_as_in_numpy_in_every_layout(
    interpreted: Device, shape: tuple[int, ...], dtype: DType, order: tuple[int, ...]
) -> None:
    given = array(*shape, dtype=dtype), array(*shape, dtype=dtype), array(shape[1], dtype=dtype)
    g, x, weight = given

    got = gradients(held(g, interpreted, order), held(x, interpreted), held(weight, interpreted))

    for one, other in zip(got, gradients(*(held(a, pyrite.device("numpy")) for a in given)),
                          strict=True):  # fmt: skip
        most = TOLERANCE[dtype.name]
        np.testing.assert_allclose(
            one.numpy().astype(np.float64), other.numpy().astype(np.float64), most, most * 4
        )


@pytest.mark.parametrize(
    "shape",
    [(64, 8, 22, 22), (33, 5, 7, 7), (3, 4, 70, 80), (2, 3, 4, 4), (300, 3, 1, 20)],
    ids=str,
)
def test_what_is_summed_while_it_is_written_has_the_bits_of_its_sum_alone(
    cpu: Device, shape: tuple[int, ...]
) -> None:
    g, x, weight = (held(array(*s), cpu) for s in (shape, shape, shape[1:2]))
    ran, (of_x, *_, total) = launched(cpu, lambda: gradients(g, x, weight))

    assert sum("sum" in one.ops for one in ran) == 1
    np.testing.assert_array_equal(total, held(of_x, cpu).sum(AXES).numpy())


def test_a_gradient_its_sums_and_the_sum_of_it_are_one_kernel_that_writes_no_more(
    cpu: Device,
) -> None:
    g, x, weight = (held(array(*s), cpu) for s in ((16, 3, 20, 20), (16, 3, 20, 20), (3,)))
    ran, _ = launched(cpu, lambda: gradients(g, x, weight))

    rows = [one for one in ran if "sum" in one.ops]
    # The gradient, its sum, and the two sums that those of the weight and the bias are made of.
    assert [buffers_written(one) for one in rows] == [4]


@pytest.mark.parametrize(("size", "count"), [(28, 1), (7, 2)])
def test_what_is_costly_is_made_with_a_norm_where_pieces_of_a_channel_are_long(
    cpu: Device, size: int, count: int
) -> None:
    x = held(array(16, 4, size, size), cpu)
    ran, (got,) = launched(cpu, lambda: (x.batch_norm()[0].gelu(),))

    assert len(ran) == count, [one.kernel.name for one in ran]
    alone = held(x.batch_norm()[0].numpy(), cpu).gelu().numpy()
    np.testing.assert_array_equal(got, alone)


def test_what_is_wanted_of_a_row_and_its_sum_take_one_pass(cpu: Device) -> None:
    x = held(array(40, 300), cpu)
    ran, (doubled, total) = launched(cpu, lambda: ((y := x * 2), y.sum(1)))

    assert len(ran) == 1
    np.testing.assert_array_equal(doubled, 2 * x.numpy())
    np.testing.assert_array_equal(total, held(doubled, cpu).sum(1).numpy())
