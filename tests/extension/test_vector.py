"""Vectors and small matrices in kernels in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import Matrix, Vector, kernel
from pyrite.testing import check_gradients
from pyrite.types import TensorType, float32


@pytest.fixture(params=["numpy", "interpreter", "cpu", "wgpu"])
def where(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    if request.param == "interpreter":
        return interpreter
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@kernel(inner=1, differentiable=True)
def pull(k: Any, x: Any, v: Any, out: Any) -> None:
    """Softened gravity, and a turn, in plain vector mathematics."""
    (i,) = k.at
    here, force = x[i], Vector(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        away = x[j] - here
        square = away.dot(away) + 0.25
        if square < 9.0:
            force += away / (square * k.math.sqrt(square))
        else:
            force = force - 0.125 * away
    out[i] = here + 0.5 * (v[i] + force).cross(Vector(1.0, 0.0, here.y)) - here.zxy * 2.0


@custom_op(infer=lambda x, v: x, kernels=[pull])
def pulled(x: Tensor, v: Tensor, /) -> Tensor:
    """One step."""
    ...


def expected(x: Any, v: Any) -> Any:
    away = x[None] - x[:, None]
    square = (away**2).sum(-1, keepdims=True) + 0.25
    near = np.where(square < 9.0, away / square**1.5, -0.125 * away)
    axis = np.stack([np.ones(len(x)), np.zeros(len(x)), x[:, 1]], -1)
    turned = np.cross(v + near.sum(1), axis) if len(x) else x
    return x + 0.5 * turned - x[:, [2, 0, 1]] * 2.0


@pytest.mark.parametrize("view", ["dense", "reversed", "transposed"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_rows_of_tensors_are_vectors(where: Device, size: int, view: str) -> None:
    x, v = np.random.default_rng(size).normal(size=(2, size, 3)).astype(np.float32) * 2
    t = pyrite.tensor(x, device=where)
    if view == "reversed":
        t, x = t[::-1, ::-1], x[::-1, ::-1]
    elif view == "transposed":
        t = pyrite.tensor(np.ascontiguousarray(x.T), device=where).mT

    got = pulled(t, pyrite.tensor(v, device=where))

    np.testing.assert_allclose(got.numpy(), expected(x, v), rtol=1e-4, atol=1e-4)


def test_kernels_of_vectors_have_derivatives() -> None:
    x, v = np.random.default_rng(1).normal(size=(2, 4, 3))
    check_gradients(pulled, x, v, device="cpu")


@pytest.mark.parametrize("rows", [2, 4])
def test_matrices(where: Device, rows: int) -> None:
    rng = np.random.default_rng(rows)
    m = rng.normal(size=(6, rows, 2)).astype(np.float32)
    x = rng.normal(size=(6, 2)).astype(np.float32)

    @custom_op(
        infer=lambda m, x: (
            TensorType((m.shape[0], rows, rows), m.dtype),
            TensorType((m.shape[0], rows), m.dtype),
        ),
        kernels=[products],
    )
    def op(m: Tensor, x: Tensor, /) -> Any:
        """Products."""
        ...

    square, ends = op(pyrite.tensor(m, device=where), pyrite.tensor(x, device=where))

    np.testing.assert_allclose(square.numpy(), m @ m.swapaxes(1, 2), rtol=1e-5, atol=1e-6)
    want = np.einsum("nij,nj->ni", m, x)
    np.testing.assert_allclose(ends.numpy(), want, rtol=1e-5, atol=1e-6)


@kernel(inner=2)
def products(k: Any, m: Any, x: Any, square: Any, ends: Any) -> None:
    (i,) = k.at
    square[i] = m[i] @ m[i].transposed()
    ends[i] = m[i] @ x[i]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_words_of_shaders_take_vectors_item_by_item(where: Device, size: int) -> None:
    @kernel(inner=1)
    def shaded(k: Any, x: Any, y: Any, out: Any) -> None:
        (i,) = k.at
        v, w = x[i], y[i]
        kept = k.clamp(v, -0.5, w) + 10.0 * k.mix(v, w, 0.25) + 100.0 * k.mix(v, w, k.step(0.0, w))
        out[i] = kept + 1000.0 * k.fmod(v, 0.3) + 10000.0 * k.step(v, w)

    @custom_op(infer=lambda x, y: x, kernels=[shaded])
    def shade(x: Tensor, y: Tensor, /) -> Tensor:
        """Words of shaders."""
        ...

    rng = np.random.default_rng(size)
    x, y = (rng.normal(size=(7, size)).astype("f4") for _ in range(2))
    up = np.where(y >= 0, y, x)
    want = np.minimum(np.maximum(x, -0.5), y) + 10 * (0.75 * x + 0.25 * y) + 100 * up
    want = want + 1000 * np.fmod(x, np.float32(0.3)) + 10000 * (y >= x)
    got = shade(*(pyrite.tensor(a, device=where) for a in (x, y))).numpy()
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-2)


def test_a_vector_is_a_value_of_python_too() -> None:
    v, m = Vector(3.0, 4.0), Matrix((1.0, 2.0), (0.0, 1.0))

    assert tuple(v + 1 - v * 2 / v) == (2.0, 3.0)
    assert tuple(2 - v) == (-1.0, -2.0)
    assert tuple(6 / Vector(2.0, 3.0)) == (3.0, 2.0)
    assert tuple(np.float32(2.0) * v) == (6.0, 8.0)
    assert (v.length(), v.distance(Vector(0.0, 0.0)), v.sum()) == (5.0, 5.0, 7.0)
    assert tuple(v.normalized()) == (0.6, 0.8)
    assert (m[0, 1], m[0][1], tuple(m[1])) == (2.0, 2.0, (0.0, 1.0))
    assert (f"{v:.1f}", str(m)) == ("(3.0, 4.0)", "((1.0, 2.0), (0.0, 1.0))")
    assert (v.x, tuple(v.yx), tuple(m @ v), tuple(m.transposed()[1])) == (
        3.0, (4.0, 3.0), (11.0, 4.0), (2.0, 1.0),
    )  # fmt: skip


def compared(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[0] if x[k.at] > x[0] else x[k.at]  # wrong


def of_two(k: Any, x: Any, out: Any) -> None:
    out[k.at] = Vector(1.0, 2.0)  # wrong


def a_number(k: Any, x: Any, out: Any) -> None:
    out[k.at] = 1.0  # wrong


def added(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[k.at] + x[k.at].xy  # wrong


def no_item(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[k.at].w * x[k.at]  # wrong


def of_two_lengths(k: Any, x: Any, out: Any) -> None:
    out[k.at] = k.mix(x[k.at], x[k.at].xy, 0.5)  # wrong


def beyond(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[k.at] * x[k.at][3]  # wrong


def set_by_place(k: Any, x: Any, out: Any) -> None:
    x[k.at][0] = 1.0  # wrong


def set_by_name(k: Any, x: Any, out: Any) -> None:
    x[k.at].y += 1.0  # wrong


MISTAKES = {
    beyond: "a vector of 3 requires an index below 3, got 3",
    set_by_place: r"a vector of 3 requires to be made as a whole, got an assignment to v\[0\]",
    set_by_name: "a vector of 3 requires to be made as a whole, got an assignment to v.y; make",
    of_two_lengths: "k.mix requires numbers and vectors of one length, got a vector of 3 and",
    compared: "requires to be compared item by item", of_two: "a row of 3 requires a vector of 3",
    a_number: "a row of 3 requires a vector of 3, got 1.0", added: "a number or its like beside it",
    no_item: "a vector of 3 has no attribute 'w'",
}  # fmt: skip


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes_are_errors_of_their_line(function: Any, interpreter: Device) -> None:
    @custom_op(infer=lambda x: x, kernels=[kernel(function, inner=1)])  # type: ignore[call-overload]
    def op(x: Tensor, /) -> Tensor:
        """Wrong."""
        ...

    with pytest.raises(KernelError, match=MISTAKES[function]) as raised:
        op(pyrite.ones((2, 3), device=interpreter))

    first = function.__code__.co_firstlineno
    assert str(raised.value.location).endswith(f":{first + 1}")


def test_a_row_of_five_is_no_vector(interpreter: Device) -> None:
    @custom_op(infer=lambda x: x, kernels=[kernel(a_number, inner=1)])  # type: ignore[call-overload]
    def op(x: Tensor, /) -> Tensor:
        """Wrong."""
        ...

    with pytest.raises(KernelError, match=r"requires 2 coordinates of shape \(2, 5\), got 1"):
        op(pyrite.ones((2, 5), device=interpreter))


def test_inner_axes_have_to_be_there() -> None:
    with pytest.raises(KernelError, match="inner to be 1 or 2, and no grid, got 3"):
        kernel(inner=3)(a_number)

    @custom_op(infer=lambda x: TensorType((), x.dtype), kernels=[kernel(a_number, inner=1)])  # type: ignore[call-overload]
    def op(x: Tensor, /) -> Tensor:
        """Wrong."""
        ...

    with pytest.raises(KernelError, match="a first output of 1 axes and more for inner=1"):
        op(pyrite.ones((2,), device="cpu"))


# ---- rows that lie as vectors of a device do are read and written at once ----


def op_of(made: Any, infer: Callable[..., Any] = lambda x: x) -> Callable[..., Tensor]:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


@kernel(inner=1)
def gathering(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    total = x[i]
    for j in range(x.shape[0]):
        total = total + x[j] * x[j, 0]
    out[i] = total


@pytest.mark.sample(6)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 6), slice(None, None, -2), slice(3, 4)])
def test_rows_of_every_layout_are_read_and_written(
    where: Device, size: int, dtype: str, part: slice
) -> None:
    x = np.random.default_rng(size).integers(-3, 4, (9, size)).astype(dtype)
    y = x[part]
    op = op_of(gathering)

    whole = pyrite.tensor(x, device=where)
    for given, array in ((whole[part], y), (whole, x)):
        wanted = array + (array * array[:, :1]).sum(0)
        assert np.array_equal(op(given).numpy(), wanted)


@kernel(inner=2)
def squared_matrix(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[k.at] @ x[k.at].transposed()


@pytest.mark.sample(3)
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 4), (4, 2), (2, 3)])
def test_matrices_are_read_and_written(where: Device, rows: int, columns: int) -> None:
    x = np.random.default_rng(rows).normal(size=(3, rows, columns)).astype(np.float32)

    got = op_of(squared_matrix, lambda x: TensorType((*x.shape[:2], x.shape[1]), x.dtype))(
        pyrite.tensor(x, device=where)
    )

    assert np.allclose(got.numpy(), x @ x.transpose(0, 2, 1), atol=1e-5)


@pytest.mark.parametrize("size", [2, 4])
def test_wgsl_has_vectors_where_rows_are_such(size: int) -> None:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    row, three = TensorType((8, size), float32), TensorType((8, 3), float32)

    assert f"array<vec{size}<f32>>" in gathering.source("wgpu", [row], [row])
    assert "array<vec" not in gathering.source("wgpu", [three], [three])


@pytest.mark.parametrize("at", [-1, 5])
def test_a_row_outside_is_an_error(where: Device, at: int) -> None:
    @kernel(inner=1)
    def outside(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[int(x[0, 0])]

    with pytest.raises(IndexRangeError, match="inside"):
        op_of(outside)(pyrite.full((5, 4), float(at), device=where)).numpy()
