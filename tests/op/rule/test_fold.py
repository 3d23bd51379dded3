"""A reduction that nobody has, declared in one place, works everywhere."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, custom_op, fusion
from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.errors import AxisError
from pyrite.op import Fold
from pyrite.tensor.axis import axes_of, reduced_shape, spread
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import (
    INTEGERS,
    DType,
    TensorType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
)

DEVICES = [n for n in device_names() if device_problem(n) is None and n != "candle"]
#: Shapes and axes, with sizes of 0 and 1, odd ones, and a long one that is cut in parts.
CASES = [
    ((3, 5), 1), ((3, 5), 0), ((4, 1, 7), (0, 2)), ((), None), ((2, 0), 1), ((0, 2), 1), ((1,), 0),
    ((67, 33), None), ((2, 70_001), 1), ((3, 4), ()),
]  # fmt: skip


def _powers_type(x: TensorType, *, axis: Any, scale: float, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


@custom_op(
    rule=Fold(
        start=lambda dtype: ((0, dtype), (False, bool_)),
        take=lambda k, x, *, scale: (x * x * scale, k.isnan(x)),
        join=lambda k, s, t: (s[0] + t[0], s[1] | t[1]),
        end=lambda k, s, *, count: k.where(s[1], -1.0, k.sqrt(s[0] / max(count, 1))),
    ),
    canonical=axes_of("scaled_rms"),
    infer=_powers_type,
    vjp=(
        lambda g, out, x, *, axis, scale, keepdims: (
            spread(g / out, x._type, axis, keepdims) * x * (scale * out.size / x.size)
        ),
    ),
    accepts="float",
)
def scaled_rms(
    x: Tensor, /, axis: Any = None, *, scale: float = 1.0, keepdims: bool = False
) -> Tensor:
    """The root of scaled mean squares; -1 where there is a NaN."""
    ...


def expected(x: Any, axis: Any, scale: float) -> Any:
    wide = x.astype(np.float64)
    axes = tuple(range(x.ndim)) if axis is None else axis
    count = max(int(np.prod([x.shape[a] for a in np.atleast_1d(axes).astype(int)])), 1)
    found = np.sqrt((wide * wide * scale).sum(axes) / count)
    return np.where(np.isnan(wide).any(axes), -1.0, found)


@pytest.mark.sample(10, by="name")
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("name", DEVICES)
def test_a_new_reduction_has_its_values_on_every_device(
    name: str, shape: Any, axis: Any, dtype: DType
) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(dtype.numpy)
    array.reshape(-1)[7:8] = np.nan
    got = scaled_rms(tensor(array, device=name), axis, scale=3.0)

    bound = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype.name]
    want = expected(array, axis, 3.0)
    assert (got.shape, got.dtype) == (want.shape, dtype)
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, bound)


@pytest.mark.sample(6, by="name")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@pytest.mark.parametrize("name", DEVICES)
def test_a_new_reduction_takes_every_layout(name: str, layout: Layout) -> None:
    array = layout.settled(np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32))
    for axis in ((0,), (1,), (2,), (0, 2), None):
        got = scaled_rms(layout(array, name), axis)
        np.testing.assert_allclose(got.numpy(), expected(array, axis, 1.0), 1e-5)


@pytest.mark.parametrize("name", DEVICES)
def test_a_new_reduction_has_its_gradient_on_every_device(name: str) -> None:
    array = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)
    x = tensor(array, device=name)

    got = grad(lambda x: scaled_rms(x, 1, scale=2.0).sum())(x)

    rms = expected(array, 1, 2.0)[:, None]
    np.testing.assert_allclose(got.numpy(), 2.0 * array / (5 * rms), 1e-4)


# ---- integers, positions, several results ----


def _last_of_greatest_type(x: TensorType, *, axis: int) -> tuple[TensorType, TensorType]:
    shape = reduced_shape(x.shape, (axis,), False)
    return TensorType(shape, x.dtype), TensorType(shape, int32)


def _join_last(k: Any, s: Any, t: Any) -> Any:
    (x, i), (y, j) = s, t
    wins = (y > x) | ((x == y) & (j > i))
    return k.where(wins, y, x), k.where(wins, j, i)


@custom_op(
    rule=Fold(
        start=lambda dtype: ((dtype.lowest, dtype), (-1, int32)),
        take=lambda k, x, *, position: (x, position),
        join=_join_last,
        end=lambda k, s: s,
    ),
    infer=_last_of_greatest_type,
)
def last_of_greatest(x: Tensor, /, *, axis: int) -> tuple[Tensor, Tensor]:
    """The greatest and the position of the last that is as great."""
    ...


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("name", "axis"), [(n, a) for n, a in itertools.product(DEVICES, (0, 1, 2))]
)
def test_a_new_position_is_exact_for_all_integers(name: str, axis: int, dtype: DType) -> None:
    if name == "wgpu" and dtype.itemsize == 8:
        pytest.skip("the device has no integers of 64 bits")
    rng = np.random.default_rng(3)
    array = rng.integers(
        int(dtype.highest) - 3, int(dtype.highest), (4, 9, 5), dtype.numpy, endpoint=True
    )
    values, positions = last_of_greatest(tensor(array, device=name), axis=axis)

    size = array.shape[axis]
    np.testing.assert_array_equal(values.numpy(), array.max(axis))
    want = size - 1 - np.flip(array, axis).argmax(axis)
    np.testing.assert_array_equal(positions.numpy(), want)


# ---- what a rule is made of may change ----


FACTOR = 1.0


@custom_op(
    rule=Fold(
        start=lambda dtype: ((0, dtype),),
        take=lambda k, x: (x * FACTOR,),
        join=lambda k, s, t: (s[0] + t[0],),
    ),
    infer=lambda x, *, axis: TensorType((), x.dtype),
)
def multiples(x: Tensor, /, *, axis: None = None) -> Tensor:
    """The sum of multiples by a number that the rule reads."""
    ...


@pytest.mark.parametrize("name", DEVICES)
def test_a_fold_that_reads_what_changed_is_another_fold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor(np.ones(5, np.float32), device=name)
    assert float(multiples(x)) == 5.0

    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3.0)
    assert float(multiples(x)) == 15.0


# ---- composites whose kernel is a fold ----

OFFSETS = np.array([0.0, 1e4, -3e5])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", DEVICES)
def test_variances_of_offset_data_keep_their_digits(name: str, axis: int) -> None:
    noise = np.random.default_rng(4).normal(size=(3, 50_001))
    array = (noise + OFFSETS[:, None]).astype(np.float32)
    array = array if axis == 1 else array.T.copy()
    # A first element that is no neighbour of the others must not be taken for their middle.
    array[(slice(None), 0) if axis == 1 else 0] = 0.0
    x, wide = tensor(array, device=name), array.astype(np.float64)

    np.testing.assert_allclose(x.var(axis).numpy(), wide.var(axis), 2e-5)
    np.testing.assert_allclose(x.std(axis, correction=1).numpy(), wide.std(axis, ddof=1), 2e-5)
    variance, mean = x.var_mean(axis)
    np.testing.assert_allclose(variance.numpy(), wide.var(axis), 2e-5)
    np.testing.assert_allclose(mean.numpy(), wide.mean(axis), 1e-6, atol=1e-5)


SPECIAL = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], np.float32)
PAIRS = np.array(list(itertools.product(SPECIAL, repeat=2)), np.float32)


@pytest.mark.parametrize("width", [2, 19, 64])
@pytest.mark.parametrize("name", [n for n in DEVICES if n != "wgpu"])
def test_what_is_not_finite_is_as_in_the_bodies(name: str, width: int) -> None:
    array = np.full((len(PAIRS), width), -np.inf, np.float32)
    array[:, : width - 2] = 0.5
    array[:, -2:] = PAIRS
    x, judge = tensor(array, device=name), tensor(array, device="numpy")

    for of in (
        lambda x: x.var(1), lambda x: x.std(1), lambda x: x.var_mean(1)[1],
        lambda x: x.logsumexp(1), lambda x: x.vector_norm(1), lambda x: x.max_abs(1),
        lambda x: x.vector_norm(1, ord=np.inf), lambda x: x.vector_norm(1, ord=-np.inf),
        lambda x: x.vector_norm(1, ord=0), lambda x: x.count_nonzero(1),
        lambda x: x.max_with_indices(1)[0], lambda x: x.max_with_indices(1)[1],
    ):  # fmt: skip
        np.testing.assert_allclose(of(x).numpy(), of(judge).numpy(), 1e-6)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", [n for n in ("cpu", "wgpu") if n in DEVICES])
def test_the_extremum_of_a_nan_is_a_quiet_one(name: str, dtype: DType) -> None:
    """A signalling one is an invalid operand of what meets it next: NumPy's casts warn of it."""
    word, quiet = (np.uint32, 1 << 22) if dtype is float32 else (np.uint64, 1 << 51)
    for where, n in itertools.product((name, fusion(name)), (1, 2, 17, 300)):
        x = tensor(np.full((2, n), np.nan), dtype=dtype, device=where)
        for of in (x.max(1), x.min(1), x.max(), x.min(), x.max_abs(1), x.T.max(0)):
            found = of.numpy()
            assert np.isnan(found).all()
            assert (found.view(word) & word(quiet)).all(), (where, n)


@pytest.mark.parametrize("name", [n for n in ("cpu", "wgpu") if n in DEVICES])
def test_a_composite_with_a_fold_is_one_pass_over_memory(name: str) -> None:
    backend = device(name).backend.root
    x = tensor(np.ones((64, 40), np.float32), device=name)
    for of in (
        lambda x: x.var(1), lambda x: x.std(0), lambda x: x.var_mean(1), lambda x: x.logsumexp(0),
        lambda x: x.vector_norm(1), lambda x: x.max_abs(0), lambda x: x.count_nonzero(1),
        lambda x: x.max_with_indices(1),
    ):  # fmt: skip
        of(x)
        before = backend.runtime.report()["launches"]
        of(x)
        assert backend.runtime.report()["launches"] - before == 1


@custom_op(
    rule=Fold(
        start=lambda dtype: ((0, dtype),),
        take=lambda k, x: (x * x,),
        join=lambda k, s, t: (s[0] + t[0],),
    ),
    infer=lambda x, *, axis: TensorType(
        reduced_shape(x.shape, (axis,) if isinstance(axis, int) else axis, False), x.dtype
    ),
)
def squares_summed(x: Tensor, /, axis: Any = None) -> Tensor:
    """A reduction whose author says nothing of the forms of an axis."""
    ...


@pytest.mark.parametrize("axis", [-1, -2, 0, np.int64(-1), (0, -1), [-2]])
@pytest.mark.parametrize("name", DEVICES)
def test_axes_of_a_new_reduction_may_count_from_the_end(name: str, axis: Any) -> None:
    """Without a ``canonical``: cpu summed other elements in silence, NumPy and PyTorch failed."""
    array = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    want = (array**2).sum(tuple(axis) if isinstance(axis, list) else axis)
    np.testing.assert_array_equal(squares_summed(tensor(array, device=name), axis).numpy(), want)


@pytest.mark.parametrize("name", DEVICES)
def test_an_axis_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(AxisError, match="squares_summed requires -2 <= axis < 2, got axis=2"):
        squares_summed(tensor([[1.0]], device=name), 2)
