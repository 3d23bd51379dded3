"""Movement against NumPy, its gradients as transposes, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, AxisError, DTypeError, ShapeError
from pyrite.tensor.creation import arange, tensor, zeros
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.tensor import Tensor

A = np.arange(24).reshape(2, 3, 4)


def x() -> Tensor:
    return tensor(A)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda t: t.reshape(4, 6), lambda a: a.reshape(4, 6)),
        (lambda t: t.reshape((-1,)), lambda a: a.reshape(-1)),
        (lambda t: t.reshape(-1, 2, 4), lambda a: a.reshape(-1, 2, 4)),
        (lambda t: t.permute_dims((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
        (lambda t: t.mT, lambda a: a.mT),
        (lambda t: t[0].T, lambda a: a[0].T),
        (lambda t: t.swap_axes(0, -1), lambda a: a.swapaxes(0, -1)),
        (lambda t: t.transpose(0, 1), lambda a: a.swapaxes(0, 1)),
        (lambda t: t.moveaxis(0, -1), lambda a: np.moveaxis(a, 0, -1)),
        (lambda t: t.moveaxis((0, 2), (2, 0)), lambda a: np.moveaxis(a, (0, 2), (2, 0))),
        (lambda t: t.flip(), lambda a: np.flip(a)),
        (lambda t: t.flip((0, -1)), lambda a: np.flip(a, (0, -1))),
        (lambda t: t.flatten(0, 1), lambda a: a.reshape(6, 4)),
        (lambda t: t.expand_dims((0, -1)), lambda a: np.expand_dims(a, (0, -1))),
        (lambda t: t.expand_dims(1).squeeze(1), lambda a: a),
        (lambda t: t[:1, :, :1].squeeze(), lambda a: a[:1, :, :1].squeeze()),
        (lambda t: t[:1].squeeze(-3), lambda a: a[0]),
        (lambda t: t.broadcast_to((5, 2, 3, 4)), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
        (lambda t: t.narrow(1, 1, 2), lambda a: a[:, 1:3]),
        (lambda t: concat([t, t], 1), lambda a: np.concatenate([a, a], 1)),
        (lambda t: concat([t, t[0]], None), lambda a: np.concatenate([a, a[0]], None)),
        (lambda t: stack([t, t], -1), lambda a: np.stack([a, a], -1)),
        (lambda t: stack(t.unstack(1), 1), lambda a: a),
        (lambda t: concat(t.chunk(2, 2), 2), lambda a: a),
    ],
)  # fmt: skip
def test_movement_is_numpys(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours(x()).numpy(), theirs(A), strict=True)


@given(st.data())
def test_a_slice_and_its_transpose_are_adjoint(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    key = tuple(data.draw(st.slices(n)) for n in shape)
    rng = np.random.default_rng(1)
    array = rng.normal(size=shape)
    weights = rng.normal(size=array[key].shape)
    expected = np.zeros(shape)
    expected[key] = weights
    found = grad(lambda t: (t[key] * tensor(weights)).sum())(tensor(array))
    np.testing.assert_array_equal(found.numpy(), expected)


def test_slices_have_one_form() -> None:
    for empty in (slice(3, 1), slice(9, 20), slice(0, 0, -2)):
        assert arange(4)[empty].shape == (0,)
    assert arange(4)[::-1].tolist() == [3, 2, 1, 0]
    assert arange(5)[-2::-3].tolist() == [3, 0]
    with pytest.raises(ShapeError, match="slice requires elements between 0 and 3 on axis 0"):
        arange(3)._slice((1,), (3,), (1,))
    with pytest.raises(ShapeError, match="slice requires start, size and step for 1 axes"):
        arange(3)._slice((), (), ())


def test_parts_add_up_to_the_whole() -> None:
    assert [p.shape for p in x().split(3, 2)] == [(2, 3, 3), (2, 3, 1)]
    assert [p.shape for p in x().split((1, 0, 3), 2)] == [(2, 3, 1), (2, 3, 0), (2, 3, 3)]
    assert [p.shape[0] for p in arange(7).chunk(3)] == [3, 3, 1]
    assert [p.shape[0] for p in arange(2).chunk(5)] == [1, 1]
    assert [p.shape for p in zeros((0, 2)).split(3)] == [(0, 2)]


def test_dtypes_meet_in_concat() -> None:
    joined = concat([tensor([1, 2]), tensor([0.5])])
    assert joined.dtype.name == "float32"
    assert joined.tolist() == [1.0, 2.0, 0.5]
    assert concat([tensor([True]), tensor([False])]).dtype.name == "bool"


def test_the_gradient_of_concat_parts_the_cotangent() -> None:
    def loss(a: Tensor, b: Tensor) -> Tensor:
        return (concat([a, b, a]) * tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum()

    of_a, of_b = grad(loss, (0, 1))(zeros((2,)), zeros((1,)))
    assert of_a.tolist() == [1 + 4, 2 + 5]
    assert of_b.tolist() == [3]


def test_bools_and_bfloat16_move_too() -> None:
    assert tensor([True, False]).flip().reshape(2, 1).tolist() == [[False], [True]]
    moved = stack([tensor([1.5, 2.5], dtype="bfloat16")] * 2).mT
    assert moved.dtype.name == "bfloat16"
    assert moved.tolist() == [[1.5, 1.5], [2.5, 2.5]]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: x().reshape(5, 3), ShapeError, r"got \(2, 3, 4\) = 24 and \(5, 3\) = 15"),
        (lambda: x().reshape(-1, -1), ShapeError, "at most one size of -1"),
        (lambda: x().reshape(-1, 7), ShapeError, "a size that 7 divides"),
        (lambda: x()[:0].reshape(0, -1), ShapeError, "beside a -1, which could be any"),
        (lambda: x().permute_dims((0, 1)), ShapeError, "requires each of 3 axes once"),
        (lambda: x().squeeze(0), ShapeError, "squeeze requires size 1 on axis 0"),
        (lambda: x().T, ShapeError, r"T requires 2 axes, got shape \(2, 3, 4\); use mT"),
        (lambda: arange(3).mT, ShapeError, "mT requires at least 2 axes"),
        (lambda: x().flip(3), AxisError, "flip requires -3 <= axis < 3, got axis=3"),
        (lambda: x().moveaxis((0, 1), 0), ArgumentError, "as many sources as destinations"),
        (lambda: x().flatten(2, 1), ArgumentError, "start_axis <= end_axis, got 2 and 1"),
        (lambda: x().broadcast_to((2, 3, 5)), ShapeError, "broadcast_to requires sizes"),
        (lambda: x().expand(-1, 2, 3, 4), ShapeError, r"sizes >= 0, got shape \(-1, 2, 3, 4\)"),
        (lambda: x().broadcast_to((2, -1, 4)), ShapeError, r"sizes >= 0, got shape \(2, -1, 4\)"),
        (lambda: x().split((3, -1)), ShapeError, r"add up to 2, got \(3, -1\)"),
        (lambda: x().split(0), ArgumentError, "split requires a size >= 1, got 0"),
        (lambda: x().chunk(0), ArgumentError, "chunk requires chunks >= 1, got 0"),
        (lambda: concat([]), ArgumentError, "concat requires at least one tensor, got none"),
        (lambda: concat([A]), DTypeError, r"got a NumPy array; convert it: pyrite\.tensor"),
        (lambda: concat([x(), x()[0]]), ShapeError, "equal but for axis 0"),
        (lambda: concat([tensor(1)]), AxisError, "concat requires"),
        (lambda: stack([x(), x()[:1]]), ShapeError, r"got \(2, 3, 4\) and \(1, 3, 4\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_at_the_call(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert __file__ in caught.value.location


def test_a_size_of_minus_one_is_kept_by_expand() -> None:
    column = arange(3).reshape((3, 1))

    assert column.expand(-1, 4).tolist() == [[0] * 4, [1] * 4, [2] * 4]
    assert column.expand((2, -1, -1)).shape == (2, 3, 1)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
@pytest.mark.parametrize("shape", [(5, 3), (0, 3), (4, 0), (130, 2), (1, 1)])
@pytest.mark.parametrize("size", [1, 2, 3, 200])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_one_size_are_slices(
    name: str, shape: tuple[int, ...], size: int, axis: int
) -> None:
    array = np.arange(shape[0] * shape[1], dtype=np.int8).reshape(shape)
    x = tensor(array, device=name)
    turned = tensor(array.T.copy(), device=name).mT
    ends = [*range(size, shape[axis], size)]
    want = np.split(array, ends, axis)
    for _ in range(2):  # found out once, and then known
        for one in (x, turned):
            found = one.split(size, axis)
            assert len(found) == len(want)
            for part, wanted in zip(found, want, strict=True):
                np.testing.assert_array_equal(part.numpy(), wanted)


def test_what_equals_a_size_is_no_size_of_split() -> None:
    x = zeros((4, 2))
    assert len(x.split(2)) == 2
    for wrong in (0, -2):
        with pytest.raises(ArgumentError, match="split requires a size >= 1"):
            x.split(wrong)
    with pytest.raises(TypeError):
        x.split(2.0)  # type: ignore[arg-type]
    with pytest.raises(AxisError, match="split"):
        x.split(2, 2)
