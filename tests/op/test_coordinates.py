"""Scalar rules that read where their element lies work everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.autodiff import grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import device, device_names, device_problem
from pyrite.op.coordinates import attributes_read, coordinates_read
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import DType, TensorType, bfloat16, float16, float32, int8, int32

DEVICES = [n for n in device_names() if device_problem(n) is None and n != "candle"]
SHAPES = [(), (1,), (0,), (3,), (67,), (2, 0), (2, 3), (5, 1, 7), (3, 4, 33)]


@custom_op(
    scalar=lambda k, x, *, index: x + k.cast(index, float32),
    infer=lambda x: x,
    vjp=(lambda g, _, x: g,),
)
def numbered(x: Tensor, /) -> Tensor:
    """x plus the number of the element."""
    ...


@custom_op(
    scalar=lambda k, x, *, shape, at: k.where(at[0] == at[1], x, 0) * at.shape[-1],
    infer=lambda x, *, shape: TensorType(shape, x.dtype),
)
def diagonal_of(x: Tensor, /, *, shape: tuple[int, ...]) -> Tensor:
    """x, stretched to a shape, on the diagonal of the first two axes."""
    ...


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DEVICES)
def test_a_rule_gets_the_number_of_its_element(name: str, shape: Any) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    want = array + np.arange(array.size, dtype=np.float32).reshape(shape)

    np.testing.assert_array_equal(numbered(tensor(array, device=name)).numpy(), want)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@pytest.mark.parametrize("name", DEVICES)
def test_the_layout_of_an_input_does_not_change_the_number(name: str, layout: Layout) -> None:
    array = layout.settled(np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32))
    want = array + np.arange(array.size, dtype=np.float32).reshape(array.shape)

    np.testing.assert_array_equal(numbered(layout(array, name)).numpy(), want)


@pytest.mark.parametrize("dtype", [float32, float16, bfloat16, int8, int32], ids=str)
@pytest.mark.parametrize(("shape", "of"), [((3, 3), ()), ((5, 4), (4,)), ((4, 5, 3), (5, 1))])
@pytest.mark.parametrize("name", DEVICES)
def test_a_rule_gets_its_coordinates(name: str, shape: Any, of: Any, dtype: DType) -> None:
    array = np.random.default_rng(2).integers(1, 5, of).astype(dtype.numpy)
    got = diagonal_of(tensor(array, device=name), shape=shape)

    rows, columns = np.arange(shape[0]), np.arange(shape[1])
    is_on = (rows[:, None] == columns).reshape(shape[:2] + (1,) * (len(shape) - 2))
    want = np.where(is_on, np.broadcast_to(array, shape), 0).astype(np.float64) * shape[-1]
    assert got.dtype is dtype
    np.testing.assert_array_equal(got.numpy().astype(np.float64), want)


@pytest.mark.parametrize("name", DEVICES)
def test_its_gradient_is_the_rule_of_the_op(name: str) -> None:
    x = tensor(np.ones(5, np.float32), device=name)

    assert grad(lambda x: (numbered(x) * 2.0).sum())(x).tolist() == [2.0] * 5


@pytest.mark.parametrize("name", [n for n in ("cpu", "wgpu") if n in DEVICES])
def test_one_kernel_makes_ranges_and_constants_of_all_sizes(name: str) -> None:
    backend = device(name).backend.root
    assert isinstance(backend, CubeBackend)
    # Of whole vectors, and of some that are masked.
    for size in (96, 101):
        pyrite.arange(size, device=name).numpy()
        pyrite.full((size, 3), 3, device=name).numpy()
    before = backend.runtime.report()["kernels"]
    for size in (112, 1037, 5000):
        pyrite.arange(size, device=name).numpy()
        pyrite.full((size, 3), 3, device=name).numpy()

    assert backend.runtime.report()["kernels"] == before


def test_what_a_rule_reads_is_seen_in_its_signature() -> None:
    def rule(k: Any, x: Any, *, dtype: DType, at: Any, **_: Any) -> Any: ...

    def open_rule(k: Any, *, dtype: DType, **rest: Any) -> Any: ...

    attrs = {"dtype": float32, "shape": (1,)}
    assert coordinates_read(rule) == ("at",)
    assert attributes_read(rule, attrs) == {"dtype": float32}
    assert attributes_read(open_rule, attrs) == attrs
