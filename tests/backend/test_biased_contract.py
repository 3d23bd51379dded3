"""Contractions with a bias, on every device and layout: it is added before the sums are rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.op import custom_op
from pyrite.op.index import Form, coordinates
from pyrite.op.rule import Contract, Products
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import Array, Shape, TensorType, bfloat16, float16, float32, int8

BY_RULE = [
    name for name in device_names()
    if device_problem(name) is None and not name.startswith("candle")
]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")


def _correlated(x: Shape, y: Shape) -> Products:
    """Return sums of which some terms do not exist: as a product they are mended."""
    rows, i, k = coordinates(3)
    size = (x[1] + 3) // 2
    return Products.of(
        (x[0], size, y[0]), (x, (rows, 2 * i + 3 * k - 4)), (y, (k,)), ((x[0], size), (rows, i))
    )


def _circular(x: Shape, y: Shape) -> Products:
    """Return sums that are no product of matrices."""
    i, j, k = coordinates(3)
    return Products.of(
        (x[0], x[1], y[0]), (x, (i, (j + k) % x[1])), (y, (k,)), ((x[0], x[1]), (i, j))
    )


def _in_halves(x: Shape, y: Shape) -> Products:
    """Return a product of which the result's first axis counts two coordinates."""
    half, i, j, k = coordinates(4)
    rows = x[0] // 2
    place: Form = half * rows + i
    return Products.of(
        (2, rows, y[1], x[1]), (x, (place, k)), (y, (k, j)), ((x[0], y[1]), (place, j))
    )


def _declared(rule: Contract, width: Callable[[Shape, Shape], int]) -> Callable[..., Tensor]:
    def infer(x: TensorType, y: TensorType, bias: TensorType | None) -> TensorType:
        return TensorType((x.shape[0], width(x.shape, y.shape)), x.dtype)

    def biased_sums(x: Tensor, y: Tensor, bias: Tensor | None = None, /) -> Tensor:
        """Return sums of products, and a bias."""
        ...

    return custom_op(rule=rule, infer=infer)(biased_sums)


def _widths(x: Shape, y: Shape) -> int:
    return (x[1] + 3) // 2


#: Of each case the products, the shapes of the operands, and how long the result's rows are.
CASES: dict[str, tuple[Any, tuple[Shape, Shape], Any]] = {
    "mended": (_correlated, ((3, 11), (4,)), _widths),
    "term by term": (_circular, ((3, 9), (4,)), lambda x, y: x[1]),
    "in parts": (_in_halves, ((6, 5), (5, 7)), lambda x, y: y[1]),
}
OPS = {
    (name, axis): _declared(Contract(products, bias=axis), width)
    for name, (products, _, width) in CASES.items() for axis in (0, -1)
}  # fmt: skip


def drawn(case: str, axis: int) -> list[Array]:
    """Return operands and a bias of small integers, whose sums are exact in every dtype."""
    rng = np.random.default_rng(0)
    _, (x, y), width = CASES[case]
    size = (x[0], width(x, y))[axis]
    return [rng.integers(-3, 4, shape).astype(np.float64) for shape in (x, y, (size,))]


def meaning(case: str, axis: int, x: Array, y: Array, bias: Array) -> Array:
    """Return the sums as the numbers of points say, and the bias along its axis."""
    products = CASES[case][0](x.shape, y.shape)
    out = np.zeros(products.out.source)
    for point in np.ndindex(*products.x.shape):
        if all(bound.holds(point) for bound in (*products.x.bounds, *products.y.bounds)):
            of_x, of_y, of_out = (
                tuple(place.at(point) for place in map.places)
                for map in (products.x, products.y, products.out)
            )
            out[of_out] += x[of_x] * y[of_y]
    return out + (bias[:, None] if axis == 0 else bias)


@pytest.mark.parametrize("dtype", [float32, float16, bfloat16, int8], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", BY_RULE)
@pytest.mark.sample(6, by="name")
def test_a_bias_is_added_along_its_axis(
    name: str, case: str, axis: int, layout: Layout, dtype: Any
) -> None:
    if not device(name).backend.root.supports(TensorType((), dtype)):
        pytest.skip(f"{name} has no {dtype}")
    arrays = [
        layout.settled(a) if layout.applies(a.shape) else a
        for a in (d.astype(dtype.numpy) for d in drawn(case, axis))
    ]
    inputs = [
        layout(a, name) if layout.applies(a.shape) else tensor(a, device=name) for a in arrays
    ]
    want = meaning(case, axis, *(a.astype(np.float64) for a in arrays)).astype(dtype.numpy)
    np.testing.assert_array_equal(OPS[case, axis](*inputs).numpy(), want)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", BY_RULE)
def test_none_is_no_bias_and_an_infinite_factor_meets_no_missing_term(name: str, case: str) -> None:
    x, y, bias = (a.astype(np.float32) for a in drawn(case, -1))
    op = OPS[case, -1]
    on = [tensor(a, device=name) for a in (x, y, bias)]
    with_bias, without = op(*on).numpy(), op(*on[:2]).numpy()
    np.testing.assert_array_equal(with_bias, without + bias)
    x[x == 0] = 1
    y.reshape(-1)[0] = np.inf
    want = meaning(case, -1, x, y, bias)
    np.testing.assert_array_equal(
        op(tensor(x, device=name), tensor(y, device=name), on[2]).numpy(), want
    )


@pytest.mark.parametrize("case", CASES)
def test_the_cotangent_of_a_bias_is_the_sum_along_the_other_axes(case: str) -> None:
    x, y, bias = drawn(case, 0)
    on = [tensor(a, device="cpu") for a in (x, y, bias)]
    if case == "term by term":
        on[:2] = [t.detach() for t in on[:2]]

    def loss(bias: Tensor) -> Tensor:
        out = OPS[case, 0](*on[:2], bias)
        return (out * out).sum()

    found = grad(loss)(on[2]).numpy()
    np.testing.assert_array_equal(found, 2 * meaning(case, 0, x, y, bias).sum(1))


@pytest.mark.parametrize("name", [n for n in BY_RULE if n in ("cpu", "wgpu")])
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_linear_and_convolutions_round_once(name: str, dtype: Any) -> None:
    """1 + 2 to the -k is no number of the dtype: two roundings lose what the bias cancels."""
    small = {"float16": 2.0**-12, "bfloat16": 2.0**-9}[dtype.name]
    x = tensor(np.array([[1.0, small]]).astype(dtype.numpy), device=name)
    ones = tensor(np.ones((1, 2)).astype(dtype.numpy), device=name)
    bias = tensor(np.array([-1.0]).astype(dtype.numpy), device=name)
    assert x.linear(ones, bias).item() == small
    image, taps = x.reshape((1, 2, 1)), ones.reshape((1, 2, 1))
    assert image.conv1d(taps, bias).item() == small


@pytest.mark.parametrize("name", BY_RULE)
def test_sums_of_nothing_are_the_bias(name: str) -> None:
    x, weight = (tensor(np.zeros(s, np.float32), device=name) for s in ((2, 0), (3, 0)))
    bias = tensor(np.arange(3, dtype=np.float32), device=name)
    np.testing.assert_array_equal(x.linear(weight, bias).numpy(), [[0, 1, 2], [0, 1, 2]])
    images, taps = (tensor(np.zeros(s, np.float32), device=name) for s in ((2, 0, 4), (3, 0, 2)))
    found = images.conv1d(taps, bias).numpy()
    np.testing.assert_array_equal(found, np.broadcast_to(np.arange(3.0)[:, None], (2, 3, 3)))
