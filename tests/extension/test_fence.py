"""Arithmetic that a driver might simplify away, as a kernel has written it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend import device_problem
from pyrite.extension import kernel
from pyrite.types import TensorType


@kernel(workgroup_size=1, grid=lambda x, out: (1,))
def compensated_sum_kernel(k: Any, x: Any, out: Any) -> None:
    """Source: Kahan, "Further remarks on reducing truncation errors", 1965."""
    total = k.const(0.0, "float32")
    lost = k.const(0.0, "float32")
    for i in range(x.shape[0]):
        y = x[i] - lost
        more = k.fence(total + y)
        lost = k.fence(more - total) - y
        total = more
    out[0] = total


@pyrite.custom_op(infer=lambda x: TensorType((1,), x.dtype), kernels=[compensated_sum_kernel])
def compensated_sum(x: Tensor, /) -> Tensor:  # type: ignore[empty-body]
    """The sum of float32, with what each addition loses added to the next."""
    ...


@pytest.mark.parametrize("name", ["numpy", "cpu", "wgpu"])
def test_a_compensated_sum_keeps_what_additions_lose(name: str) -> None:
    if problem := device_problem(name):
        pytest.skip(problem)
    array = np.concatenate([[1e7], np.full(2000, 0.1)]).astype(np.float32)

    assert np.cumsum(array, dtype=np.float32)[-1] == 1e7
    assert compensated_sum(pyrite.tensor(array, device=name)).item() == 10_000_200.0
