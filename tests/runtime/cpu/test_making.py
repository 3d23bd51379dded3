"""Objects that are made together are those that Python makes one by one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite.columns import Maker
from pyrite.runtime.cpu.native_call import is_possible


class Place:
    __slots__ = ("__weakref__", "other", "x", "y")

    x: Any
    y: Any


@pytest.fixture(params=["python", "native"])
def many(request: pytest.FixtureRequest) -> Any:
    pyrite.device("cpu")
    maker = Maker(Place, "x", "y")
    if request.param == "python":
        return maker.many_by_python
    if not is_possible():
        pytest.skip("objects are not to be written here")
    assert maker.many != maker.many_by_python, "machine code has its place"
    return maker.many


def test_columns_are_tuples_lists_or_what_all_hold(many: Any) -> None:
    made = many(3, (1, (2,), None), [4, [5], 6])

    assert [(one.x, one.y) for one in made] == [(1, 4), ((2,), [5]), (None, 6)]
    assert {type(one) for one in made} == {Place}
    assert [one.x for one in many(2, "same", None)] == ["same", "same"]


def test_what_no_column_gives_is_unset(many: Any) -> None:
    (one,) = many(1, 1, 2)

    assert not hasattr(one, "other")


def test_none_are_made_of_none(many: Any) -> None:
    assert many(0, (), []) == []


def test_nothing_is_held_that_was_let_go(many: Any) -> None:
    x, y = object(), object()
    columns = (x,) * 50, [y] * 50
    before = sys.getrefcount(x), sys.getrefcount(y)

    for _ in range(1000):
        many(50, *columns)

    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


@pytest.mark.skipif(not is_possible(), reason="objects are not to be written here")
def test_a_column_that_is_too_short_is_an_error() -> None:
    pyrite.device("cpu")
    x = object()
    before = sys.getrefcount(x)

    with pytest.raises(IndexError):
        Maker(Place, "x", "y").many(3, [x, x], x)

    assert sys.getrefcount(x) == before
