"""Objects of patterns: by machine code as by Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import columns


class Kept:
    """An object with a dict."""


class Child(Kept):
    """One whose class has slots besides."""

    __slots__ = ("size",)


PATTERNS: tuple[Any, ...] = (
    (Kept, {"a": 1, "b": None}, (("b", 0),)),
    (Child, {"c": "text"}, (("d", 1), ("e", 2))),
    (Kept, {}, ()),
    (Kept, {"first": None}, (("first", 3), ("last", 4))),
)


@pytest.fixture(params=["python", "native"])
def add(request: Any) -> Callable[..., int]:
    pyrite.device("cpu")
    if request.param == "python":
        return columns.nodes_by_python
    assert columns._functions["nodes"] is not columns.nodes_by_python
    return columns.add_nodes


def test_objects_have_what_is_shared_and_what_is_theirs(add: Callable[..., int]) -> None:
    x, y = object(), object()
    made = [x, y]

    assert add(PATTERNS, made, 0) == 4

    _, _, first, second, third, last = made
    assert vars(first) == {"a": 1, "b": x}
    assert vars(second) == {"c": "text", "d": y, "e": first}
    assert vars(third) == {}
    assert vars(last) == {"first": second, "last": third}
    assert first.b is x
    assert (second.c, second.e) == ("text", first)
    assert not hasattr(third, "a")
    assert [type(one) for one in made[2:]] == [Kept, Child, Kept, Kept]
    assert PATTERNS[0][1] == {"a": 1, "b": None}
    first.more = 1
    assert vars(made[4]) == {}


def test_what_has_no_pattern_is_left_to_who_asked(add: Callable[..., int]) -> None:
    made: list[Any] = []

    assert add((None, PATTERNS[2]), made, 0) == 0
    assert add((None, PATTERNS[2], None, PATTERNS[2]), made, 1) == 2
    assert add((None,), made, 1) == 1
    assert len(made) == 1


def test_a_place_that_there_is_not_is_an_error(add: Callable[..., int]) -> None:
    made = [object()]
    with pytest.raises(IndexError):
        add(((Kept, {}, (("a", 1),)),), made, 0)
    assert len(made) == 1


def test_nothing_is_held_that_was_let_go(add: Callable[..., int]) -> None:
    x, y = object(), object()
    held = (x, y, Kept, Child, *[part for pattern in PATTERNS for part in pattern[1:]])
    counts = []
    for _ in range(3):
        for _ in range(200):
            add(PATTERNS, [x, y], 0)
        counts.append([sys.getrefcount(one) for one in held])

    assert counts[1] == counts[2]


def test_patterns_may_be_in_any_sequence(add: Callable[..., int]) -> None:
    made = [1.5]

    assert add([(Kept, {"x": 1}, (("y", 0),)), None], made, 0) == 1

    assert vars(made[1]) == {"x": 1, "y": 1.5}
