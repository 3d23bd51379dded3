"""The lines of a function before they have names: which expressions stand in others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyrite.onnx.python.code import (
    AND,
    ATOM,
    COMPARISON,
    OR,
    PRODUCT,
    SUM,
    XOR,
    Code,
    Local,
    Part,
    code,
    flat,
    least_text,
)
from pyrite.onnx.python.layout import WIDTH
from pyrite.onnx.python.step import Mark
from pyrite.onnx.python.value import TENSOR, Kind

#: Calls in one expression; past that a reader wants a name for what is between.
CALLS = 4

#: Letters in one expression: what has more is on more than two lines, and is taken apart again.
_LONGEST = 2 * WIDTH + 1


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Values that an expression gives, once or in a loop over a list of modules."""

    targets: tuple[str, ...]
    code: Code
    kinds: tuple[Kind, ...] = (TENSOR,)
    hint: str = ""
    #: What the line is, as of a statement (`step`).
    mark: Mark = ""
    #: The list that a loop is over, and its state before the first: (member, variable, state).
    loop: tuple[Code, str, str] | None = None
    #: The values that were put into it.
    within: tuple[str, ...] = ()

    @property
    def uses(self) -> list[str]:
        """The values that it reads, once for each time."""
        found = self.code.locals
        return found if self.loop is None else [self.loop[2], *found]


def joined(
    lines: Sequence[Assignment], outputs: Sequence[str], apart: set[str]
) -> list[Assignment]:
    """Return lines with expressions that are read once put where they are read."""
    counts = Counter(name for line in lines for name in line.uses)
    counts.update(outputs)
    found: list[Assignment] = []
    for line in lines:
        while found and line.loop is None:
            last = found[-1]
            if not _fits(last, line, counts, apart):
                break
            found.pop()
            line = _with(line, last)
        found.append(line)
    return found


def _fits(last: Assignment, line: Assignment, counts: Counter[str], apart: set[str]) -> bool:
    is_value = not last.mark and last.loop is None
    if not is_value or len(last.targets) != 1 or not _may_move(last, line):
        return False
    (name,) = last.targets
    if counts[name] != 1 or name in apart or name not in line.uses:
        return False
    texts = least_text(last.code), least_text(line.code)
    return sum(map(_calls, texts)) <= CALLS and sum(map(len, texts)) <= _LONGEST


def _may_move(last: Assignment, line: Assignment) -> bool:
    """Whether an expression may stand in the next line: a tensor, or what a block is given."""
    return last.kinds == (TENSOR,) or line.mark in ("set", "if", "for", "unless")


def _calls(text: str) -> int:
    """Return how many calls and operators an expression has."""
    return text.count("(") + text.count(" @ ") + text.count("[") // 2 + text.count(" + ")


def _with(line: Assignment, inner: Assignment) -> Assignment:
    """Return a line with the expression of another in the place of its value."""
    (name,) = inner.targets
    made = substituted(line.code, name, inner.code)
    hint = line.hint or inner.hint
    return replace(line, code=made, hint=hint, within=(*inner.within, *line.within, name))


def substituted(x: Code, name: str, inner: Code) -> Code:
    """Return an expression with a value's expression in its place."""
    arguments = x.arguments
    if arguments is not None:
        arguments = tuple(
            inner if a.parts == (Local(name),) and a.arguments is None
            else substituted(a, name, inner)
            for a in arguments
        )  # fmt: skip
    if Local(name) not in x.parts:
        return replace(x, arguments=arguments)
    at = x.parts.index(Local(name))
    is_first, is_last = at == 0, at + 1 == len(x.parts)
    before = "" if is_first else x.parts[at - 1]
    after = ("(" if x.arguments is not None else "") if is_last else x.parts[at + 1]
    put = inner if _may_stand(inner, before, after) else code("({})", inner)
    parts = (*x.parts[:at], *flat(put), *x.parts[at + 1 :])
    return replace(x, parts=code("{}" * len(parts), *parts).parts, arguments=arguments)


#: How tightly operators bind.
_LEVELS = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARISON), "|": OR, "^": XOR, "&": AND,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "@": PRODUCT,
}  # fmt: skip


def _may_stand(inner: Code, before: Part, after: Part) -> bool:
    """Whether an expression may stand between two pieces of text without parentheses."""
    left = before if isinstance(before, str) else ""
    right = after if isinstance(after, str) else ""
    if right[:1] in (".", "[", "(") or left[-1:] in ("-", "~"):
        return inner.binds == ATOM
    words = left.split(), right.split()
    over = _LEVELS.get(words[0][-1] if words[0] and left[-1:] == " " else "", -1)
    under = _LEVELS.get(words[1][0] if words[1] and right[:1] == " " else "", -1)
    # An operator takes what is on its left first: only there may something bind as it does.
    is_left = inner.binds > under or (inner.binds == under and under > COMPARISON)
    return inner.binds > over and is_left
