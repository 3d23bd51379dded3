"""A contraction is declared in one place, and works on every device, with all its derivatives.

The ops here exist nowhere else: each is a function that says which products it sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.op import OPS, custom_op
from pyrite.op.index import Form, coordinates
from pyrite.op.rule import Contract, Products
from pyrite.tensor.creation import tensor
from pyrite.tensor.product_rules import CONVOLUTION, INPUT_GRADIENT, MATMUL, WEIGHT_GRADIENT
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import FLOATS, INTEGERS, Array, DType, Shape, TensorType, float64

WORKING = [name for name in device_names() if device_problem(name) is None]
#: Those that run rules themselves.
BY_RULE = [name for name in WORKING if not name.startswith("candle")]

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

# ---- ops that nobody has ----


def _correlated(x: Shape, y: Shape) -> Products:
    rows, i, k = coordinates(3)
    size = (x[1] + 3) // 2
    return Products.of(
        (x[0], size, y[0]), (x, (rows, 2 * i + 3 * k - 4)), (y, (k,)), ((x[0], size), (rows, i))
    )


@custom_op(
    rule=Contract(_correlated),
    infer=lambda x, y: TensorType((x.shape[0], (x.shape[1] + 3) // 2), x.dtype),
)
def correlated(x: Tensor, y: Tensor, /) -> Tensor:
    """out[r, i] = sum of x[r, 2 i + 3 k - 4] y[k] over those k for which x has it."""
    ...


def _diagonal_blocks(x: Shape, y: Shape) -> Products:
    b, i, j, k = coordinates(4)
    points = (x[0], x[1] // x[0], y[1], x[2])
    return Products.of(
        points, (x, (b, b * points[1] + i, k)), (y, (k, j)), ((y[1], points[1], x[0]), (j, i, b))
    )


@custom_op(
    rule=Contract(_diagonal_blocks),
    infer=lambda x, y: TensorType((y.shape[1], x.shape[1] // x.shape[0], x.shape[0]), x.dtype),
)
def diagonal_blocks(x: Tensor, y: Tensor, /) -> Tensor:
    """out[j, i, b] = sum of x[b, b I + i, k] y[k, j]: the diagonal blocks of a batch, turned."""
    ...


def _circular(x: Shape, y: Shape) -> Products:
    i, k = coordinates(2)
    size = x[0]
    return Products.of((size, y[0]), (x, ((i + k) % size,)), (y, (k,)), (x, (i,)))


def _circular_type(x: TensorType, y: TensorType) -> TensorType:
    return x


@custom_op(
    rule=Contract(_circular),
    infer=_circular_type,
    vjp=(None, lambda g, _, x: None),
)
def circular(x: Tensor, y: Tensor, /) -> Tensor:
    """out[i] = sum of x[(i + k) % N] y[k]: no product of matrices."""
    ...


def _of_scattered(x: Shape, y: Shape) -> Products:
    i, k = coordinates(2)
    place = Form() + 3 * i
    return Products.of((x[0], y[0]), (x, (i,)), (y, (k,)), ((3 * x[0] + 2,), (place + 1,)))


@custom_op(
    rule=Contract(_of_scattered),
    infer=lambda x, y: TensorType((3 * x.shape[0] + 2,), x.dtype),
)
def spread(x: Tensor, y: Tensor, /) -> Tensor:
    """out[3 i + 1] = x[i] times the sum of y, and 0 elsewhere."""
    ...


def _correlation(x: Array, y: Array) -> Array:
    out = np.zeros((x.shape[0], (x.shape[1] + 3) // 2), x.dtype)
    for i in range(out.shape[1]):
        for k in range(len(y)):
            if 0 <= 2 * i + 3 * k - 4 < x.shape[1]:
                out[:, i] += x[:, 2 * i + 3 * k - 4] * y[k]
    return out


def _blocks(x: Array, y: Array) -> Array:
    size = x.shape[1] // x.shape[0]
    blocks = np.stack([x[b, b * size : (b + 1) * size] for b in range(x.shape[0])])
    return np.einsum("bik,kj->jib", blocks, y)


def _circle(x: Array, y: Array) -> Array:
    turns = [np.roll(x, -k) * y[k] for k in range(len(y))]
    return np.sum(turns, 0, dtype=x.dtype)


def _spread(x: Array, y: Array) -> Array:
    out = np.zeros(3 * len(x) + 2, x.dtype)
    out[1 : 3 * len(x) : 3] = x * y.sum(dtype=y.dtype)
    return out


@dataclass(frozen=True)
class Case:
    """An op of this file, what it means in NumPy, and the shapes of its inputs."""

    op: Callable[..., Tensor]
    meaning: Callable[..., Array]
    shapes: tuple[Shape, Shape]

    def arrays(self, dtype: DType) -> list[Array]:
        rng = np.random.default_rng(0)
        low = 0 if dtype.kind == "uint" else -3
        return [rng.integers(low, 4, shape).astype(dtype.numpy) for shape in self.shapes]


CASES = {
    "correlated": Case(correlated, _correlation, ((3, 11), (4,))),
    "diagonal_blocks": Case(diagonal_blocks, _blocks, ((3, 6, 5), (5, 7))),
    "circular": Case(circular, _circle, ((9,), (4,))),
    "spread": Case(spread, _spread, ((4,), (3,))),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", WORKING)
@pytest.mark.sample(20, by="name")
def test_values_are_those_of_numpy(name: str, dtype: DType, layout: Layout, case: Case) -> None:
    if not device(name).backend.root.supports(TensorType((), dtype)):
        pytest.skip(f"{name} has no {dtype}")
    arrays = [layout.settled(a) if layout.applies(a.shape) else a for a in case.arrays(dtype)]
    inputs = [
        layout(a, name) if layout.applies(a.shape) else tensor(a, device=name) for a in arrays
    ]
    wide = [a.astype(np.float32) if dtype.is_float else a for a in arrays]
    want = case.meaning(*wide).astype(dtype.numpy)
    np.testing.assert_array_equal(case.op(*inputs).numpy(), want)


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=n) for n, c in CASES.items() if c.op is not circular]
)
@pytest.mark.parametrize("name", WORKING)
def test_derivatives_of_both_orders_are_contractions(name: str, case: Case) -> None:
    """Both inputs' cotangents are linear, so differences of any step are exact."""
    x, y = (a.astype(np.float32) for a in case.arrays(float64))
    seeds = np.random.default_rng(1)
    g, dx, dy = (
        seeds.integers(-2, 3, s).astype(np.float32)
        for s in (case.meaning(x, y).shape, x.shape, y.shape)
    )

    def product(x: Tensor, y: Tensor) -> Tensor:
        return (case.op(x, y) * tensor(g, device=name)).sum()

    def directional(x: Tensor, y: Tensor) -> Tensor:
        of_x, of_y = grad(product, argnums=(0, 1))(x, y)
        return (of_x * tensor(dx, device=name)).sum() + (of_y * tensor(dy, device=name)).sum()

    inputs = [tensor(a, device=name) for a in (x, y)]
    want = (g * case.meaning(dx, y)).sum() + (g * case.meaning(x, dy)).sum()
    assert directional(*inputs).item() == want
    of_x, of_y = grad(directional, argnums=(0, 1))(*inputs)
    ex, ey = seeds.integers(-2, 3, x.shape), seeds.integers(-2, 3, y.shape)
    second = (of_x.numpy() * ex).sum() + (of_y.numpy() * ey).sum()
    ex, ey = ex.astype(np.float32), ey.astype(np.float32)
    assert second == (g * case.meaning(dx, ey)).sum() + (g * case.meaning(ex, dy)).sum()


# ---- the ops of Pyrite ----


WINDOWS: dict[str, Any] = {
    "stride": (2, 1), "padding": ((1, 2), (2, 0)), "dilation": (1, 2), "groups": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rule", "shapes", "attrs"),
    [
        ("matmul", MATMUL, ((2, 1, 3, 4), (5, 4, 2)), {}),
        ("convolution", CONVOLUTION, ((2, 4, 9, 12), (6, 2, 3, 2)), WINDOWS),
    ],
)
def test_gradients_of_a_rule_are_the_declared_ones(
    name: str, rule: Contract, shapes: Any, attrs: Any
) -> None:
    derived = Bare(rule)
    arrays = [np.random.default_rng(i).standard_normal(s) for i, s in enumerate(shapes)]
    declared: Any = {"matmul": Tensor._matmul, "convolution": Tensor.convolution}[name]
    out = declared(*map(tensor, arrays), **attrs)
    weights = tensor(np.random.default_rng(2).standard_normal(out.shape))
    for position in (0, 1):
        found = [
            grad(lambda *xs: (op(*xs, **attrs) * weights).sum(), argnums=position)(  # noqa: B023
                *map(tensor, arrays)
            ).numpy()
            for op in (declared, derived.op(name))
        ]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-12)


class Bare:
    """An op of an application with a rule of Pyrite's, and nothing else."""

    def __init__(self, rule: Contract) -> None:
        self.rule = rule

    def op(self, name: str) -> Callable[..., Tensor]:
        infer: Any = OPS[name].infer
        if name == "matmul":
            return custom_op(rule=self.rule, infer=infer)(_two)
        return custom_op(rule=self.rule, infer=infer)(_windowed)


def _two(x: Tensor, y: Tensor, /) -> Tensor:
    """As declared."""
    ...


def _windowed(
    x: Tensor, weight: Tensor, /, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """As declared."""
    ...


@pytest.mark.parametrize("name", BY_RULE)
@pytest.mark.parametrize(
    ("op", "rule", "shapes", "attrs"),
    [
        ("convolution", CONVOLUTION, ((2, 4, 9, 12), (6, 2, 3, 2)), WINDOWS),
        (
            "convolution_input_gradient", INPUT_GRADIENT, ((2, 6, 5, 12), (6, 2, 3, 2)),
            {**WINDOWS, "sizes": (9, 12)},
        ),
        (
            "convolution_weight_gradient", WEIGHT_GRADIENT, ((2, 4, 9, 12), (2, 6, 5, 12)),
            {**WINDOWS, "kernel_size": (3, 2)},
        ),
    ],
    ids=["convolution", "input gradient", "weight gradient"],
)  # fmt: skip
def test_a_term_that_does_not_exist_is_not_multiplied(
    name: str, op: str, rule: Contract, shapes: Any, attrs: Any
) -> None:
    """Padding is no element: an infinite factor reaches what it meets, and nothing else."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[1].reshape(-1)[::7] = np.inf
    with np.errstate(invalid="ignore"):
        want: Any = OPS[op].reference(*(a.copy() for a in arrays), **attrs)  # type: ignore[misc]
    by_rule: Any = custom_op(rule=rule, infer=OPS[op].infer)(SIGNATURES[op])
    got = by_rule(*(tensor(a.astype(np.float32), device=name) for a in arrays), **attrs).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=2e-5, atol=2e-5)


def _of_input(
    g: Tensor, weight: Tensor, /, sizes: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """As declared."""
    ...


def _of_weight(
    x: Tensor, g: Tensor, /, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """As declared."""
    ...


SIGNATURES: dict[str, Callable[..., Any]] = {
    "convolution": _windowed,
    "convolution_input_gradient": _of_input,
    "convolution_weight_gradient": _of_weight,
}
