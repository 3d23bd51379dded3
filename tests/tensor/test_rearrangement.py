"""Repeating, rolling, padding, windows, triangles and diagonals against NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, DTypeError, ShapeError, SyncError
from pyrite.synchronization import no_sync
from pyrite.tensor.creation import arange, tensor, zeros

A = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda t: t.repeat(2), lambda a: np.repeat(a, 2)),
        (lambda t: t.repeat(3, 1), lambda a: np.repeat(a, 3, 1)),
        (lambda t: t.repeat(0, 1), lambda a: np.repeat(a, 0, 1)),
        (lambda t: t.tile(2), lambda a: np.tile(a, 2)),
        (lambda t: t.tile((2, 1, 3, 2)), lambda a: np.tile(a, (2, 1, 3, 2))),
        (lambda t: t.roll(5), lambda a: np.roll(a, 5)),
        (lambda t: t.roll(-1, 1), lambda a: np.roll(a, -1, 1)),
        (lambda t: t.roll((1, -6), (2, 0)), lambda a: np.roll(a, (1, -6), (2, 0))),
        (lambda t: t.rot90(), lambda a: np.rot90(a)),
        (lambda t: t.rot90(3, (1, 2)), lambda a: np.rot90(a, 3, (1, 2))),
        (lambda t: t.rot90(-2, (2, 0)), lambda a: np.rot90(a, -2, (2, 0))),
        (lambda t: t.triu(), lambda a: np.triu(a)),
        (lambda t: t.tril(-1), lambda a: np.tril(a, -1)),
        (lambda t: t.triu(2), lambda a: np.triu(a, 2)),
        (lambda t: t.diagonal(), lambda a: np.diagonal(a, 0, 1, 2)),
        (lambda t: t.diagonal(-1), lambda a: np.diagonal(a, -1, 1, 2)),
        (lambda t: t.diagonal(3), lambda a: np.diagonal(a, 3, 1, 2)),
        (lambda t: t.diagonal(9), lambda a: np.diagonal(a, 9, 1, 2)),
        (lambda t: t.diagonal(1, 2, 0), lambda a: np.diagonal(a, 1, 2, 0)),
        (lambda t: t[0, 0].diag(-2), lambda a: np.diag(a[0, 0], -2)),
        (lambda t: t[0, 0, :0].diag(1), lambda a: np.diag(a[0, 0, :0], 1)),
        (lambda t: t.pad(1), lambda a: np.pad(a, 1)),
        (
            lambda t: t.pad([(1, 2)], value=7),
            lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), constant_values=7),
        ),
        (
            lambda t: t.pad([(2, 0), (1, 3)], "reflect"),
            lambda a: np.pad(a, ((0, 0), (2, 0), (1, 3)), "reflect"),
        ),
        (
            lambda t: t.pad([(2, 0), (1, 9)], "edge"),
            lambda a: np.pad(a, ((0, 0), (2, 0), (1, 9)), "edge"),
        ),
        (
            lambda t: t.pad([(3, 1), (0, 4)], "circular"),
            lambda a: np.pad(a, ((0, 0), (3, 1), (0, 4)), "wrap"),
        ),
        (lambda t: t[..., :0].pad([(1, 1)], value=2), lambda a: np.full((2, 3, 2), 2.0)),
    ],
)
def test_rearrangement_is_numpys(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours(tensor(A)).numpy(), theirs(A), strict=True)


@pytest.mark.parametrize(
    "move",
    [
        lambda t: t.repeat(3, 1),
        lambda t: t.tile((2, 1, 3)),
        lambda t: t.roll((1, -6), (2, 0)),
        lambda t: t.triu(1),
        lambda t: t.diagonal(1),
        lambda t: t.diag(-1),
        lambda t: t.pad(2),
        lambda t: t.pad([(2, 1), (1, 3)], "reflect"),
        lambda t: t.pad([(2, 0), (1, 9)], "edge"),
        lambda t: t.pad([(3, 1), (0, 4)], "circular"),
    ],
)
def test_the_gradient_gathers_from_where_each_element_went(move: Any) -> None:
    moved = move(tensor(np.arange(1, 25).reshape(A.shape))).numpy()
    weights = np.random.default_rng(0).normal(size=moved.shape)
    expected = np.zeros(25)
    np.add.at(expected, moved, weights)
    found = grad(lambda t: (move(t) * tensor(weights)).sum())(tensor(A))
    np.testing.assert_allclose(found.numpy(), expected[1:].reshape(A.shape))


def test_windows_slide_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    for axis, size, step in [(2, 2, 1), (1, 3, 2), (-1, 4, 3), (2, 1, 5)]:
        ours = tensor(A).unfold(axis, size, step).numpy()
        np.testing.assert_array_equal(ours, torch.tensor(A).unfold(axis, size, step).numpy())


def test_windows_that_overlap_add_up_in_the_gradient() -> None:
    g = grad(lambda t: t.sliding_window(0, 3, 1).sum())(zeros((5,)))
    assert g.tolist() == [1, 2, 3, 2, 1]


def test_a_triangle_does_not_spread_what_is_not_finite() -> None:
    x = tensor([[1.0, np.inf], [np.nan, 2.0]])
    assert x.tril().triu().tolist() == [[1, 0], [0, 2]]
    assert tensor([[True, True], [True, True]]).triu(1).tolist() == [[False, True], [False, False]]


def test_padding_takes_the_dtype_of_the_tensor_unless_the_value_is_of_a_higher_kind() -> None:
    assert arange(2).pad(1, value=9).tolist() == [9, 0, 1, 9]
    assert arange(2).pad(1).dtype.name == "int32"
    assert arange(2).pad(1, value=0.5).dtype.name == "float32"
    assert tensor([True]).pad(1).tolist() == [False, True, False]
    assert tensor([1.0], dtype="float16").pad(1, value=-np.inf).dtype.name == "float16"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t: t.pad(-1), ArgumentError, "widths >= 0, got -1"),
        (lambda t: t.pad([(1, 1)] * 4), ArgumentError, "at most 3 pairs"),
        (lambda t: t.pad(1, "wrap"), ArgumentError, "a mode of constant, reflect, edge, circular"),
        (lambda t: t.pad(2, "reflect"), ShapeError, "widths <= 1 on axis 0 of size 2 in mode"),
        (lambda t: t.pad(3, "circular"), ShapeError, "widths <= 2 on axis 0"),
        (lambda t: t[:0].pad(1, "edge"), ShapeError, "widths <= 0 on axis 0 of size 0"),
        (lambda t: t.repeat(-1), ArgumentError, "repeat requires repeats >= 0"),
        (lambda t: t.roll((1, 2), 0), ArgumentError, "roll requires a shift per axis"),
        (lambda t: t.unfold(0, 3), ShapeError, "0 <= size <= 2 and step >= 1, got size 3"),
        (lambda t: t[0, 0].triu(), ShapeError, "band requires at least 2 axes"),
        (lambda t: t[0, 0, 0].diag(), ShapeError, "diag requires at least 1 axis"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(tensor(A))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_each_element_may_be_repeated_another_number_of_times(axis: int | None) -> None:
    n = A.size if axis is None else A.shape[axis]
    times = np.arange(n) % 3
    found = tensor(A).repeat(tensor(times), axis)
    np.testing.assert_array_equal(found.numpy(), np.repeat(A, times, axis))


def test_repeats_of_a_fixed_size_wait_for_nothing_and_are_cut_off_or_filled_up() -> None:
    x, times = tensor([1.0, 2.0, 3.0]), tensor([2, 0, 1])
    with no_sync():
        short, exact, long = (x.repeat(times, 0, size=n) for n in (2, 3, 5))
    assert short.tolist() == [1, 1]
    assert exact.tolist() == [1, 1, 3]
    assert long.tolist() == [1, 1, 3, 3, 3]
    with no_sync(), pytest.raises(SyncError, match="repeat"):
        x.repeat(times)


def test_the_gradient_of_repeats_adds_up_what_was_repeated() -> None:
    weights = tensor(np.array([1.0, 2.0, 4.0]))
    slope = grad(lambda x: (x.repeat(tensor([2, 0, 1])) * weights).sum())(tensor(np.ones(3)))
    assert slope.tolist() == [3, 0, 4]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.repeat(tensor([1, -1, 0])), ArgumentError, r"repeats >= 0, got -1"),
        (lambda x: x.repeat(tensor([1, 2])), ShapeError, r"shape \(\) or \(3,\), got \(2,\)"),
        (lambda x: x.repeat(tensor([1.0, 2.0, 0.0])), DTypeError, "integer repeats, got float32"),
        (lambda x: x.repeat(2, size=6), ArgumentError, "a tensor of repeats beside size"),
    ],
)
def test_repeats_that_cannot_be_are_errors(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(tensor([1.0, 2.0, 3.0]))
