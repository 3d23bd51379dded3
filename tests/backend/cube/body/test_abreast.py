"""Rows side by side: turned in registers or as they lie, whole and at the end of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-2),
    "log_softmax": lambda x: x.log_softmax(-2),
    "normed": lambda x: (x - x.mean(-2, keepdims=True)) * x.var(-2, keepdims=True),
    "gradient": lambda x: pyrite.grad(lambda x: (x.softmax(-2) ** 2).sum())(x),
}


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    runtime = CpuRuntime(threads=2)
    yield Device(CubeBackend(runtime))
    runtime.close()


def array(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def along(values: Any, device: Device, gap: int = 0) -> Tensor:
    """Return a tensor whose axis but one lies along memory, rows ``gap`` elements apart."""
    turned = np.swapaxes(values, -1, -2)
    wide = np.zeros((*turned.shape[:-1], turned.shape[-1] + gap), values.dtype)
    wide[..., gap:] = turned
    return tensor(wide, device=device)[..., gap:].mT


#: Columns of 1 to 600 elements, whole tiles and not; as many as a vector has lanes, or more.
SHAPES = [(1, 40), (3, 9), (4, 17), (10, 33), (33, 16), (70, 19), (256, 40), (257, 9), (2, 31, 11)]
SHAPES += [(513, 12), (600, 33), (3, 5, 8)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sample(4, by=("name", "dtype"))
def test_columns_have_the_same_bits_whichever_way_they_lie(
    name: str, dtype: str, shape: tuple[int, ...], cpu: Device
) -> None:
    values = array(*shape, dtype=dtype)
    want = CALLS[name](tensor(values, device=cpu)).numpy()

    for x in (along(values, cpu), along(values, cpu, gap=3)):
        np.testing.assert_array_equal(CALLS[name](x).numpy(), want)
    judge = CALLS[name](tensor(values.astype("float64"), device="numpy")).numpy()
    tolerance = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}[dtype]
    np.testing.assert_allclose(want, judge, rtol=tolerance, atol=tolerance)


def test_rows_at_the_end_of_a_line_do_not_write_those_before_them_in_place(cpu: Device) -> None:
    values = array(700, 64)
    kept = along(values.T[:9], cpu)

    for _ in range(4):
        # The memory of what is dropped is written again.
        found = (along(values.T[:9], cpu) * 1.0).softmax(0).numpy()
        np.testing.assert_array_equal(found, kept.softmax(0).numpy())


def test_a_maximum_that_is_not_finite_is_what_it_is_elsewhere(cpu: Device) -> None:
    values = array(12, 20)
    values[3, 4], values[5, 6], values[:, 7] = np.nan, np.inf, -np.inf

    with np.errstate(all="ignore"):
        want = tensor(values, device="numpy").softmax(0).numpy()
    for x in (tensor(values, device=cpu), along(values, cpu)):
        np.testing.assert_allclose(x.softmax(0).numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(7, 5, 4), (3, 5, 5), (2, 3, 16), (9, 17), (6, 6, 20)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_a_later_pass_reads_alone_is_not_taken_from_the_first(
    name: str, dtype: str, shape: tuple[int, ...], cpu: Device
) -> None:
    """The output in a gradient: the first pass sums cotangents."""
    values, weights = array(*shape, dtype=dtype), array(*shape[::-1], dtype=dtype).reshape(shape)

    def gradient(x: Tensor, g: Tensor) -> Any:
        return pyrite.grad(lambda x: (getattr(x, name)(-2) * g).sum())(x).numpy()

    want = gradient(tensor(values, device="numpy"), tensor(weights, device="numpy"))
    for x in (tensor(values, device=cpu), along(values, cpu), along(values, cpu, gap=3)):
        for g in (tensor(weights, device=cpu), along(weights, cpu)):
            np.testing.assert_allclose(gradient(x, g), want, rtol=1e-4, atol=1e-4)
