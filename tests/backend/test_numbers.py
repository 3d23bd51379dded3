"""Python numbers beside tensors: which are taken, and as what, is the same on every device."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import DTypeError
from pyrite.tensor.creation import full, tensor
from pyrite.testing import examples
from pyrite.types import float32

pytestmark = [
    pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning"),
    # Of numbers that round to infinity NumPy says so.
    pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning"),
]

each_device = pytest.mark.parametrize(
    "device", [name for name in device_names() if device_problem(name) is None]
)


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 10**30])
@pytest.mark.parametrize(
    "function",
    [
        operator.add,
        operator.mul,
        operator.eq,
        operator.pow,
        Tensor.maximum,
        lambda x, n: x.at[0].set(n),
        lambda x, n: x.pad([(1, 1)], value=n),
        lambda x, n: pyrite.where(x, x, n),
    ],
)
@each_device
def test_an_integer_beside_bools_is_one_that_the_default_dtype_holds(
    device: str, function: Callable[..., Any], number: int
) -> None:
    x = tensor([True, False], device=device)
    function(x, 2)  # the plan of this call is not that of the next
    with pytest.raises(DTypeError, match=f"beside bool, got {number}"):
        function(x, number)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_device
def test_an_integer_beside_floats_may_be_large(device: str, dtype: str) -> None:
    x = tensor(np.array([1.5, -2.0]), dtype=dtype, device=device)
    for number in (2**31, 2**70, -(10**30)):
        want = np.array([1.5, -2.0], dtype) * float(number)
        np.testing.assert_allclose((x * number).numpy(), want, rtol=1e-6)
        chosen = pyrite.where(x > 0, number, 0.5)
        np.testing.assert_allclose(chosen.numpy(), [float(number), 0.5], rtol=1e-6)


@pytest.mark.parametrize("number", [1e39, -1e39, math.inf, 3.4e38])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@each_device
def test_full_of_a_float_beyond_a_dtype_is_infinite(device: str, dtype: str, number: float) -> None:
    want = tensor(np.array([number, number])).astype(dtype).tolist()
    assert full((2,), number, dtype=dtype, device=device).tolist() == want


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("exponent", [0, False, 1, True, 3, np.zeros(1, int), np.array([[2], [0]])])
@each_device
def test_whole_powers_broadcast(device: str, exponent: Any, dtype: str) -> None:
    base = np.arange(4).astype(dtype)
    power = exponent
    if isinstance(exponent, np.ndarray):
        exponent = exponent.astype(dtype)
        power = tensor(exponent, device=device)
    found = tensor(base, device=device) ** power
    np.testing.assert_array_equal(found.numpy(), base ** np.asarray(exponent).astype(dtype))


# ---- in the place of any operand ----

#: A number for each kind of dtype.
NUMBERS: dict[str, Any] = {"f": 0.5, "i": 1, "u": 1, "b": True}

#: Ops of several operands.  An optimiser's step, whose operands are parameters and their states,
#: is given tensors by `Optimizer` alone.
OPERANDS = sorted(
    {
        e.op.name
        for e in examples()
        if len(e.sample.inputs) > 1 and not e.op.name.endswith("_update")
    }
)


@each_device
@pytest.mark.parametrize("op", OPERANDS)
@pytest.mark.sample(25, by="device")
def test_a_number_stands_for_an_operand_as_it_does_on_numpy(device: str, op: str) -> None:
    """``x.take(1, 0)`` failed on kernels, and was told as a mistake."""
    for example in (e for e in examples() if e.op.name == op):
        arrays = example.arrays(float32)
        for position, array in enumerate(arrays):
            if not isinstance(array, np.ndarray):
                continue
            given = [*arrays]
            given[position] = NUMBERS[array.dtype.kind]

            def results(at: str, given: Any = given, example: Any = example) -> list[Any]:
                laid = [tensor(a, device=at) if isinstance(a, np.ndarray) else a for a in given]
                return [t.numpy() for t in example.call(laid, at)]

            try:
                wanted = results("numpy")
            except Exception:
                continue  # one that is refused: tests/test_hostile.py asks how
            for got, want in zip(results(device), wanted, strict=True):
                assert (got.shape, got.dtype) == (want.shape, want.dtype), (example, position)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=example.id)
