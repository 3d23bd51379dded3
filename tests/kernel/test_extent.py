"""Problems of which a function is asked, with sizes that are known and with symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyrite.kernel.extent import answered, extent
from pyrite.sized import SizeSymbols, is_size


def test_a_function_of_a_problem_is_one_question_and_sees_no_symbol() -> None:
    @dataclass(frozen=True)
    class Window:
        taps: int
        size: int = extent()

    symbols = SizeSymbols()
    taps, size = symbols.size(3), symbols.size(100)
    seen: list[Any] = []

    def kind(problem: Window) -> str:
        seen.append((problem.taps, problem.size))
        return "long" if problem.size > 50 else "short"

    assert answered(kind, Window(taps, size)) == "long"
    program = symbols.program([size])
    assert program(3, 80) == (80,)
    assert program(3, 30) is None, "the function says another thing"
    assert program(5, 80) is None, "what is no extent is built in"
    assert seen == [(3, 100), (3, 80), (3, 30)]
    assert not any(is_size(n) for pair in seen for n in pair)


def test_a_function_of_a_known_problem_is_called() -> None:
    assert answered(lambda pair: pair[0], (3, 4)) == 3
