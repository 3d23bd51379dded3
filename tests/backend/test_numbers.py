"""Python numbers beside tensors: which are taken, and as what, is the same on every device."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import DTypeError, PyriteError
from pyrite.tensor.creation import full, tensor
from pyrite.testing import examples
from pyrite.types import DType, bool_, float32, int8, uint8

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


# ---- integers where floats are computed ----


@pytest.mark.parametrize("dtype", [int8, uint8, bool_])
def test_an_op_of_floats_makes_floats_of_integers(dtype: DType) -> None:
    """An affine grid of integers was cut off to integers."""
    for example in (e for e in examples() if e.op.accepts == "float"):
        given = [
            np.asarray(a * 3).astype(dtype.numpy)
            if isinstance(a, np.ndarray) and a.dtype.kind == "f"
            else a
            for a in example.arrays(float32)
        ]
        laid = [tensor(a, device="numpy") if isinstance(a, np.ndarray) else a for a in given]
        try:
            results = example.call(laid, "numpy")
        except PyriteError:
            continue
        wanted = example.call([tensor(a, device="numpy") if isinstance(a, np.ndarray) else a
                               for a in example.arrays(float32)], "numpy")  # fmt: skip
        for got, want in zip(results, wanted, strict=True):
            assert got.dtype.is_float or not want.dtype.is_float, example.id


def unary() -> list[str]:
    """Return the methods of a tensor that are called without arguments and give numbers."""
    found = []
    for name in dir(Tensor):
        method = getattr(Tensor, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        needed = [
            p for p in list(inspect.signature(method).parameters.values())[1:]
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]  # fmt: skip
        if not needed and not name.endswith("_async") and name not in DRAWING:
            found.append(name)
    return found


#: What gives another result each time.
DRAWING = ("shuffle", "bernoulli", "multinomial", "dropout")


@pytest.mark.parametrize("method", unary())
def test_of_integers_a_method_cuts_nothing_off_that_it_gives_of_floats(method: str) -> None:
    """``x.erfc()`` of integers was cut off to integers."""
    integers = np.array([-3, -1, 0, 1, 2, 3])
    try:
        want = getattr(tensor(integers, dtype="float64", device="numpy"), method)()
        got = getattr(tensor(integers, dtype="int32", device="numpy"), method)()
    except (PyriteError, RuntimeError, ImportError):
        return
    if isinstance(want, Tensor) and want.dtype.is_float:
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-6)
