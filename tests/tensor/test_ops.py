"""The suite that is generated from the op table: a new op is covered when it is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import Autodiff, grad, value_and_grad
from pyrite.errors import GradientError
from pyrite.op import OPS
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import (
    Example,
    central_difference,
    directional_difference,
    examples,
    samples_of,
)
from pyrite.types import DType, bfloat16, float16, float32

EXAMPLES = list(examples())

#: Ops whose derivative has no derivative rule, with the reason.
FIRST_ORDER_ONLY = {
    "digamma": "its derivative, trigamma, is where the closed list of intrinsics ends",
}

#: Ops whose results depend on the dtype by design.
DTYPE_IS_THE_POINT = {"astype", "nextafter"}


def float_positions(example: Example) -> list[int]:
    """Positions of the float inputs to which a gradient may flow."""
    return [
        position
        for position, a in enumerate(example.arrays())
        if isinstance(a, np.ndarray)
        and a.dtype == np.float64
        and a.size
        and example.is_differentiable(position)
    ]


DIFFERENTIABLE = [e for e in EXAMPLES if float_positions(e)]


def as_tensors(arrays: list[Any]) -> list[Any]:
    return [tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]


def weighted_sum(example: Example, inputs: list[Any]) -> Any:
    """A scalar that depends on every element of every float result, each with its own weight."""
    rng = np.random.default_rng(7)
    total: Any = 0.0
    for result in example.call(inputs):
        if result.dtype.is_float:
            weight = tensor(rng.uniform(-1, 1, result.shape), device=result.device)
            total = total + (result * weight).sum()
    return total


def scalar_value(example: Example, *arrays: Any) -> float:
    return float(weighted_sum(example, as_tensors(list(arrays))))


def along_input(example: Example, position: int) -> Callable[[Tensor], Any]:
    """The weighted sum as a function of one input."""

    def of_input(x: Tensor) -> Any:
        inputs = as_tensors(example.arrays())
        inputs[position] = x
        return weighted_sum(example, inputs)

    return of_input


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_has_samples_and_says_what_it_does(name: str) -> None:
    op = OPS[name]
    assert samples_of(op), f"{name} has no samples"
    assert op.doc, f"{name} has no docstring"


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32], ids=lambda d: d.name)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(2, by="example.op")
def test_a_narrower_dtype_gives_the_same_values_within_its_precision(
    example: Example, dtype: DType
) -> None:
    narrow = example.arrays(dtype)
    if example.op.name in DTYPE_IS_THE_POINT or not any(is_of(a, dtype) for a in narrow):
        return
    # Both start from the same rounded inputs, so that only the arithmetic differs.
    wide = [a.astype(np.float64) if is_of(a, dtype) else a for a in narrow]
    got = example.call(as_tensors(narrow))
    want = example.call(as_tensors(wide))
    eps = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7}[dtype.name]
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        if g.dtype.is_float:
            expected = w.numpy().astype(np.float64)
            finite = np.abs(expected[np.isfinite(expected)])
            scale = max(1.0, float(finite.max(initial=0)))
            np.testing.assert_allclose(
                g.numpy().astype(np.float64), expected, rtol=16 * eps, atol=16 * eps * scale
            )
        elif dtype is float32:
            np.testing.assert_array_equal(g.numpy(), w.numpy())


def is_of(a: Any, dtype: DType) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == dtype.numpy


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
def test_the_strides_of_the_inputs_do_not_matter(example: Example) -> None:
    plain = as_tensors(example.arrays(float32))
    strided = as_tensors(example.arrays(float32))
    for t in strided:
        if isinstance(t, Tensor) and t.ndim > 1:
            # upload copies into row-major order; only a handle of our own is strided
            t._handle = np.ascontiguousarray(t._handle.T).T
    for got, want in zip(example.call(strided), example.call(plain), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("example", DIFFERENTIABLE, ids=lambda e: e.id)
@pytest.mark.sample(1, by="example.op")
def test_the_gradient_is_that_of_central_differences(example: Example) -> None:
    arrays = example.arrays()
    for position in float_positions(example):
        _, got = value_and_grad(along_input(example, position))(tensor(arrays[position]))
        want = central_difference(lambda *a: scalar_value(example, *a), arrays, position)
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("example", DIFFERENTIABLE, ids=lambda e: e.id)
@pytest.mark.sample(1, by="example.op")
def test_the_second_derivative_is_that_of_differences_of_the_gradient(example: Example) -> None:
    if example.op.name in FIRST_ORDER_ONLY:
        return
    rng = np.random.default_rng(3)
    for position in float_positions(example):
        at = example.arrays()[position]
        direction = rng.uniform(-1, 1, at.shape)
        first = grad(along_input(example, position))

        def slope(x: Tensor, first: Any = first, direction: Any = direction) -> Any:
            return (first(x) * tensor(direction, device=x.device)).sum()

        got = grad(slope)(tensor(at)).numpy()
        # The Hessian is symmetric, so H v is also how the gradient changes along v.
        want = directional_difference(lambda x, f=first: f(tensor(x)).numpy(), at, direction)
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("example", DIFFERENTIABLE, ids=lambda e: e.id)
@pytest.mark.sample(1, by="example.op")
def test_recomputing_cheap_ops_does_not_change_the_gradient(example: Example) -> None:
    for position in float_positions(example):
        x = tensor(example.arrays()[position])
        fn = along_input(example, position)
        _, plain = value_and_grad(lambda x, fn=fn: fn(x * 1.0))(x)
        _, balanced = value_and_grad(lambda x, fn=fn: fn(x * 1.0), checkpointing="balanced")(x)
        np.testing.assert_array_equal(balanced.numpy(), plain.numpy())


@pytest.mark.parametrize("name", sorted(FIRST_ORDER_ONLY.keys() & OPS.keys()))
def test_an_op_whose_derivative_ends_says_so(name: str) -> None:
    example = next(e for e in EXAMPLES if e.op.name == name)
    first = grad(lambda x: example.call([x])[0].sum())
    second = grad(lambda x: first(x).sum())
    with pytest.raises(GradientError, match="requires a derivative rule to be differentiated"):
        grad(lambda x: second(x).sum())(tensor(np.array([1.5])))


def test_autodiff_has_no_method_named_after_an_op() -> None:
    assert not set(vars(Autodiff)) & set(OPS)
