"""Index maps say of views, and of what is composed of them, what NumPy says of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite.op.index import (
    Bound,
    IndexMap,
    broadcast,
    coordinate,
    coordinates,
    covering_windows,
    fibers,
    identity,
    inverse,
    permuted,
    reshaped,
    sliced,
    windowed,
)
from pyrite.op.index.form import Digit, Form
from pyrite.types import Array, Shape

shapes = st.lists(st.integers(1, 5), min_size=0, max_size=4).map(tuple)


def read(index: IndexMap, x: Array) -> Array:
    """The elements of x at the places of a map, -1 where there are none."""
    grid = np.indices(index.shape)
    where = np.broadcast_to(np.asarray(index.valid(grid)), index.shape)
    places = tuple(np.where(where, np.broadcast_to(p, index.shape), 0) for p in index.at(grid))
    return np.where(where, x[places], -1)


def numbers(shape: Shape) -> Array:
    return np.arange(int(np.prod(shape))).reshape(shape)


def factors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


@st.composite
def reshapes(draw: Any, source: Shape) -> tuple[IndexMap, Array]:
    left, shape = int(np.prod(source)), []
    for _ in range(draw(st.integers(0, 3))):
        shape.append(draw(st.sampled_from(factors(left))))
        left //= shape[-1]
    to = (*shape, left)
    return reshaped(source, to), numbers(source).reshape(to)


@st.composite
def permutations(draw: Any, source: Shape) -> tuple[IndexMap, Array]:
    axes = tuple(draw(st.permutations(range(len(source)))))
    return permuted(source, axes), numbers(source).transpose(axes)


@st.composite
def slices(draw: Any, source: Shape) -> tuple[IndexMap, Array]:
    start, size, step, index = [], [], [], []
    for n in source:
        first, stride = draw(st.integers(0, n - 1)), draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        most = (n - 1 - first) // stride if stride > 0 else first // -stride
        count = draw(st.integers(1, most + 1))
        start, size, step = [*start, first], [*size, count], [*step, stride]
        index.append(first + np.arange(count) * stride)
    x = numbers(source)[np.ix_(*index)] if source else numbers(source)
    return sliced(source, tuple(start), tuple(size), step), x


@st.composite
def broadcasts(draw: Any, source: Shape) -> tuple[IndexMap, Array]:
    new = draw(st.lists(st.integers(1, 3), max_size=2))
    to = (*new, *(draw(st.integers(1, 3)) if n == 1 else n for n in source))
    return broadcast(source, to), np.broadcast_to(numbers(source), to)


@st.composite
def windows(draw: Any, source: Shape) -> tuple[IndexMap, Array]:
    if not source:
        return identity(source), numbers(source)
    axis = draw(st.integers(0, len(source) - 1))
    size, step = draw(st.integers(1, source[axis])), draw(st.integers(1, 3))
    found = np.lib.stride_tricks.sliding_window_view(numbers(source), size, axis)
    return windowed(source, axis, size, step), found.take(range(0, found.shape[axis], step), axis)


def any_view(source: Shape) -> Any:
    kinds = [reshapes, permutations, slices, broadcasts, windows]
    return st.one_of(*(kind(source) for kind in kinds))


@st.composite
def chains(draw: Any, *kinds: Any) -> tuple[IndexMap, Array]:
    """Some views one after the other, as one map, and what it is to read of `numbers`."""
    source = draw(shapes)
    index, found = identity(source), numbers(source)
    for _ in range(draw(st.integers(1, 3))):
        if found.size > 2000:
            break
        one = any_view if not kinds else lambda s: st.one_of(*(kind(s) for kind in kinds))
        outer, places = draw(one(index.shape))
        index, found = outer.compose(index), found.reshape(-1)[places.reshape(-1)]
        found = found.reshape(outer.shape)
    return index, found


@settings(max_examples=100, deadline=None)
@given(chains())
def test_views_one_after_the_other_are_one_map(made: tuple[IndexMap, Array]) -> None:
    index, found = made
    np.testing.assert_array_equal(read(index, numbers(index.source)), found)
    np.testing.assert_array_equal(read(index.simplified, numbers(index.source)), found)


@settings(max_examples=100, deadline=None)
@given(chains(reshapes, permutations, slices, broadcasts, windows), st.data())
def test_strides_of_a_map_are_where_it_reads(made: tuple[IndexMap, Array], data: Any) -> None:
    index, _ = made
    dense = np.array(numbers(index.source).strides) // 8
    steps = tuple(int(s) * data.draw(st.sampled_from([1, 1, 2, -1])) for s in dense)
    strides = index.strides(steps)
    if strides is None:
        assert not index.is_affine
        return
    grid = np.indices(index.shape)
    address = strides[1] + sum(c * s for c, s in zip(grid, strides[0], strict=True))
    places = [np.broadcast_to(p, index.shape) for p in index.at(grid)]
    want = sum((p * s for p, s in zip(places, steps, strict=True)), np.zeros(index.shape, int))
    np.testing.assert_array_equal(np.broadcast_to(address, index.shape), want)


def flips(source: Shape) -> Any:
    backwards = sliced(source, tuple(n - 1 for n in source), source, (-1,) * len(source))
    return st.just((backwards, np.flip(numbers(source))))


@settings(max_examples=80, deadline=None)
@given(chains(reshapes, permutations, flips))
def test_what_reads_every_element_once_has_an_inverse(made: tuple[IndexMap, Array]) -> None:
    index, _ = made
    back = inverse(index)
    if back is None:  # a reshape of what was turned divides what no one form counts
        assert not index.is_affine
        return
    assert back.shape == index.source
    through = read(back, read(index, numbers(index.source)))
    np.testing.assert_array_equal(through, numbers(index.source))


@pytest.mark.parametrize(("shape", "to"), [((2, 3), (6,)), ((4, 6), (3, 8)), ((5,), (1, 5, 1))])
def test_reshapes_have_the_reshape_back_as_inverse(shape: Shape, to: Shape) -> None:
    assert inverse(reshaped(shape, to)) == reshaped(to, shape).simplified


@settings(max_examples=80, deadline=None)
@given(chains(permutations, slices, broadcasts, windows), st.integers(0, 3), st.data())
def test_fibers_are_the_transpose(made: tuple[IndexMap, Array], margin: int, data: Any) -> None:
    index, _ = made
    if margin and index.shape:  # only some elements have a place
        index = index.masked(Bound(coordinate(0), margin - 1, 2 * margin))
    if index.shape and data.draw(st.booleans()):  # diagonals read one coordinate twice
        at = coordinates(len(index.shape))
        twice = (*(place.at(at) if place.terms else place for place in index.places), at[0] + 1)
        index = IndexMap(index.shape, (*index.source, index.shape[0] + 1), twice, index.bounds)
    found = fibers(index)
    assert found is not None
    turned, taps = found
    assert turned.shape == (*index.source, *taps)
    x = np.random.default_rng(0).integers(1, 9, index.shape)
    grid = np.indices(index.shape)
    where = np.broadcast_to(np.asarray(index.valid(grid)), index.shape)
    places = tuple(np.broadcast_to(p, index.shape)[where] for p in index.at(grid))
    want = np.zeros(index.source, x.dtype)
    np.add.at(want, places, x[where]) if places else want.__iadd__(x[where].sum())
    of = tuple(range(len(index.source), len(turned.shape)))
    got = np.where(read(turned, x) == -1, 0, read(turned, x)).sum(axis=of)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("size", [1, 3, 5, 7, 12])
def test_fibers_of_covering_windows_are_those_over_a_place(size: int, count: int) -> None:
    windows = covering_windows((size,), (count,)).index
    found = fibers(windows)
    assert found is not None
    over, _ = found
    x = np.random.default_rng(0).integers(1, 9, windows.shape)
    got = read(over, x)
    want = np.zeros(size, int)
    for o in range(count):
        for t, p in enumerate(range(o * size // count, -(-(o + 1) * size // count))):
            want[p] += x[o, t]
    np.testing.assert_array_equal(np.where(got == -1, 0, got).reshape(size, -1).sum(1), want)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_simplified_form_has_the_same_values(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    whole: Form = data.draw(forms(len(shape), 2))
    grid = np.indices(shape)
    simple = whole.simplified(shape)
    want = np.broadcast_to(whole.at(grid), shape)
    np.testing.assert_array_equal(np.broadcast_to(simple.at(grid), shape), want)
    low, high = simple.range(shape)
    assert low <= want.min() <= want.max() <= high
    # Processors divide towards 0.
    assert all(digit.form.range(shape)[0] >= 0 for digit in digits_of(simple))


def digits_of(of: Form) -> list[Digit]:
    """All digits of a form, those inside of others too."""
    own = [atom for _, atom in of.terms if isinstance(atom, Digit)]
    return [*own, *(inner for digit in own for inner in digits_of(digit.form))]


@st.composite
def forms(draw: Any, rank: int, depth: int) -> Form:
    found = Form(draw(st.integers(-9, 9)))
    for axis in range(rank):
        found = found + coordinate(axis) * draw(st.sampled_from([0, 1, 2, 3, 4, 6, -1, -2]))
    for _ in range(draw(st.integers(0, 2)) if depth else 0):
        inner = draw(forms(rank, depth - 1))
        divided = inner // draw(st.sampled_from([1, 2, 3, 4, 6]))
        modulus = draw(st.sampled_from([None, 2, 3, 4, 6]))
        digit = divided if modulus is None else divided % modulus
        found = found + digit * draw(st.sampled_from([1, 2, 3, -1]))
    return found


def test_what_has_no_inverse_says_so() -> None:
    i, j = coordinates(2)
    assert inverse(broadcast((3,), (2, 3))) is None
    assert inverse(windowed((5,), 0, 2, 1)) is None
    assert inverse(IndexMap((2, 2), (4,), (3 * i - j + 1,))) is None
    assert inverse(sliced((5,), (1,), (3,), (1,))) is None
    assert inverse(IndexMap((4,), (4,), ((i + 1) % 4,))) is None
    assert inverse(IndexMap((2, 3), (2, 3), (i, (i + j) % 3))) is None


def test_maps_that_say_the_same_are_equal_and_printed() -> None:
    index = reshaped((2, 6), (4, 3))
    assert index == reshaped((2, 6), (4, 3))
    assert hash(index) == hash(reshaped((2, 6), (4, 3)))
    assert str(index.simplified) == "(4, 3) -> (2, 6): (i0) // 2, (3*i0 + i1) % 6"
    assert not index.is_affine
    assert index.strides((6, 1)) == ((3, 1), 0)
