"""A scan and a recurrence that nobody has, declared in one place, work everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, custom_op
from pyrite.autodiff import grad
from pyrite.backend.device import device_names, device_problem
from pyrite.op import Fold, Recurrence, Scan
from pyrite.tensor.axis import axis_of
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import DType, TensorType, bfloat16, float16, float32

DEVICES = [n for n in device_names() if device_problem(n) is None and n != "candle"]


def _longer(x: TensorType, *, axis: int, reverse: bool, include_initial: bool) -> TensorType:
    sizes = list(x.shape)
    sizes[axis] += include_initial
    return TensorType(tuple(sizes), x.dtype)


def _running_squares_vjp(
    g: Any, _: Any, x: Any, *, axis: int, reverse: bool, include_initial: bool
) -> Any:
    return g.cumulative_sum(axis, reverse=not reverse) * x * 2.0


@custom_op(
    rule=Scan(
        Fold(
            start=lambda dtype: ((0, dtype),),
            take=lambda k, x: (x * x,),
            join=lambda k, s, t: (s[0] + t[0],),
        )
    ),
    canonical=axis_of("running_squares"),
    infer=_longer,
    vjp=(_running_squares_vjp,),
    accepts="float",
)
def running_squares(
    x: Tensor, /, axis: int, *, reverse: bool = False, include_initial: bool = False
) -> Tensor:
    """Sums of the squares of all elements up to each."""
    ...


def expected(x: Any, axis: int, reverse: bool, include_initial: bool) -> Any:
    squares = np.square(x.astype(np.float64))
    found = np.cumsum(np.flip(squares, axis) if reverse else squares, axis)
    if include_initial:
        edge = np.zeros_like(squares, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        found = np.concatenate([edge, found], axis)
    return np.flip(found, axis) if reverse else found


@pytest.mark.sample(5, by="name")
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5,), 0), ((3, 1), 1), ((2, 0), 1), ((0, 2), 1), ((4, 33, 3), 1), ((70_001,), 0)],
)
@pytest.mark.parametrize("name", DEVICES)
def test_a_new_scan_has_its_values_on_every_device(
    name: str, shape: Any, axis: int, dtype: DType
) -> None:
    array = np.random.default_rng(0).uniform(0.5, 1, shape).astype(dtype.numpy)
    bound = {"float32": 2e-4, "float16": 2e-3, "bfloat16": 1e-2}[dtype.name]
    if dtype is float16:
        array = array / np.float16(np.sqrt(max(array.shape[axis], 1)))
    for reverse in (False, True):
        for initial in (False, True):
            got = running_squares(
                tensor(array, device=name), axis, reverse=reverse, include_initial=initial
            )
            want = expected(array, axis, reverse, initial)
            assert (got.shape, got.dtype) == (want.shape, dtype)
            np.testing.assert_allclose(got.numpy().astype(np.float64), want, bound, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@pytest.mark.parametrize("name", DEVICES)
def test_a_new_scan_takes_every_layout(name: str, layout: Layout) -> None:
    array = layout.settled(np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32))
    for axis in range(3):
        got = running_squares(layout(array, name), axis, reverse=True)
        np.testing.assert_allclose(got.numpy(), expected(array, axis, True, False), 1e-5)


@pytest.mark.parametrize("name", DEVICES)
def test_a_new_scan_has_its_gradient_on_every_device(name: str) -> None:
    array = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)

    got = grad(lambda x: running_squares(x, 1).sum())(tensor(array, device=name))

    np.testing.assert_allclose(got.numpy(), 2.0 * array * np.arange(5, 0, -1), 1e-5)


# ---- recurrences ----


@custom_op(
    rule=Recurrence(
        first=lambda k, x: k.maximum(x, 0.0),
        step=lambda k, before, x, decay, gain: k.maximum(before * decay + x * gain, 0.0),
    ),
    canonical=axis_of("leaky"),
    infer=lambda x, decay, gain, *, axis, reverse: x,
    accepts="float",
)
def leaky(x: Tensor, decay: Tensor, gain: Tensor, /, *, axis: int, reverse: bool = False) -> Tensor:
    """A sum that leaks and never is negative."""
    ...


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [0, 1, 2, 19])
@pytest.mark.parametrize("name", DEVICES)
def test_a_new_recurrence_with_two_links_works_on_every_device(
    name: str, size: int, reverse: bool
) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, size)).astype(np.float32)
    decay, gain = rng.uniform(0, 1, (2, 3, max(size - 1, 0))).astype(np.float32)
    got = leaky(*(tensor(a, device=name) for a in (x, decay, gain)), axis=1, reverse=reverse)

    step = -1 if reverse else 1
    terms, decays, gains = (a[:, ::step] for a in (x, decay, gain))
    want = np.zeros_like(terms)
    for i in range(size):
        before = want[:, i - 1] * decays[:, i - 1] if i else 0.0
        want[:, i] = np.maximum(before + terms[:, i] * (gains[:, i - 1] if i else 1.0), 0.0)
    np.testing.assert_allclose(got.numpy(), want[:, ::step], 1e-5, atol=1e-6)


@custom_op(rule=Recurrence(step=lambda k, before, x: before * 0.5 + x), infer=lambda x, *, axis: x)
def decayed(x: Tensor, /, axis: int) -> Tensor:
    """A recurrence whose author says nothing of the forms of an axis."""
    ...


@custom_op(
    rule=Scan(Fold(start=lambda dtype: ((0, dtype),), join=lambda k, s, t: (s[0] + t[0],))),
    infer=lambda x, *, axis: x,
)
def added_up(x: Tensor, /, axis: int) -> Tensor:
    """A scan of the same author."""
    ...


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", DEVICES)
def test_the_axis_of_a_new_scan_may_count_from_the_end(name: str, axis: int) -> None:
    array = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x = tensor(array, device=name)
    np.testing.assert_array_equal(added_up(x, axis - 3).numpy(), array.cumsum(axis))
    np.testing.assert_array_equal(decayed(x, axis - 3).numpy(), decayed(x, axis).numpy())
