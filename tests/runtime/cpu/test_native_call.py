"""Slots are found where they are, or not at all."""

from __future__ import annotations

import ctypes

import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cpu.native_call import is_possible, place_of_class, place_of_slot

pytestmark = pytest.mark.skipif(not is_possible(), reason="objects are not to be read here")


class Slots:
    __slots__ = ("a", "b", "c")


class More(Slots):
    __slots__ = ("d",)


def test_what_is_at_a_place_is_what_is_in_the_slot() -> None:
    x = More()
    x.a, x.b, x.c, x.d = things = [object() for _ in range(4)]

    places = [place_of_slot(Slots, name) for name in "abc"] + [place_of_slot(More, "d")]

    assert len(set(places)) == 4
    for place, thing in zip(places, things, strict=True):
        assert place is not None
        assert ctypes.c_int64.from_address(id(x) + place).value == id(thing)


def test_what_is_no_slot_has_no_place() -> None:
    class Other:
        def __init__(self) -> None:
            self.a = 1

        @property
        def b(self) -> int:
            return 1

    assert place_of_slot(Other, "a") is None
    assert place_of_slot(Other, "b") is None
    assert place_of_slot(More, "a") is None, "it is its base's"


def test_the_class_of_an_object_is_at_one_place() -> None:
    place = place_of_class(object())

    assert place is not None
    for x in (Slots(), [], 1.5, None):
        assert ctypes.c_int64.from_address(id(x) + place).value == id(type(x))
