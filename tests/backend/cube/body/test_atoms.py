"""Axes of many tensors are products of the same atoms, or it is said that they are none."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.backend.cube.body.atoms import Atoms, MisalignedError


def test_axes_that_meet_are_one() -> None:
    atoms = Atoms()
    x, y = atoms.new(6), atoms.new(6)

    assert atoms.unify(x, y) == atoms.resolved(x) == atoms.resolved(y)


def test_a_reshape_cuts_axes_and_what_meets_them_later_is_cut_too() -> None:
    atoms = Atoms()
    (n, c), w = atoms.axes((4, 6)), atoms.new(6)
    seen = atoms.reshaped((n, c), (4, 2, 3))
    atoms.unify(c, w)

    assert [atoms.sizes(axis) for axis in seen] == [(4,), (2,), (3,)]
    assert atoms.sizes(atoms.resolved(w)) == (2, 3)
    assert atoms.resolved(w) == seen[1] + seen[2]


def test_sizes_without_a_common_cut_are_misaligned() -> None:
    atoms = Atoms()
    with pytest.raises(MisalignedError):
        atoms.reshaped(atoms.axes((6, 4)), (8, 3))


def test_a_diagonal_is_misaligned() -> None:
    atoms = Atoms()
    x = atoms.axes((3, 3))
    atoms.unify(x[0], x[1])
    with pytest.raises(MisalignedError):
        atoms.require_distinct(x)


FACTORS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(FACTORS, st.data())
def test_strides_along_atoms_are_those_of_the_axes(factors: list[int], data: st.DataObject) -> None:
    """An element has one number in row-major order, however the axes are cut."""
    shapes = []
    for _ in range(2):
        cuts = sorted(data.draw(st.sets(st.integers(0, len(factors)))))
        edges = [0, *cuts, len(factors)]
        shapes.append([math.prod(factors[a:b]) for a, b in itertools.pairwise(edges)])
    atoms = Atoms()
    axes = atoms.axes(tuple(shapes[0]))
    other = atoms.reshaped(axes, tuple(shapes[1]))
    found = [
        atoms.strides(of, [math.prod(shape[i + 1 :]) for i in range(len(shape))])
        for of, shape in ((axes, shapes[0]), (other, shapes[1]))
    ]

    assert found[0] == found[1]
