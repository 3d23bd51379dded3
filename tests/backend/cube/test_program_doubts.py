"""Doubts of a program's results: each has what reaches it; what reaches all is found out once."""

from __future__ import annotations

import itertools
from typing import Any

from pyrite.backend.cube.fault import Doubt, Failure
from pyrite.backend.cube.program_doubts import Doubts, Reach
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.types import TensorType, float32


def of(doubt: Doubt | None) -> CubeTensor:
    buffer: Any = None
    return CubeTensor(buffer, TensorType((), float32), (), 0, doubt)


def doubts(count: int) -> list[Doubt]:
    # Without a word that two share, they are joined by what they are.
    return [Doubt(n, "index outside", "here", word=object()) for n in range(count)]  # type: ignore[arg-type]


def parts(found: Any) -> set[Doubt]:
    return set() if found is None else set(found.parts)


def test_each_result_is_in_doubt_of_what_reaches_it() -> None:
    before, own = doubts(4), doubts(2)
    reaches = [Reach(0b1011, (0,)), Reach(0b111, ()), Reach(0b001, (0, 1)), Reach(0b101, (0,))]
    many = Doubts(reaches)  # it keeps fewer sets of inputs than it meets
    for n in [*range(5), *range(5)]:
        for held in itertools.combinations(range(4), n):
            inputs = [of(before[k] if k in held else None) for k in range(4)]

            found = many.of(inputs, own)

            for reach, doubt in zip(reaches, found, strict=True):
                wanted = {before[k] for k in held if reach.inputs >> k & 1}
                assert parts(doubt) == wanted | {own[k] for k in reach.faults}


def test_what_the_same_reaches_has_one_doubt() -> None:
    (before,), own = doubts(1), doubts(1)
    reaches = [Reach(0b11, (0,)), Reach(0b01, (0,)), Reach(0b01, ())]

    first, second, third = Doubts(reaches).of([of(before), of(before)], own)

    assert first is second
    assert third is before
    assert [*Doubts(reaches).of([], [])] == [None, None, None]


def test_inputs_that_are_known_to_be_sound_are_left_out() -> None:
    sound, failed, open_ = doubts(3)
    sound.is_open = failed.is_open = False
    failed.failure = Failure("index outside", "here")

    inputs = [of(sound), of(failed), of(open_), of(failed)]
    found = Doubts([Reach(0b0001, ()), Reach(0b1010, ()), Reach(0b0100, ()), Reach(0b0101, ())])

    assert [*found.of(inputs, [])] == [None, failed, open_, open_]
    assert [*found.of([of(sound), *inputs[1:]], [])] == [None, failed, open_, open_]
    open_.is_open = False
    assert [*found.of(inputs, [])] == [None, failed, None, None]
