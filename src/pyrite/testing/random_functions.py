"""Functions in plain Python drawn at random, for the tests of kernels that are made of them.

Branches, loops of all kinds, jumps out of them, names that are set on some ways only, conditional
expressions, calls, tuples and lists.  Numbers stay small: whole ones below 2**20, fractions in
quarters, so that each operation is exact in float32 and Python itself is the judge.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

#: Elements of a row of the float input; each invocation has one.
COLUMNS = 4


def random_function(seed: int, steps: int = 4) -> Callable[..., None]:
    """Return a function ``(k, x, n, out, count, *, flag)``, with its text where tools look for it.

    ``x`` is a float32 of (rows, 4), in quarters, ``n`` an int32 of (rows,); ``out`` and ``count``
    get a float and an int for each row.
    """
    text = _Author(seed).text(steps)
    file = f"<random function {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "random_function"}
    exec(compile(text, file, "exec"), names)
    function: Callable[..., None] = names["function"]
    return function


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: names that are surely set, by kind, and what is around it."""

    whole: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    depth: int = 0
    is_in_loop: bool = False
    #: Names of counters, which nothing else sets.
    counters: tuple[str, ...] = ()

    def inner(self, **changed: Any) -> _Place:
        return replace(self, depth=self.depth + 1, **changed)


T = TypeVar("T")
Block = tuple[list[str], _Place | None]


class _Author:
    """Writes one function; a block has no place after it where no way goes on."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._counters = 0
        #: Calls and loops that are written out yet: each multiplies the kernel.
        self._calls, self._copies = 2, 1
        #: Statements yet.
        self._left = 0
        self._returns: Sequence[str] = ()

    def text(self, steps: int) -> str:
        helpers = [line for name in ("first", "second") for line in self._helper(name)]
        self._returns = ("return", "out[i] = {real}; return", "count[i] = {whole}; return")
        self._left = 3 * steps
        head = ["(i,) = k.at", "out[i] = 0.0", "count[i] = 0", "a, f = n[i], x[i, 0]"]
        lines, place = self._block(_Place(("a", "n[i]", "i"), ("f", "x[i, 1]")), steps)
        if place is not None:
            lines += [f"out[i] = {self._real(place)}", f"count[i] = {self._whole(place)}"]
        body = _indented(head + lines)
        return "\n".join([*helpers, "def function(k, x, n, out, count, *, flag):", *body, ""])

    def _helper(self, name: str) -> list[str]:
        self._returns = ("return {whole}",)
        self._left = 5
        lines, place = self._block(_Place(("a", "b"), ("f",), depth=2), 3, calls=False)
        if place is not None:
            lines.append(f"return {self._whole(place, calls=False)}")
        return [f"def {name}(a, b, f, flag=True):", *_indented(lines), ""]

    # ---- statements ----

    def _block(self, place: _Place | None, steps: int, *, calls: bool = True) -> Block:
        """Return lines; at least one."""
        lines: list[str] = []
        for _ in range(int(self.random.integers(1, steps + 1))):
            assert place is not None
            more, place = self._statement(place, calls)
            lines += more
            if place is None:
                break
        return lines, place

    def _statement(self, place: _Place, calls: bool) -> Block:
        self._left -= 1
        kinds: list[Callable[[_Place, bool], Block]] = [self._set, self._add, self._swap]
        if place.depth < 4 and self._left > 0:
            kinds += [self._branch] * 3 + [self._for, self._while]
        if place.depth < 2 and self._copies > 0:
            kinds += [self._written_out]
        if place.depth:
            kinds += [self._leave]
        return self._one_of(kinds)(place, calls)

    def _set(self, place: _Place, calls: bool) -> Block:
        if self._chance(0.5):
            name = self._one_of(["a", "b", "c"])
            made = f"{name} = {self._whole(place, calls=calls)}"
            return [made], replace(place, whole=(*place.whole, name))
        name = self._one_of(["f", "g", "h"])
        value = self._real(place) if self._chance(0.8) else "2"
        return [f"{name} = {value}"], replace(place, real=(*place.real, name))

    def _add(self, place: _Place, calls: bool) -> Block:
        names = [n for n in (*place.whole, *place.real) if n in ("a", "b", "c", "f", "g", "h")]
        name = self._one_of(names)
        if name in place.whole:
            return [f"{name} += {self._whole(place, calls=calls)}", f"{name} %= 31"], place
        return [f"{name} -= {self._real(place)}", f"{name} %= 8.0"], place

    def _swap(self, place: _Place, calls: bool) -> Block:
        if self._chance(0.5):
            line = f"b, g = {self._whole(place, calls=calls)}, {self._real(place)}"
            return [line], replace(place, whole=(*place.whole, "b"), real=(*place.real, "g"))
        items = f"[{self._real(place)}, {self._real(place)}]"
        after = replace(place, real=(*place.real, "h"))
        return [f"pair = {items}", "pair[0] += pair[1]", "h = pair[0] % 8.0"], after

    def _leave(self, place: _Place, calls: bool) -> Block:
        kinds = list(self._returns)
        if place.is_in_loop:
            kinds += ["break", "continue"] * 2
        real, whole = self._real(place), self._whole(place, calls=calls)
        return [self._one_of(kinds).format(real=real, whole=whole)], None

    def _branch(self, place: _Place, calls: bool) -> Block:
        lines: list[str] = []
        ends: list[_Place] = []
        tests = [self._condition(place) for _ in range(self.random.integers(1, 4))]
        heads = [f"{'elif' if i else 'if'} {test}:" for i, test in enumerate(tests)]
        has_else = self._chance(0.6)
        for head in [*heads, *["else:"] * has_else]:
            inner, end = self._block(place.inner(), 3, calls=calls)
            lines += [head, *_indented(inner)]
            if end is not None:
                ends.append(end)
        if not has_else:
            ends.append(place)
        return lines, self._met(place, ends)

    def _met(self, place: _Place, ends: Sequence[_Place]) -> _Place | None:
        """Return the place after ways that meet: names are those that all of them set."""
        if not ends:
            return None
        whole = [n for n in ("a", "b", "c") if all(n in e.whole for e in ends)]
        real = [n for n in ("f", "g", "h") if all(n in e.real for e in ends)]
        return replace(
            place, whole=tuple(dict.fromkeys([*place.whole, *whole])),
            real=tuple(dict.fromkeys([*place.real, *real])),
        )  # fmt: skip

    def _for(self, place: _Place, calls: bool) -> Block:
        stop = self._one_of(["5", f"({self._whole(place, calls=False)}) % 6", "n[i] % 4"])
        if self._returns == ("return {whole}",):
            stop = self._one_of(["5", "b % 4"])
        spans = [f"range({stop})", f"range(1, {stop})", f"range({stop}, -1, -2)"]
        return self._loop(place, calls, lambda name: [f"for {name} in {self._one_of(spans)}:"])

    def _written_out(self, place: _Place, calls: bool) -> Block:
        self._copies -= 1
        return self._loop(place, calls, lambda name: [f"for {name} in (2, 5, 1):"])

    def _while(self, place: _Place, calls: bool) -> Block:
        def head(name: str) -> list[str]:
            test = self._condition(place)
            return [f"{name} = -1", f"while {name} < 5 and ({test}):", f"    {name} += 1"]

        return self._loop(place, calls, head)

    def _loop(self, place: _Place, calls: bool, head: Callable[[str], list[str]]) -> Block:
        self._counters += 1
        name = f"j{self._counters}"
        lines = head(name)
        inside = place.inner(is_in_loop=True, whole=(*place.whole, name))
        body, _ = self._block(inside, 4, calls=calls)
        lines += _indented(body)
        if self._chance(0.2):
            after, _ = self._block(place.inner(), 2, calls=calls)
            lines += ["else:", *_indented(after)]
        return lines, place

    # ---- expressions ----

    def _condition(self, place: _Place) -> str:
        def whole() -> str:
            return self._one_of(place.whole)

        def real() -> str:
            return self._one_of(place.real)

        kinds = [
            f"{whole()} % 3 == {self.random.integers(3)}", f"{whole()} > {self._number()}",
            f"{real()} > {self._fraction()}", f"0 < {whole()} < {self._number()}",
            f"not {real()} <= {self._fraction()}", f"flag and {whole()} > 2", "flag",
            f"{whole()} > 3 and {real()} > 1.0 or {whole()} < 2",
        ]  # fmt: skip
        return self._one_of(kinds)

    def _whole(self, place: _Place, depth: int = 0, *, calls: bool = True) -> str:
        if depth > 1 or self._chance(0.3):
            return self._one_of([*place.whole, str(self._number())])
        x, y = (self._whole(place, depth + 1, calls=calls) for _ in range(2))
        kinds = [
            f"({x} + {y})", f"({x} - {y})", f"({x} * 3)", f"({x} // 3)", f"({x} % 7)",
            f"({x} ^ {y})", f"min({x}, {y})", f"({x} if {self._condition(place)} else {y})",
        ]  # fmt: skip
        if calls and self._calls > 0 and self._chance(0.3):
            self._calls -= 1
            kinds = [f"{self._one_of(['first', 'second'])}({x}, {y}, {self._real(place)}, flag)"]
        return self._one_of(kinds)

    def _real(self, place: _Place, depth: int = 0) -> str:
        if depth > 1 or self._chance(0.3):
            return self._one_of([*place.real, str(self._fraction())])
        x, y = self._real(place, depth + 1), self._real(place, depth + 1)
        kinds = [
            f"({x} + {y})", f"({x} - {y})", f"({x} * 2.0)", f"({x} % 4.0)", f"abs({x})",
            f"max({x}, {y})", f"({x} if {self._condition(place)} else {y})",
        ]  # fmt: skip
        return self._one_of(kinds)

    def _number(self) -> int:
        return int(self.random.integers(-3, 9))

    def _fraction(self) -> float:
        return float(self.random.integers(-8, 17)) / 4

    def _chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def _one_of(self, items: Sequence[T]) -> T:
        return items[int(self.random.integers(len(items)))]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
