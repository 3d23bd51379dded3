"""Numbers that change in a kernel take the dtype of what they meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import Device


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
def test_numbers_take_the_dtype_of_what_they_meet(
    dtype: str, device: Device, op_of: Any, rows: Any
) -> None:
    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        (i,) = k.at
        total = 0
        for j in range(x.shape[1]):
            total += x[i, j] * (j + 1)
        out[i] = total if i < 3 else 2

    if not device.backend.supports(pyrite.types.TensorType((), pyrite.types.dtype(dtype))):
        pytest.skip(f"{device} has no {dtype}")
    x, n = rows
    x = pyrite.tensor((x * 8).round().tolist(), dtype=dtype, device=device)

    got = op_of(body)(x, pyrite.tensor(n, device=device))

    exact = x.astype("float64" if dtype == "float64" else "float32").numpy()
    wanted = (exact * np.arange(1, x.shape[1] + 1)).sum(1)
    wanted[3:] = 2
    assert got.dtype is x.dtype
    assert np.array_equal(got.numpy(), pyrite.tensor(wanted, dtype=dtype).numpy())


def test_fractions_of_a_kernel_in_float64_are_not_rounded_to_float32(
    device: Device, op_of: Any
) -> None:
    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        total, weight = 0.0, 0.1
        for _ in range(5):
            total, weight = total + weight, weight / 3.0
        out[k.at] = total

    if not device.backend.supports(pyrite.types.TensorType((), pyrite.float64)):
        pytest.skip(f"{device} has no float64")
    x = pyrite.ones((1, 1), dtype="float64", device=device)

    got = op_of(body)(x, pyrite.ones((1,), dtype="int32", device=device)).item()

    assert got == pytest.approx(sum(0.1 / 3.0**i for i in range(5)), rel=1e-15)
