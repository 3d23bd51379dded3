"""Pools that nobody has, each declared in one place, work everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, custom_op
from pyrite.autodiff import grad
from pyrite.backend.device import device_names, device_problem
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.op import Fold
from pyrite.op.index import (
    Bound,
    IndexMap,
    Windows,
    coordinates,
    covering_windows,
    sliding_windows,
)
from pyrite.op.rule import AVERAGE, WindowFold, zero
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import DType, Shape, TensorType, bfloat16, float16, float32, int32

DEVICES = [n for n in device_names() if device_problem(n) is None and n != "candle"]

# ---- a power-average pool of windows that slide ----


def _sliding(x: Shape, *, size: int, stride: int, padding: int, power: float) -> Windows:
    rank = len(x) - 2
    counts = tuple((n + 2 * padding - size) // stride + 1 for n in x[2:])
    every = [(each,) * rank for each in (size, stride)]
    return sliding_windows(x, counts, *every, ((padding, padding),) * rank, (1,) * rank)


def _type(x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(_sliding(x.shape, **attrs).shape, x.dtype)


POWER = Fold(
    start=lambda dtype: ((0, dtype),),
    take=lambda k, x, *, power: (k.pow(k.abs(x), k.constant(power, float32)),),
    join=lambda _, s, t: (s[0] + t[0],),
    end=lambda k, s, *, power, count: k.pow(s[0] / count, k.constant(1 / power, float32)),
)


@custom_op(rule=WindowFold(POWER, _sliding), infer=_type, accepts="float")
def power_pool(
    x: Tensor, /, size: int = 3, *, stride: int = 2, padding: int = 1, power: float = 3.0
) -> Tensor:
    """The power mean of |x| over the elements of each window."""
    ...


def power_in_numpy(x: Any) -> Any:
    return over(x, 3, 2, 1, lambda w: np.mean(np.abs(w) ** 3.0) ** (1 / 3.0))


# ---- the mean of windows that cover an axis, of which the derivative follows ----


@custom_op(
    rule=WindowFold(AVERAGE, lambda x, *, counts: covering_windows(x, counts), neutral=zero),
    infer=lambda x, *, counts: TensorType((*x.shape[: -len(counts)], *counts), x.dtype),
    accepts="float",
)
def covering_mean(x: Tensor, /, counts: tuple[int, ...] = (2, 3)) -> Tensor:
    """The means of windows that cover the last axes."""
    ...


def covering_in_numpy(x: Any) -> Any:
    def parts(n: int, count: int) -> list[slice]:
        return [slice(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]

    rows, columns = parts(x.shape[-2], 2), parts(x.shape[-1], 3)
    return np.stack(
        [np.stack([x[..., r, c].mean((-2, -1)) for c in columns], -1) for r in rows], -2
    )


# ---- the place of the least element below the diagonal: windows of a form of their own ----


def _below(x: Shape) -> Windows:
    """Of row i the elements before column i + 2, each second one."""
    *_, row, tap = coordinates(len(x))
    places = (*coordinates(len(x) - 1), tap * 2)
    taps = -(-x[-1] // 2)
    bounds = (Bound(tap * 2 - row, None, 2),)
    return Windows(IndexMap((*x[:-1], taps), x, places, bounds), 1, tap * 2)


LEAST = Fold(
    start=lambda dtype: ((dtype.highest, dtype), (-1, int32), (0, int32)),
    take=lambda k, x, *, position: (x, position, 1),
    join=lambda k, s, t: (
        k.where(t[0] < s[0], t[0], s[0]), k.where(t[0] < s[0], t[1], s[1]), s[2] + t[2],
    ),
    end=lambda k, s, *, first, count: (
        k.where(s[1] < 0, first, s[1]), k.cast(s[2], float32) / count
    ),
)  # fmt: skip


@custom_op(
    rule=WindowFold(LEAST, _below),
    infer=lambda x: (TensorType(x.shape[:-1], int32), TensorType(x.shape[:-1], float32)),
)
def least_below(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The place of the least of elements, and 1: how many there were over how many count."""
    ...


def over(x: Any, size: int, stride: int, padding: int, of: Callable[[Any], Any]) -> Any:
    """What a function makes of the elements in each window of the last two axes."""
    rows, columns = ((n + 2 * padding - size) // stride + 1 for n in x.shape[-2:])
    found = np.zeros((*x.shape[:-2], rows, columns))
    for at in np.ndindex(found.shape):
        *image, i, j = at
        top, left = i * stride - padding, j * stride - padding
        spans = [slice(max(begin, 0), begin + size) for begin in (top, left)]
        found[at] = of(x[(*image, *spans)])
    return found


POOLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "power": (power_pool, power_in_numpy),
    "covering": (covering_mean, covering_in_numpy),
}
BOUND = {float32: 1e-5, float16: 4e-3, bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "strict", True)


@pytest.mark.sample(40)
@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (1, 1, 4, 70), (1, 2, 3, 3), (0, 2, 5, 5)])
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("device", DEVICES)
def test_it_is_what_loops_say(device: str, name: str, shape: Shape, dtype: DType) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype.numpy)
    op, meaning = POOLS[name]
    got = op(tensor(x, device=device)).numpy().astype(np.float64)
    np.testing.assert_allclose(got, meaning(x.astype(np.float64)), BOUND[dtype], BOUND[dtype])


@pytest.mark.sample(40)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=repr)
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("device", DEVICES)
def test_it_reads_every_layout(device: str, name: str, layout: Layout) -> None:
    x = layout.settled(np.random.default_rng(1).normal(size=(2, 2, 5, 7)).astype(np.float32))
    op, meaning = POOLS[name]
    got = op(layout(x, device)).numpy()
    np.testing.assert_allclose(got, meaning(x.astype(np.float64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_mean_has_its_derivative_and_the_next(device: str) -> None:
    rng = np.random.default_rng(2)
    x = tensor(rng.normal(size=(1, 2, 5, 7)).astype(np.float32), device=device)
    h = tensor(rng.normal(size=(1, 2, 2, 3)).astype(np.float32), device=device)
    got = grad(lambda x: (covering_mean(x) * h).sum())(x)
    want = grad(lambda x: (x.adaptive_avg_pool((2, 3)) * h).sum())(x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    got, want = (
        grad(lambda x, p=pool: (grad(lambda y: (p(y) ** 3 * h).sum())(x) ** 2).sum())(x).numpy()
        for pool in (covering_mean, lambda x: x.adaptive_avg_pool((2, 3)))
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 9), (2, 4, 33), (1, 1)])
@pytest.mark.parametrize("device", DEVICES)
def test_windows_of_any_form_are_folded(device: str, shape: Shape) -> None:
    x = np.random.default_rng(3).integers(0, 4, shape).astype(np.int32)
    places, ones = least_below(tensor(x, device=device))
    want = np.zeros(shape[:-1], np.int32)
    for at in np.ndindex(want.shape):
        want[at] = 2 * np.argmin(x[at][: at[-1] + 2 : 2])
    np.testing.assert_array_equal(places.numpy(), want)
    np.testing.assert_array_equal(ones.numpy(), np.ones(want.shape))


@pytest.mark.parametrize("device", [name for name in DEVICES if name in ("cpu", "wgpu")])
def test_windows_whose_places_are_beyond_int32_are_refused(device: str) -> None:
    x = tensor(np.zeros((1, 70_000), np.float32), device=device)
    with pytest.raises(DeviceError, match="requires output_size <= 46340"):
        grad(lambda x: covering_mean(x, counts=(1, 60_000)).sum())(x).numpy()
