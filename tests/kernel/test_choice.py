"""What is chosen for a problem, with sizes that are known and with symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyrite.kernel.choice import chosen
from pyrite.kernel.extent import extent, filled, pattern_in_places, pattern_of, varying
from pyrite.sized import SizeSymbols, is_size


@dataclass(frozen=True)
class Window:
    taps: int
    size: int = extent()


@dataclass(frozen=True)
class Cut:
    lanes: int
    block: int = extent()


def test_a_choice_is_one_question_and_sees_no_symbol() -> None:
    symbols = SizeSymbols()
    taps, size = symbols.size(3), symbols.size(100)
    seen: list[Any] = []

    @chosen(16)
    def kind(problem: Window) -> str:
        seen.append((problem.taps, problem.size))
        return "long" if problem.size > 50 else "short"

    assert kind(Window(taps, size)) == "long"
    assert kind(Window(taps, size)) == "long"
    program = symbols.program([size])
    assert program(3, 80) == (80,)
    assert program(3, 30) is None, "the function says another thing"
    assert program(5, 80) is None, "what is no extent is built in"
    assert seen == [(3, 100), (3, 80), (3, 30)]
    assert not any(is_size(n) for pair in seen for n in pair)


def test_sizes_in_what_was_chosen_are_made_anew_for_others() -> None:
    @chosen(16)
    def cut(problem: Window, lanes: int) -> Cut:
        # A block of one is another kernel, so it is part of what was chosen.
        return Cut(lanes, max(1, problem.size // 3 if problem.size % 2 else problem.size // 5))

    symbols = SizeSymbols()
    found = cut(Window(3, symbols.size(100)), 8)
    assert found.lanes == 8
    assert is_size(found.block)
    program = symbols.program([found.block + 1])
    assert program(100) == (21,)
    assert program(33) == (12,)
    assert program(4) is None


@dataclass(frozen=True)
class Shared:
    width: int
    lanes: int = varying()
    keeps: bool = varying()


@dataclass(frozen=True)
class Whole:
    of: Shared
    rows: int = extent()


def _share(problem: Window) -> Whole:
    lanes = 64 if problem.size > 40 else 1
    return Whole(Shared(4 if problem.size % 4 == 0 else 1, lanes, lanes == 1), problem.size)


def test_what_varies_in_a_choice_makes_no_question_until_it_is_asked() -> None:
    share = chosen(16)(_share)
    symbols = SizeSymbols()
    found = share(Window(3, symbols.size(100)))
    assert found.of.width == 4
    assert is_size(found.of.lanes)
    program = symbols.program([found.of.lanes, found.of.keeps, found.rows])
    assert program(100) == (64, False, 100)
    assert program(8) == (1, True, 8)
    assert program(101) is None, "the width is part of the choice"

    assert found.of.lanes > 1
    program = symbols.program([found.of.lanes])
    assert program(60) == (64,)
    assert program(8) is None


def test_a_pattern_with_places_is_that_of_each_size_when_it_is_filled() -> None:
    share = chosen(16)(_share)
    symbols = SizeSymbols()
    found = share(Window(3, symbols.size(100)))
    pattern, varied, extents = pattern_in_places((found, "name"))
    assert len(varied) == 2
    program = symbols.program([*varied, *extents])
    for size in (100, 8, 44):
        *numbers, rows = program(size) or ()
        wanted = share(Window(3, size))
        assert (filled(pattern, numbers), (rows,)) == pattern_of((wanted, "name"))
    lanes, keeps = varied
    pattern_of((found, "name"))
    assert symbols.program([lanes, keeps])(8) is None, "without places they are built in"


def test_what_was_chosen_for_other_arguments_is_another_choice() -> None:
    @chosen(16)
    def cut(problem: Window, lanes: int) -> Cut:
        return Cut(lanes, problem.size * lanes)

    symbols = SizeSymbols()
    size = symbols.size(100)
    blocks = [cut(Window(3, size), lanes).block for lanes in (4, 8)]
    named = cut(Window(3, size), lanes=2).block
    program = symbols.program([*blocks, named])
    assert program(50) == (200, 400, 100)
    assert cut(Window(3, 5), lanes=2).block == 10


def test_a_symbol_beside_the_extents_alone_is_built_in() -> None:
    symbols = SizeSymbols()

    @chosen(16)
    def double(problem: Window) -> int:
        return 2 * problem.taps

    assert double(Window(symbols.size(7), 1)) == 14
    program = symbols.program([])
    assert program(7) == ()
    assert program(8) is None


def test_a_choice_for_a_known_problem_is_made_once() -> None:
    seen: list[int] = []

    @chosen(16)
    def first(problem: Window) -> int:
        seen.append(problem.size)
        return problem.taps

    assert [first(Window(3, 4)), first(Window(3, 4))] == [3, 3]
    assert seen == [4]
