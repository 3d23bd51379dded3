"""Functions drawn at random compute what Python makes of them, invocation by invocation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.extension import kernel
from pyrite.testing.random_functions import COLUMNS, random_function
from pyrite.types import TensorType

ROWS = 8


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(200))
def test_a_random_function_is_what_python_makes_of_it(seed: int, device: Device) -> None:
    @custom_op(
        infer=lambda x, n, *, flag: (TensorType(n.shape, x.dtype), n),
        kernels=[kernel(random_function(seed))],
    )
    def op(x: Tensor, n: Tensor, /, *, flag: bool) -> tuple[Tensor, Tensor]:
        """An op of that function."""
        ...

    random = np.random.default_rng(seed)
    x = random.integers(-16, 17, (ROWS, COLUMNS)).astype(np.float32) / 4
    n = random.integers(-3, 12, ROWS).astype(np.int32)

    def results(where: Any) -> list[Tensor]:
        given = pyrite.tensor(x, device=where), pyrite.tensor(n, device=where)
        return [*op(*given, flag=seed % 2 == 0)]

    for got, wanted in zip(results(device), results("numpy"), strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())
