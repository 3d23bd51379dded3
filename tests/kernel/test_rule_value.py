"""Operators of a scalar rule mean the same in every kernel as on tensors, of all operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_problem
from pyrite.op.rule import Fold
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import INTEGERS, Array, DType, TensorType, float32

#: Those whose kernels record rules.
DEVICES = ["cpu", "wgpu"]
DTYPES = [*INTEGERS, float32]


def ends_of(dtype: DType) -> Array:
    """Whole numbers of both signs, zero, and the bounds of an integer dtype."""
    ends = [int(dtype.lowest), int(dtype.highest)] if dtype.is_integer else []
    signed = [-7, -3, -1] if dtype.kind != "uint" else []
    return np.array([*ends, *signed, 0, 1, 2, 7, 40], dtype.numpy)


@pyrite.custom_op(scalar=lambda k, x, y: x // y)
def quotient(x: Tensor, y: Tensor, /) -> Tensor: ...


@pyrite.custom_op(scalar=lambda k, x, y: x % y)
def rest(x: Tensor, y: Tensor, /) -> Tensor: ...


@pyrite.custom_op(scalar=lambda k, x, y: 7 // (x - y))
def of_a_number(x: Tensor, y: Tensor, /) -> Tensor: ...


@pyrite.custom_op(scalar=lambda k, x, y: k.where(x < y, x, y) % 3 + k.maximum(x, y) // 3)
def by_a_number(x: Tensor, y: Tensor, /) -> Tensor: ...


WANTED = {
    quotient: lambda x, y: x // y,
    rest: lambda x, y: x % y,
    of_a_number: lambda x, y: 7 // (x - y),
    by_a_number: lambda x, y: pyrite.where(x < y, x, y) % 3 + x.maximum(y) // 3,
}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if problem := device_problem(name):
        pytest.skip(problem)
    return name


@pytest.mark.parametrize("op", WANTED, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_division_in_a_rule_is_that_of_tensors(device: str, op: Any, dtype: DType) -> None:
    numbers = ends_of(dtype)
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(numbers, numbers))
    try:
        got = op(tensor(x, device=device), tensor(y, device=device))
    except pyrite.errors.DTypeError as error:
        pytest.skip(str(error))

    want = WANTED[op](tensor(x), tensor(y))

    assert got.dtype is want.dtype
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pyrite.custom_op(scalar=lambda k, x, y: (x << y) ^ (x >> y))
def shifted(x: Tensor, y: Tensor, /) -> Tensor: ...


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_shifts_in_a_rule_are_those_of_tensors(device: str, dtype: DType) -> None:
    numbers = ends_of(dtype)
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(numbers, numbers))
    try:
        got = shifted(tensor(x, device=device), tensor(y, device=device))
    except pyrite.errors.DTypeError as error:
        pytest.skip(str(error))

    a, b = tensor(x), tensor(y)

    np.testing.assert_array_equal(got.numpy(), ((a << b) ^ (a >> b)).numpy())


@pyrite.custom_op(
    rule=Fold(
        start=lambda dtype: ((0, dtype),),
        take=lambda k, x: (x // 4,),
        join=lambda k, s, t: (s[0] + t[0],),
        end=lambda k, s, *, count: s[0] % 5,
    ),
    infer=lambda x, *, axis: TensorType((), x.dtype),
)
def folded(x: Tensor, /, *, axis: None = None) -> Tensor: ...


def test_division_in_a_fold_is_that_of_tensors(device: str) -> None:
    x = np.array([-7, -3, 5, -1], np.int32)

    want = (tensor(x) // 4).sum() % 5

    assert want.item() == 2
    assert folded(tensor(x, device=device)).item() == want.item()
