"""What is done with many objects at once is what Python does with one after the other."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import columns
from pyrite.columns import (
    Column,
    distinct_by_python,
    held_as_by_python,
    held_by_python,
)
from pyrite.runtime.cpu.native_call import is_possible


class Place:
    __slots__ = ("__weakref__", "other", "x")

    other: Any
    x: Any


class Other(Place):
    __slots__ = ()


def places(count: int) -> list[Any]:
    made = [Place() for _ in range(count)]
    for n, place in enumerate(made):
        place.x = (n, "text")
    return made


@pytest.fixture(params=["python", "native"])
def way(request: pytest.FixtureRequest) -> str:
    pyrite.device("cpu")
    if request.param == "native" and not is_possible():
        pytest.skip("objects are not to be read here")
    return str(request.param)


@pytest.fixture
def column(way: str) -> Column:
    made = Column(Place, "x")
    if way == "python":
        made.read, made.write = made.read_by_python, made.write_by_python
    else:
        assert made.read != made.read_by_python, "machine code has its place"
        assert made.write != made.write_by_python, "machine code has its place"
    return made


@pytest.fixture
def distinct(way: str) -> Any:
    return distinct_by_python if way == "python" else columns.distinct


@pytest.fixture
def held(way: str) -> Any:
    return held_by_python if way == "python" else columns.held


@pytest.fixture
def held_as(way: str) -> Any:
    return held_as_by_python if way == "python" else columns.held_as


@pytest.mark.parametrize("count", [0, 1, 3, 70])
@pytest.mark.parametrize("kind", [tuple, list])
def test_a_column_is_read_and_written(column: Column, count: int, kind: Any) -> None:
    made = places(count)
    want = [place.x for place in made]

    assert column.read(kind(made)) == want
    assert column.write(kind(made), kind(want[::-1])) is None  # type: ignore[func-returns-value]
    assert [place.x for place in made] == want[::-1]


def test_objects_of_other_classes_are_read_and_written(column: Column) -> None:
    made = [*places(2), Other()]
    column.write(made, [1, 2, 3])

    assert column.read(made) == [1, 2, 3]


def test_an_empty_slot_is_an_error_and_may_be_written(column: Column) -> None:
    made = [*places(1), Place()]

    with pytest.raises(AttributeError, match="x"):
        column.read(made)
    column.write(made, [1, 2])
    assert column.read(made) == [1, 2]


def test_values_are_as_many_as_objects(column: Column) -> None:
    with pytest.raises(ValueError, match="shorter"):
        column.write(places(2), [1])


def test_what_is_let_go_of_may_empty_the_lists(column: Column) -> None:
    made, values = places(3), [1, 2, 3]

    class Emptying:
        def __del__(self) -> None:
            made.clear()

    made[0].x = Emptying()

    # An iterator ends there, without a word or with one of its own.
    with suppress(IndexError, ValueError):
        column.write(made, values)
    assert made == []


@pytest.mark.parametrize("count", [0, 1, 5, 64, 65, 200])
def test_distinct_objects_are_numbered_by_identity(distinct: Any, count: int) -> None:
    different = [[n] if n else [] for n in range(count)]
    objects = [different[n * 7 % count] for n in range(3 * count)]

    found, numbers = distinct(objects)

    assert [found[n] for n in numbers] == objects
    assert all(found[n] is x for n, x in zip(numbers, objects, strict=True))
    assert len(found) == count
    assert distinct(tuple(objects)) == (found, numbers)


def test_equal_objects_are_different_ones(distinct: Any) -> None:
    x, y = 1.5, float("1.5")

    assert distinct([x, y, None, x]) == ([x, y, None], (0, 1, 2, 0))


def test_objects_that_more_than_a_list_holds_have_their_numbers(held: Any, held_as: Any) -> None:
    made: list[Any] = [*places(5), None]
    kept = [made[0], made[2], made[3]]

    numbers, found = held(made)

    assert numbers == [0, 2, 3]
    assert [*map(id, found)] == [*map(id, kept)]
    assert held([]) == ([], [])
    flags = bytes([1, 0, 1, 1, 0, 0])
    assert [*map(id, held_as(made, flags))] == [*map(id, kept)]
    assert held_as(made, flags[:5]) is None
    assert held_as(made, bytes([1, 1, 1, 1, 0, 0])) is None
    assert held_as(made, bytes(6)) is None
    assert held_as([], b"") == []


def test_an_object_is_held_by_a_name_a_slot_and_a_tuple(held: Any) -> None:
    made: list[Any] = places(4)
    named, holder = made[1], Place()
    holder.x, pair = made[2], (made[3],)

    assert held(made)[0] == [1, 2, 3]
    del named, pair
    assert held(made)[0] == [2]
    holder.x = None
    assert held(made) == ([], [])


def test_what_is_no_list_goes_to_python(held: Any, held_as: Any) -> None:
    x = Place()
    with pytest.raises(TypeError):
        held(7)
    with pytest.raises(TypeError):
        held_as(7, b"")
    assert held((x,))[0] == [0]
    assert held_as([x], bytearray([1])) == [x]


def test_nothing_is_kept_that_was_let_go(
    column: Column, distinct: Any, held: Any, held_as: Any
) -> None:
    x, y, none = object(), Place(), None
    y.x = x
    objects, flags = [y, none, x, [1]], bytes([1, 0, 1, 0])
    counted = (x, y, none, objects[3], flags)

    def counts() -> list[int]:
        return [*map(sys.getrefcount, counted)]

    before = counts()
    for _ in range(5000):
        column.read([y] * 20)
        column.write([y] * 20, [x] * 20)
        distinct([x, y] * 20)
        distinct([*range(70)])
        held(objects)
        held_as(objects, flags)
        with pytest.raises(AttributeError):
            column.read([y, none])
    after = counts()
    assert [abs(n - m) < 100 for n, m in zip(before, after, strict=True)] == [True] * 5
