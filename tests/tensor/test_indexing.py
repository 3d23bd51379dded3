"""x[...] and x.at[...] against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import pyrite
from pyrite.autodiff import grad
from pyrite.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    IndexRangeError,
    ShapeError,
    SyncError,
)
from pyrite.sized import SizeSymbols
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.subscript import read_subscript

SHAPES = npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


@st.composite
def subscripts(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and a key for it that mixes every kind of index."""
    shape = draw(SHAPES)
    broadcast = draw(npst.array_shapes(min_dims=0, max_dims=2, max_side=3))
    key: list[Any] = []
    axis = 0
    while axis < len(shape):
        kind = draw(st.sampled_from(["stop", "slice", "int", "array", "mask", "none", "dots"]))
        n = shape[axis]
        if kind == "stop":
            break
        if kind == "none":
            key.append(None)
            continue
        if kind == "dots":
            if Ellipsis not in [k if k is Ellipsis else None for k in key]:
                key.append(Ellipsis)
                axis += draw(st.integers(0, len(shape) - axis))
            continue
        if kind == "mask":
            # All masks of one key hold as often as the arrays are long, or once.
            mask = np.zeros(n, bool)
            mask[draw(st.integers(0, n - 1))] = True
            key.append(mask)
        elif kind == "slice":
            key.append(draw(st.slices(n)))
        elif kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        else:
            key.append(draw(npst.arrays(np.int64, broadcast, elements=st.integers(-n, n - 1))))
        axis += 1
    return shape, tuple(key)


def on_device(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def fits(shape: tuple[int, ...], key: tuple[Any, ...]) -> bool:
    try:
        np.empty(shape)[key]
    except IndexError:
        return False
    return True


@given(subscripts())
def test_reading_is_numpys(case: Any) -> None:
    shape, key = case
    array = np.arange(np.prod(shape)).reshape(shape)
    x = tensor(array)
    if not fits(shape, key):
        with pytest.raises((IndexError, ShapeError)):
            x[key]
        return
    for how in (key, on_device(key)):
        np.testing.assert_array_equal(x[how].numpy(), array[key], strict=True)


@given(subscripts(), st.sampled_from(["set", "add", "multiply", "min", "max"]))
def test_writing_is_numpys(case: Any, how: str) -> None:
    shape, key = case
    if not fits(shape, key):
        return
    array = np.arange(np.prod(shape)).reshape(shape)
    updates = np.random.default_rng(3).integers(-9, 99, array[key].shape)
    expected = array.copy()
    if how == "set":
        expected[key] = updates
    else:
        at = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[how].at
        at(expected, key, updates)
    for place in (key, on_device(key)):
        written = getattr(tensor(array).at[place], how)(tensor(updates))
        np.testing.assert_array_equal(written.numpy(), expected, strict=True)
    np.testing.assert_array_equal(tensor(array).numpy(), array)


@given(subscripts())
def test_gradients_flow_to_what_was_read_and_written(case: Any) -> None:
    shape, key = case
    if not fits(shape, key):
        return
    rng = np.random.default_rng(5)
    array = rng.normal(size=shape)
    weights = rng.normal(size=array[key].shape)
    expected = np.zeros(shape)
    np.add.at(expected, key, weights)
    found = grad(lambda x: (x[key] * tensor(weights)).sum())(tensor(array))
    np.testing.assert_allclose(found.numpy(), expected)
    outer = rng.normal(size=shape)
    added = grad(lambda v: (tensor(array).at[key].add(v) * tensor(outer)).sum())(tensor(weights))
    np.testing.assert_allclose(added.numpy(), outer[key])


@pytest.mark.parametrize(
    "key",
    [
        [0, 2],
        [[0, 1], [2, 0]],
        [],
        True,
        False,
        np.array(True),
        (slice(None), True, [0, 1]),
        ([True, False, True],),
        np.array([[True] * 4, [False] * 4, [True] * 4]),
        (0, slice(None), [0, 1]),
        ([0, 1], slice(None), 1),
        (slice(None), 1, [0, 1]),
        (slice(None, None, -1), ..., [0, 1]),
        (None, [0, 1], None),
        np.int64(1),
        np.array(1),
        (..., np.uint8(1)),
    ],
)  # fmt: skip
def test_unusual_keys_read_and_write_as_in_numpy(key: Any) -> None:
    array = np.arange(24).reshape(3, 4, 2)
    np.testing.assert_array_equal(tensor(array)[key].numpy(), array[key], strict=True)
    expected = array.copy()
    expected[key] = -1
    np.testing.assert_array_equal(tensor(array).at[key].set(-1).numpy(), expected, strict=True)


def test_a_zero_d_tensor_has_subscripts_too() -> None:
    x = tensor(3)
    assert x[()].item() == x[...].item() == 3
    assert x[None].shape == (1,)
    assert x[True].shape == (1,)
    assert x[False].shape == (0,)
    assert x.at[...].set(4).item() == 4


def test_a_mask_on_the_device_may_have_several_axes() -> None:
    array = np.arange(24).reshape(3, 4, 2)
    mask = array.sum(-1) % 3 == 0
    np.testing.assert_array_equal(tensor(array)[tensor(mask)].numpy(), array[mask])
    np.testing.assert_array_equal(tensor(array)[:, tensor(mask[0])].numpy(), array[:, mask[0]])


def test_a_mask_on_the_device_waits_and_an_index_tensor_does_not() -> None:
    x, mask, index = tensor([1, 2, 3]), tensor([True, False, True]), tensor([0, 2])
    with pyrite.no_sync():
        y = x[index].at[0].set(5)
        with pytest.raises(SyncError, match=r"^indexing requires waiting .* size="):
            x[mask]
        x[[True, False, True]]
    assert y.numpy().tolist() == [5, 3]


def test_of_several_writes_to_one_place_the_last_wins() -> None:
    written = zeros((3,)).at[[1, 1, 1, 0]].set(tensor([1.0, 2.0, 3.0, 4.0]))
    assert written.numpy().tolist() == [4.0, 3.0, 0.0]
    values = tensor([1.0, 2.0, 3.0, 4.0])
    g = grad(lambda v: (zeros((3,)).at[[1, 1, 1, 0]].set(v) * tensor([1.0, 10.0, 100.0])).sum())
    assert g(values).numpy().tolist() == [0.0, 0.0, 10.0, 1.0]


def test_writing_promotes_as_arithmetic_does() -> None:
    ints = tensor([1, 2])
    assert ints.at[0].set(5).dtype is pyrite.int32
    assert ints.at[0].set(0.5).dtype is pyrite.float32
    assert tensor([1.0, 2.0]).at[:].set(ints).dtype is pyrite.float32
    assert ints.at[[0]].add(tensor([0.5])).numpy().tolist() == [1.5, 2.0]


def test_slice_assign_and_fill_are_burns_names() -> None:
    x = zeros((2, 2))
    assert x.slice_fill((0, 1), 3).numpy().tolist() == [[0, 3], [0, 0]]
    assert x.slice_assign(0, tensor([1.0, 2.0])).numpy().tolist() == [[1, 2], [0, 0]]


def test_iteration_gives_the_slices_of_the_first_axis() -> None:
    assert [row.numpy().tolist() for row in tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(ShapeError, match="iteration requires at least one axis"):
        iter(tensor(1))


def test_a_second_derivative_through_reading_and_writing() -> None:
    def cube(x: Any) -> Any:
        return (x[::-2].at[0].multiply(x[1]) ** 3).sum()

    second = grad(lambda x: grad(cube)(x).sum())
    x = np.array([0.5, 1.5, -2.0, 0.7])
    epsilon = 1e-6
    first = grad(cube)
    for i in range(4):
        step = np.eye(4)[i] * epsilon
        numeric = (first(tensor(x + step)).sum() - first(tensor(x - step)).sum()).item()
        assert second(tensor(x)).numpy()[i] == pytest.approx(numeric / (2 * epsilon), abs=1e-5)


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (3, IndexRangeError, "indexing requires -3 <= index < 3 on axis 0, got index 3"),
        ((0, -5), IndexRangeError, "indexing requires -4 <= index < 4 on axis 1, got index -5"),
        ([0, 7], IndexRangeError, "indexing requires -3 <= index < 3 on axis 0, got index 7"),
        ((0, 0, 0), AxisError, "indexing requires at most 2 indices, one per axis, got 3"),
        ((..., ...), ArgumentError, "indexing requires at most one ellipsis, got 2"),
        (slice(None, None, 0), ArgumentError, "indexing requires a step other than 0"),
        (slice(0.5, None), DTypeError, "indexing requires slices of integers"),
        (1.5, DTypeError, "got float"),
        ("a", DTypeError, "got str"),
        ([0.5], DTypeError, "indexing requires arrays of integers or bools, got float64"),
        ([[0], [0, 1]], ShapeError, "indexing requires lists of equal lengths"),
        ([True, False], ShapeError, r"got mask \(2,\) for axes of sizes \(3,\)"),
        (([0, 1], [0, 1, 2]), ShapeError, "indexing requires sizes that are equal or 1"),
        (tensor([0.0]), DTypeError, "indexing requires tensors of integers or bools, got float32"),
        (tensor([True]), ShapeError, r"got mask \(1,\) for axes of sizes \(3,\)"),
        (tensor([5]), IndexRangeError, "gather_nd requires -3 <= index < 3 on axis 0, got index 5"),
    ],
)
def test_a_wrong_key_is_one_clear_error(key: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        zeros((3, 4))[key]
    assert __file__ in caught.value.location


def test_values_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ShapeError, match="broadcast_to"):
        zeros((3,)).at[:2].set(tensor([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError, match=r"convert it: pyrite\.tensor"):
        zeros((3,)).at[:2].set([1.0, 2.0])


def test_item_assignment_says_what_to_write_instead() -> None:
    with pytest.raises(TypeError, match=r"x = x\.at\[key\]\.set\(values\)"):
        zeros((3,))[0] = 1


def test_a_subscript_that_came_before_is_read_the_same() -> None:
    array = np.arange(24).reshape(4, 6)
    keys = [1, True, (1,), (slice(1, None), 2), (..., slice(None, None, 2)), None, slice(1, 2, 3),
            (1, ...), (slice(None), True), (slice(1, 2), slice(3)), -1]  # fmt: skip
    for shape in ((4, 6), (6, 4), (4, 6)):
        x, y = pyrite.tensor(array.reshape(shape)), array.reshape(shape)
        for key in [*keys, *keys]:
            assert x[key].numpy().tolist() == y[key].tolist(), key
    for _ in range(2):
        with pytest.raises(IndexRangeError, match="got index 4"):
            pyrite.tensor(array)[4]


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_slice_of_a_size_that_is_not_known_is_that_of_each_such_size(n: int) -> None:
    ends = (None, 0, 1, 2, 5, 7, 9, -1, -2, -7, -9)
    served = 0
    for start, stop in itertools.product(ends, ends):
        symbols = SizeSymbols()
        found = read_subscript(slice(start, stop), (symbols.size(n),))
        sizes = symbols.program([*found.start, *found.size])
        for other in range(12):
            got, want = sizes(other), read_subscript(slice(start, stop), (other,))
            assert got in (None, (*want.start, *want.size)), (start, stop, n, other)
            served += got is not None
        assert sizes(n) is not None
    # Not each size for itself.
    assert served > 2 * len(ends) ** 2
