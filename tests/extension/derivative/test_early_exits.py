"""Derivatives of loops that end when they like: ``while``, ``break``, ``continue``, ``return``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.extension import kernel
from pyrite.testing import check_gradients


def a_while(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    v = x[i]
    while v < 1.0:
        v = v * 1.5 + x[0] * 0.1 + 0.2
    out[i] = v


def a_break(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[0]):
        if x[j] > 2.0:
            break
        if j == i:
            continue
        total = total * 0.5 + x[j] * x[i]
    out[i] = total


def inside_of_each_other(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    total = x[i]
    for j in range(min(x.shape[0], 4)):
        v, n = x[j], 0
        while v * v < 4.0 and n < 6:
            v = v * v + x[i]
            n += 1
            if n > j + 1:
                break
        total += v * (j + 1)
    out[i] = total


def a_while_around_a_while(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    total, n = x[i] * 0.5, 0
    while n < 3:
        v = x[i]
        while v < 2.0:
            v = v * v + 0.9
        total = total * v
        n += 1
    out[i] = total


def returned(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    total = 1.0
    for j in range(x.shape[0]):
        total *= x[j] + 0.3
        if total > 1.7:
            out[i] = total * x[i]
            return
    out[i] = total - x[i]


def newton(k: Any, x: Any, out: Any) -> None:
    """A root, by as many steps as it takes."""
    (i,) = k.at
    wanted, root, n = x[i] + 1.0, 1.0, 0
    while True:
        new = 0.5 * (root + wanted / root)
        if abs(new - root) < 1e-9 or n > 30:
            break
        root, n = new, n + 1
    out[i] = root


def written_in_a_while(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    j = 0
    while j < 3 and x[i] > 0.5:
        out.atomic("add", (i + j) % x.shape[0], x[i] * x[j])
        j += 1


KERNELS = [
    a_while, a_break, inside_of_each_other, a_while_around_a_while, returned, newton,
    written_in_a_while,
]  # fmt: skip


def op_of(function: Callable[..., None]) -> Callable[..., Any]:
    fill = {"out": 0} if function is written_in_a_while else None

    @custom_op(infer=lambda x: x, kernels=[kernel(differentiable=True, fill=fill)(function)])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_differences_agree(function: Callable[..., None]) -> None:
    op = op_of(function)
    check_gradients(op, np.array([0.3, 0.7, 1.1, 2.3, 0.9]), device="cpu")
    check_gradients(lambda x: op(x[::-2]), np.array([0.6, 0.7, 1.2, 0.4, 0.9]), device="cpu")


@pytest.mark.sample(3)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("function", KERNELS[:-1], ids=lambda f: f.__name__)
def test_devices_agree(function: Callable[..., None], dtype: str, device: str) -> None:
    if problem := device_problem(device):
        pytest.skip(problem)
    op = op_of(function)
    given = [0.375, 0.75, 1.125, 2.25, 0.875]

    def gradient(where: Device, of: str) -> Any:
        x = pyrite.tensor(given, dtype=of, device=where)
        weight = pyrite.tensor([1.0, -2.0, 3.0, 0.5, -1.0], dtype=of, device=where)
        return pyrite.grad(lambda x: (op(x) * weight).sum())(x).astype("float32").numpy()

    wanted = gradient(pyrite.device("cpu"), "float32")
    tolerance = 1e-4 if dtype == "float32" else 0.1
    got = gradient(pyrite.device(device), dtype)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("count", [0, 1])
def test_loops_of_no_round_and_of_one(count: int) -> None:
    x = pyrite.ones((count,), device="cpu")

    assert pyrite.grad(lambda x: op_of(a_while)(x).sum())(x).tolist() == [1.0] * count
    assert pyrite.grad(lambda x: op_of(a_break)(x).sum())(x).tolist() == [0.0] * count
