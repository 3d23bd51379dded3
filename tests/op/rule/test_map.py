"""A view and moves that nobody has, each declared in one place, work everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, custom_op
from pyrite.autodiff import grad
from pyrite.backend.device import Device, device, device_names, device_problem
from pyrite.config import config
from pyrite.errors import GradientError
from pyrite.op.index import Bound, IndexMap, coordinates
from pyrite.op.rule import Map, Piece, View
from pyrite.tensor.creation import tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import DTYPES, DType, Shape, TensorType

DEVICES = [n for n in device_names() if device_problem(n) is None and n != "candle"]

# ---- a view: a diagonal ----


def _diagonal(x: Shape, *, offset: int) -> IndexMap:
    at = coordinates(len(x) - 1)
    size = min(x[-2], x[-1] - offset)
    return IndexMap((*x[:-2], size), x, (*at[:-1], at[-1], at[-1] + offset))


@custom_op(
    rule=View(_diagonal),
    infer=lambda x, *, offset: TensorType(_diagonal(x.shape, offset=offset).shape, x.dtype),
)
def diagonal_of(x: Tensor, /, offset: int = 0) -> Tensor:
    """The diagonal of each matrix: (..., M, N) -> (..., K)."""
    ...


# ---- a view from the end on, with gaps ----


def _thinned(x: Shape, *, step: int) -> IndexMap:
    at, n = coordinates(len(x)), x[-1]
    return IndexMap((*x[:-1], -(-n // step)), x, (*at[:-1], at[-1] * -step + (n - 1)))


@custom_op(
    rule=View(_thinned),
    infer=lambda x, *, step: TensorType(_thinned(x.shape, step=step).shape, x.dtype),
)
def thinned(x: Tensor, /, step: int = 2) -> Tensor:
    """Every so manieth element of the last axis, from its end on: (..., N) -> (..., K)."""
    ...


# ---- a move of several pieces: a reflection at both ends of the last axis ----


def _reflected(x: Shape, *, width: int) -> list[Piece]:
    at, n = coordinates(len(x)), x[-1]
    shape = (*x[:-1], n + 2 * width)

    def piece(place: Any, low: int, high: int) -> Piece:
        return Piece(IndexMap(shape, x, (*at[:-1], place), (Bound(at[-1], low, high),)))

    return [
        piece(at[-1] - width, width, width + n),
        piece(width - at[-1], 0, width),
        piece(2 * (n - 1) + width - at[-1], width + n, n + 2 * width),
    ]


@custom_op(
    rule=Map(_reflected),
    infer=lambda x, *, width: TensorType((*x.shape[:-1], x.shape[-1] + 2 * width), x.dtype),
)
def reflected(x: Tensor, /, width: int = 1) -> Tensor:
    """The elements, and their reflections at both ends."""
    ...


# ---- a move with a mask and a fill, of two inputs of which the first goes before ----


def _patched(x: Shape, patch: Shape, *, low: int) -> list[Piece]:
    """The patch along its diagonals from ``low`` on, x before column 3, and else nothing."""
    *_, i, j = at = coordinates(len(x))
    return [
        Piece(IndexMap(x, patch, at[-1:], (Bound(j - i, low),)), 1),
        Piece(IndexMap(x, x, at, (Bound(j, None, 3),))),
    ]


@custom_op(rule=Map(_patched, fill=7), infer=lambda x, patch, *, low: x, promotes="all")
def patched(x: Tensor, patch: Tensor, /, low: int = 1) -> Tensor:
    """A row over each row of x from a diagonal on, and 7 in what is left behind column 3."""
    ...


def patched_in_numpy(x: Any, patch: Any, low: int) -> Any:
    rows, columns = np.indices(x.shape)[-2:]
    seven = np.full((), 7).astype(x.dtype)
    return np.where(columns - rows >= low, patch, np.where(columns < 3, x, seven))


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Shape]]] = {
    "diagonal": (
        lambda x: diagonal_of(x, offset=1),
        lambda x: np.diagonal(x, 1, -2, -1),
        [(3, 5), (2, 7, 4), (1, 2), (0, 3, 3)],
    ),
    "thinned": (
        lambda x: thinned(x, step=3),
        lambda x: x[..., ::-3],
        [(3, 5), (2, 7, 4), (1, 1), (0, 3, 3)],
    ),
    "reflected": (
        lambda x: reflected(x, width=2),
        lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(2, 2)], mode="reflect"),
        [(3, 5), (7,), (2, 1, 33), (0, 4)],
    ),
    "patched": (
        lambda x: patched(x, x[0], low=1),
        lambda x: patched_in_numpy(x, x[0], 1),
        [(3, 5), (9, 37), (1, 2), (4, 1)],
    ),
}
EACH = [(name, shape) for name, (_, _, shapes) in CASES.items() for shape in shapes]


@pytest.fixture(autouse=True)
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "strict", True)


@pytest.mark.sample(80)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "shape"), EACH)
@pytest.mark.parametrize("device", DEVICES)
def test_it_is_what_numpy_says_in_every_dtype(
    device: str, name: str, shape: Shape, dtype: DType
) -> None:
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype.numpy)
    op, meaning, _ = CASES[name]
    try:
        given = tensor(x, device=device)
    except Exception:
        pytest.skip("the device has no such dtype")
    np.testing.assert_array_equal(op(given).numpy(), meaning(x))


@pytest.mark.sample(80)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=repr)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", DEVICES)
def test_it_reads_every_layout(device: str, name: str, layout: Layout) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    if not layout.applies(x.shape):
        pytest.skip("the layout is a dense one here")
    x = layout.settled(x)
    op, meaning, _ = CASES[name]
    np.testing.assert_array_equal(op(layout(x, device)).numpy(), meaning(x))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", DEVICES)
def test_its_derivatives_follow_from_its_rule(device: str, name: str) -> None:
    rng = np.random.default_rng(2)
    op = CASES[name][0]
    x, weight = rng.normal(size=(2, 4, 6))
    h = rng.normal(size=op(tensor(x)).shape)

    def first(x: Tensor) -> Tensor:
        return (op(x) * op(x) * tensor(h.astype(x.dtype.numpy), device=x.device)).sum()

    def second(x: Tensor) -> Tensor:
        return (grad(first)(x) * tensor(weight.astype(x.dtype.numpy), device=x.device)).sum()

    for function in (first, second):
        got = grad(function)(tensor(x.astype(np.float32), device=device)).numpy()
        want = slopes(lambda v, f=function: f(tensor(v)).numpy(), x)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def slopes(f: Callable[[Any], Any], x: Any, step: float = 1e-3) -> Any:
    """Central differences of a function of an array, in float64."""
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = np.array(x)
            moved[at] += sign * step
            ends.append(f(moved))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def test_what_wraps_around_has_no_derivative_of_its_own() -> None:
    @custom_op(
        rule=View(lambda x: IndexMap(x, x, ((coordinates(1)[0] + 1) % x[0],))), infer=lambda x: x
    )
    def rolled(x: Tensor, /) -> Tensor:
        """The elements one place further."""
        ...

    np.testing.assert_array_equal(rolled(tensor([1, 2, 3])).numpy(), [2, 3, 1])
    with pytest.raises(GradientError, match="rolled requires a derivative rule"):
        grad(lambda x: rolled(x).sum())(tensor([1.0, 2.0, 3.0]))


def test_a_view_of_an_application_copies_nothing() -> None:
    if "cpu" not in DEVICES:
        pytest.skip("there are no kernels here")
    x = tensor(np.ones((4, 4), np.float32), device=Device(device("cpu").backend.root))
    assert diagonal_of(x)._handle.buffer is x._handle.buffer
    assert diagonal_of(x)._handle.strides == (5,)
