"""An op that reads or writes by index is declared in one place, and works on every device.

The ops here exist nowhere else: each is a rule and the type of its result, as an application would
write it.  Values, derivatives of the first and second order, layouts, dtypes and ranges follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.backend.fallback import fallbacks
from pyrite.errors import GradientError, IndexRangeError, ShapeError
from pyrite.op import OPS, custom_op
from pyrite.op.rule import ADD, ASSIGN, Collision, Gather, Scatter, Writes
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import FLOATS, INTEGERS, DType, TensorType, bool_, float32, float64, int32

WORKING = [name for name in device_names() if device_problem(name) is None]
#: Those that run rules themselves.
BY_RULE = [name for name in WORKING if not name.startswith("candle")]

each_device = pytest.mark.parametrize("name", WORKING)
pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

# ---- ops that nobody has ----


def _type_of_index(x: TensorType, i: TensorType) -> TensorType:
    return TensorType(i.shape, x.dtype)


@custom_op(rule=Gather(lambda at, index, x, i: (at[0], index(at[0]))), infer=_type_of_index)
def take_of_each_row(x: Tensor, i: Tensor, /) -> Tensor:
    """out[a] = x[a, i[a]]."""
    ...


@custom_op(
    rule=Gather(lambda at, index, x, i, j: (index(at[0]), at[2], index(at[1], of=2))),
    infer=lambda x, i, j: TensorType((*i.shape, *j.shape, x.shape[1]), x.dtype),
)
def take_both(x: Tensor, i: Tensor, j: Tensor, /) -> Tensor:
    """out[a, b, c] = x[i[a], c, j[b]]."""
    ...


@custom_op(
    rule=Gather(lambda at, index, x, i: (index(at[1], at[1]), at[0]), drops=True),
    infer=lambda x, i: TensorType((x.shape[1], len(range(i.shape[0]))), x.dtype),
)
def take_by_diagonal(x: Tensor, i: Tensor, /) -> Tensor:
    """out[a, b] = x[i[b, b], a], 0 where there is no such row."""
    ...


@custom_op(
    rule=Scatter(lambda at, index, i, y, *, size: (at[1], index(at[0], of=0)), ADD, updates=1),
    infer=lambda i, y, *, size: TensorType((y.shape[1], size), y.dtype),
)
def add_columns(i: Tensor, y: Tensor, /, size: int) -> Tensor:
    """out[b, i[a]] += y[a, b], from 0 on."""
    ...


@custom_op(
    rule=Scatter(lambda at, index, x, i, y: (index(at[0]), 0), ASSIGN, base=0, updates=2),
    infer=lambda x, i, y: x, promotes=(0, 2),
)  # fmt: skip
def put_in_first_column(x: Tensor, i: Tensor, y: Tensor, /) -> Tensor:
    """out[i[a], 0] = y[a]."""
    ...


@custom_op(
    rule=Scatter(
        lambda at, index, x, i, y: (index(at[0]), at[1], at[1]),
        Collision(lambda k, old, new: k.hypot(old, new)), base=0, updates=2,
    ),
    infer=lambda x, i, y: x,
)  # fmt: skip
def hypot_on_diagonals(x: Tensor, i: Tensor, y: Tensor, /) -> Tensor:
    """out[i[a], b, b] = hypot of itself and all of its y[a, b]."""
    ...


@dataclass(frozen=True)
class Case:
    """An op of this file, what it means in NumPy, and its inputs: shapes, and indices below."""

    op: Callable[..., Tensor]
    meaning: Callable[..., Any]
    inputs: tuple[Any, ...]
    is_differentiable: bool = True

    def arrays(self, dtype: DType, index: DType = int32, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        found: list[Any] = []
        for given in self.inputs:
            if callable(given):
                indices = given(rng)
                found.append((indices % 2 if index.kind != "int" else indices).astype(index.numpy))
            else:
                drawn = (
                    rng.integers(-3, 4, given) if not dtype.is_bool else rng.integers(0, 2, given)
                )
                found.append(np.abs(drawn).astype(dtype.numpy) if dtype.kind == "uint" else
                             drawn.astype(dtype.numpy))  # fmt: skip
        return found

    def __str__(self) -> str:
        return self.op.__name__


def _below(size: int, *shape: int, low: int | None = None) -> Callable[[Any], Any]:
    return lambda rng: rng.integers(-size if low is None else low, size, shape)


def _with_columns(i: Any, y: Any, *, size: int) -> Any:
    out = np.zeros((y.shape[1], size), y.dtype)
    np.add.at(out.T, i, y)
    return out


def _with_first_column(x: Any, i: Any, y: Any) -> Any:
    out = x.copy()
    for a, row in enumerate(i):
        out[row, 0] = y[a]
    return out


def _with_hypot(x: Any, i: Any, y: Any) -> Any:
    out = x.astype(np.float64)
    for a, b in np.ndindex(*y.shape):
        out[i[a], b, b] = np.hypot(out[i[a], b, b], y[a, b])
    return out.astype(x.dtype)


def _by_diagonal(x: Any, i: Any) -> Any:
    rows = np.diagonal(i).astype(np.int64)
    is_there = (rows >= -x.shape[0]) & (rows < x.shape[0])
    return np.where(is_there, x[np.where(is_there, rows, 0)].T, 0).astype(x.dtype)


CASES = [
    Case(take_of_each_row, lambda x, i: x[np.arange(5), i], ((5, 7), _below(7, 5))),
    Case(
        take_both, lambda x, i, j: np.moveaxis(x[i][:, :, j], 1, 2),
        ((4, 3, 5), _below(4, 6), _below(5, 2)),
    ),
    Case(take_by_diagonal, _by_diagonal, ((4, 3), _below(6, 5, 5))),
    Case(
        lambda i, y: add_columns(i, y, size=4), lambda i, y: _with_columns(i, y, size=4),
        (_below(4, 9), (9, 3)),
    ),
    Case(put_in_first_column, _with_first_column, ((4, 3), _below(4, 7), (7,))),
    Case(
        hypot_on_diagonals, _with_hypot, ((3, 5, 5), _below(3, 4), (4, 5)), is_differentiable=False
    ),
]  # fmt: skip
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.meaning.__name__ + str(c))


@pytest.fixture(autouse=True)
def _no_device_with_rules_falls_back() -> Iterator[None]:
    before = fallbacks()
    yield
    fell = {key for key, count in fallbacks().items() if count > before.get(key, 0)}
    assert not [key for key in fell if key[0] in BY_RULE]


def _on(arrays: list[Any], name: str) -> list[Tensor]:
    return [tensor(a, device=name) for a in arrays]


def _assert_equal(got: Tensor, want: Any) -> None:
    assert got.shape == want.shape
    assert got.dtype.numpy == want.dtype
    if got.dtype.is_float:
        bound = {8: 1e-12, 4: 1e-5, 2: 2e-2}[got.dtype.itemsize]
        np.testing.assert_allclose(
            got.numpy().astype(np.float64), want.astype(np.float64), rtol=bound, atol=bound
        )
    else:
        np.testing.assert_array_equal(got.numpy(), want)


def _has(name: str, *dtypes: DType) -> bool:
    return all(device(name).backend.root.supports(TensorType((), d)) for d in dtypes)


@each_device
@each_case
@pytest.mark.sample(20, by="name")
@pytest.mark.parametrize("dtype", [bool_, *INTEGERS, *FLOATS], ids=str)
def test_its_values_follow_in_every_dtype(name: str, case: Case, dtype: DType) -> None:
    if case.op is hypot_on_diagonals and not dtype.is_float:
        return
    for seed, index in enumerate(INTEGERS):
        if not _has(name, dtype, index):
            continue
        arrays = case.arrays(dtype, index, seed)
        _assert_equal(case.op(*_on(arrays, name)), case.meaning(*arrays))


@each_device
@each_case
@pytest.mark.sample(20, by="name")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
def test_its_values_follow_in_every_layout(name: str, case: Case, layout: Layout) -> None:
    plain = case.arrays(float32)
    for which in range(len(plain)):
        arrays = [
            layout.settled(a) if n == which and layout.applies(a.shape) else a
            for n, a in enumerate(plain)
        ]
        laid = [
            layout(a, name) if n == which and layout.applies(a.shape) else tensor(a, device=name)
            for n, a in enumerate(arrays)
        ]
        _assert_equal(case.op(*laid), case.meaning(*arrays))


@each_device
@each_case
@pytest.mark.parametrize("order", [1, 2])
def test_its_derivatives_follow(name: str, case: Case, order: int) -> None:
    if not _has(name, float64):
        return
    arrays = case.arrays(float64)
    for position, array in enumerate(arrays):
        if array.dtype != np.float64:
            continue
        found = [
            _slope(case, arrays, position, where, order) for where in (name, "numpy")
        ] if case.is_differentiable else []  # fmt: skip
        if not case.is_differentiable:
            with pytest.raises(GradientError, match=r"hypot_on_diagonals requires a derivative"):
                _slope(case, arrays, position, name, order)
        elif name == "numpy":
            np.testing.assert_allclose(
                found[0], _differences(case, arrays, position, order), atol=1e-4
            )
        else:
            np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def _slope(case: Case, arrays: list[Any], position: int, name: str, order: int) -> Any:
    """The gradient of a sum of squares, or of the sum of the squares of that."""
    inputs = _on(arrays, name)

    def total(x: Tensor) -> Any:
        y = case.op(*inputs[:position], x, *inputs[position + 1 :])
        return (y * y * y).sum()

    def of_gradient(x: Tensor) -> Any:
        g = grad(total)(x)
        return (g * g).sum()

    return grad(total if order == 1 else of_gradient)(inputs[position]).numpy()


def _differences(case: Case, arrays: list[Any], position: int, order: int) -> Any:
    step = 1e-5

    def total(x: Any) -> Any:
        if order == 2:
            changed = [*arrays[:position], x, *arrays[position + 1 :]]
            return (_slope(case, changed, position, "numpy", 1) ** 2).sum()
        y = case.meaning(*arrays[:position], x, *arrays[position + 1 :])
        return (y * y * y).sum()

    found = np.zeros_like(arrays[position])
    for at in np.ndindex(*found.shape):
        there, here = arrays[position].copy(), arrays[position].copy()
        there[at] += step
        here[at] -= step
        found[at] = (total(there) - total(here)) / (2 * step)
    return found


@each_device
def test_its_range_follows(name: str) -> None:
    x = tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3), device=name)
    with pytest.raises(IndexRangeError, match=r"take_of_each_row requires -3 <= index < 3"):
        take_of_each_row(x, tensor([0, 3], device=name)).numpy()
    with pytest.raises(IndexRangeError, match=r"add_columns requires -2 <= index < 2"):
        add_columns(tensor([0, -3], device=name), x, size=2).numpy()


def test_a_place_that_the_source_has_not_is_an_error_of_the_rule() -> None:
    x, i = tensor(np.zeros((3, 4), np.float32)), tensor([0, 1, 2, 3])
    with pytest.raises(ShapeError, match="a place requires coordinates inside"):
        take_of_each_row(x, i)


@each_device
def test_it_reads_and_writes_nothing(name: str) -> None:
    none, x = tensor(np.zeros(0, np.int32), device=name), np.ones((4, 3), np.float32)
    assert take_of_each_row(tensor(x[:0], device=name), none).shape == (0,)
    written = put_in_first_column(tensor(x, device=name), none, none.astype("float32"))
    np.testing.assert_array_equal(written.numpy(), x)


# ---- the ops of Pyrite ----

BY_INDEX = [e for e in examples() if isinstance(e.op.rule, Gather | Writes)]


#: The first sample of each op that users give indices; those of a pool's gradient are the pool's.
GIVEN = [e for e in BY_INDEX if e.number == 0 and e.op.name != "max_pool_backward"]


def _index_position(example: Example) -> int:
    rule = example.op.rule
    assert isinstance(rule, Gather | Writes)
    starts = ("is_last", "embedding_b", "bincount", "class_mask")
    return 0 if example.op.name.startswith(starts) else 1


@each_device
@pytest.mark.parametrize("index", INTEGERS, ids=str)
@pytest.mark.parametrize("example", GIVEN, ids=lambda e: e.op.name)
@pytest.mark.sample(1, by="example.op", of={"name": "wgpu"})
def test_no_index_is_taken_for_another_whatever_its_dtype(
    name: str, example: Example, index: DType
) -> None:
    """The greatest and the least of a dtype are outside of every axis of the samples."""
    if not _has(name, index):
        return
    if name.startswith("torch:") and name != "torch:cpu" and "_backward" in example.op.name:
        return  # a GPU's gradient op asks no second time what its forward op has asked
    position = _index_position(example)
    arrays = example.arrays()
    assert isinstance(example.op.rule, Gather | Writes)
    for bad in {int(index.highest), int(index.lowest)} - {0}:
        indices = np.zeros(arrays[position].shape, index.numpy)
        indices.flat[-1] = bad
        given = [indices if p == position else _small(a) for p, a in enumerate(arrays)]
        inputs = [tensor(a, device=name) if isinstance(a, np.ndarray) else a for a in given]
        if example.op.rule.drops:
            (got,) = example.call(inputs, name)
            assert got.numpy().sum() == indices.size - 1
            continue
        with pytest.raises(IndexRangeError):
            example.call(inputs, name)[0].numpy()


def _small(a: Any) -> Any:
    return a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a


def test_every_op_that_reads_or_writes_by_index_has_a_rule() -> None:
    starts = (
        "take",
        "gather",
        "scatter",
        "embedding",
        "is_last",
        "bincount_",
        "max_pool_b",
        "class_mask",
    )
    # A composite without a rule is made of ops that have one.
    named = {
        name for name, op in OPS.items()
        if name.startswith(starts) and (op.rule is not None or not op.is_composite)
    }  # fmt: skip
    assert {e.op.name for e in BY_INDEX} >= named
