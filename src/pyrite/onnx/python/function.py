"""The body of a ``forward``: which expressions stand in others, what variables are called, lines.

A value that is read once stands where it is read as long as the line stays short; a variable that
is not read any more may be given the next value, as in ``x = self.fc(x)``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

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
    Member,
    Operator,
    Part,
    code,
    flat,
)
from pyrite.onnx.python.layout import WIDTH, exploded
from pyrite.onnx.python.value import TENSOR, Kind

#: Calls in one expression; past that a reader wants a name for what is between.
CALLS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Values that an expression gives, once or in a loop over a list of modules."""

    targets: tuple[str, ...]
    code: Code
    kinds: tuple[Kind, ...] = (TENSOR,)
    hint: str = ""
    #: The list that a loop is over, and its state before the first: (member, variable, state).
    loop: tuple[Code, str, str] | None = None
    #: The values that were put into it.
    within: tuple[str, ...] = ()

    @property
    def uses(self) -> list[str]:
        """The values that it reads, once for each time."""
        found = self.code.locals
        return found if self.loop is None else [self.loop[2], *found]


#: Writes a part that is not a local variable.
Spell = Callable[[Part], str]


@dataclass(slots=True)
class Written:
    """A function's lines, without indentation, and the names and kinds of its parameters."""

    lines: list[str]
    parameters: list[str]


@dataclass(slots=True)
class FunctionWriter:
    """Writes one function."""

    lines: Sequence[Line]
    inputs: Mapping[str, Kind]
    outputs: Sequence[str]
    spell: Spell
    #: Names that no variable may have.
    reserved: frozenset[str]
    #: The names that inputs have, where the model says so.
    given: Mapping[str, str] = field(default_factory=dict)
    indent: int = 8

    def write(self) -> Written:
        """Return the function's lines; what is too long is taken apart again."""
        apart: set[str] = set()
        while True:
            lines = _joined(self.lines, self.outputs, apart)
            parameters, written, long = self._written(lines)
            if not long:
                return Written(written, parameters)
            apart |= long

    def _written(
        self, lines: Sequence[Line], declared: frozenset[str] = frozenset()
    ) -> tuple[list[str], list[str], set[str]]:
        names = _Names(self, lines, declared)
        found: list[str] = []
        long: set[str] = set()
        direct = None
        for position, line in enumerate(lines):
            direct = names.returned(line) if position == len(lines) - 1 else None
            if direct is not None and len(direct) + 7 <= WIDTH - self.indent:
                break
            direct = None
            text = names.statement(position, line)
            if line.within and (len(text) > 2 or max(map(len, text)) > WIDTH - self.indent):
                long.add(line.within[-1])
            found += text
        if direct is None and names.untyped - declared:
            return self._written(lines, declared | names.untyped)
        found.append(f"return {names.result() if direct is None else direct}")
        return names.parameters, found, long


def _joined(lines: Sequence[Line], outputs: Sequence[str], apart: set[str]) -> list[Line]:
    """Return lines with expressions that are read once put where they are read."""
    counts = Counter(name for line in lines for name in line.uses)
    counts.update(outputs)
    found: list[Line] = []
    for line in lines:
        while found and line.loop is None:
            last = found[-1]
            if not _fits(last, line, counts, apart):
                break
            found.pop()
            line = _with(line, last)
        found.append(line)
    return found


def _fits(last: Line, line: Line, counts: Counter[str], apart: set[str]) -> bool:
    if last.loop is not None or len(last.targets) != 1 or last.kinds != (TENSOR,):
        return False
    (name,) = last.targets
    if counts[name] != 1 or name in apart or name not in line.uses:
        return False
    return _calls(last.code) + _calls(line.code) <= CALLS


def _calls(x: Code) -> int:
    """Return how many calls and operators an expression has."""
    text = "".join(part if isinstance(part, str) else "x" for part in flat(x))
    return text.count("(") + text.count(" @ ") + text.count("[") // 2 + text.count(" + ")


def _with(line: Line, inner: Line) -> Line:
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


#: Names of layers that a reader wants to see as names of what they give.
_TELLING = re.compile(
    r"(?:.*_)?(query|key|value|q|k|v|qkv|gate|logits|scores|mask|residual|shortcut)(?:_proj)?"
)


@dataclass(slots=True)
class _Names:
    """The variables of a function while it is written."""

    writer: FunctionWriter
    lines: Sequence[Line]
    #: The variables that have to be said to be tensors, where they are first given a value.
    declared: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    #: The variables that mypy knows to be tensors.
    typed: set[str] = field(default_factory=set)
    kinds: dict[str, Kind] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    #: Those of them whose type the text says.
    told: set[str] = field(default_factory=set)
    #: Variables that have been given a value.
    seen: set[str] = field(default_factory=set)
    #: Names of values by how they are used.
    hints: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position, line in enumerate(self.lines):
            self.last.update(dict.fromkeys(line.uses, position))
            self.counts.update(set(line.uses))
        self.last.update(dict.fromkeys(self.writer.outputs, len(self.lines)))
        self.hints = hints = _hints(self.lines)
        for value, kind in self.writer.inputs.items():
            name = self.writer.given.get(value) or self._free(hints.get(value, ""), kind, -1)
            self.names[value] = name
            self.parameters.append(name)
            self.kinds[name] = kind
            if kind == TENSOR:
                self.typed.add(name)
                self.told.add(name)

    def statement(self, position: int, line: Line) -> list[str]:
        """Return the rows of one line."""
        if line.loop is not None:
            return self._loop(position, line)
        right = self._text(line.code)
        is_tensor = _is_tensor(line, self.typed, self.names)
        targets = self._targets(position, line)
        left = ", ".join(targets)
        declared = []
        if len(targets) == 1:
            left += self._type(targets[0], is_tensor)
        else:
            notes = [(t, self._type(t, False)) for t in targets if t != "_"]
            declared = [name + note for name, note in notes if note]
        row = f"{left} = {right}"
        if len(row) <= WIDTH - self.writer.indent:
            return [*declared, row]
        return declared + exploded(f"{left} = ", line.code, self._spell, indent=self.writer.indent)

    def _type(self, name: str, is_tensor: bool) -> str:
        """Return the annotation of a variable's first value, if it needs one."""
        is_first = name not in self.told and name not in self.seen
        self.seen.add(name)
        if is_first and name in self.declared:
            self.typed.add(name)
            self.told.add(name)
            return ": Tensor"
        if name not in self.told:
            # What mypy has found out by itself it takes back where Any is assigned.
            (self.typed.add if is_tensor else self.typed.discard)(name)
        return ""

    def result(self) -> str:
        """Return what the function returns."""
        return ", ".join(self.names[name] for name in self.writer.outputs)

    @property
    def untyped(self) -> set[str]:
        """The variable that is returned alone, if mypy does not know it to be a tensor."""
        if len(self.writer.outputs) != 1:
            return set()
        name = self.names[self.writer.outputs[0]]
        return set() if name in self.typed or self.kinds.get(name) != TENSOR else {name}

    def returned(self, line: Line) -> str | None:
        """Return the last line's expression, if it can be returned without a variable."""
        is_it = len(self.writer.outputs) == 1 and line.targets == tuple(self.writer.outputs)
        if not is_it or line.loop is not None or not _is_tensor(line, self.typed, self.names):
            return None
        return self._text(line.code)

    def _loop(self, position: int, line: Line) -> list[str]:
        assert line.loop is not None, "it is asked before"
        over, variable, state = line.loop
        (target,) = line.targets
        rows = []
        name = self.names[state]
        if self.last.get(state, -1) > position or name in self._fixed():
            name = self._free("", TENSOR, position)
            rows.append(f"{name} = {self.names[state]}")
            self.typed.add(name)
        self.names[target] = self.names[f"{target}:before"] = name
        self.kinds[name] = TENSOR
        body = self._text(line.code)
        return [*rows, f"for {variable} in {self._text(over)}:", f"    {name} = {body}"]

    def _fixed(self) -> set[str]:
        """Return the parameters that keep their values: those with names that say something."""
        return {name for name in self.writer.given.values() if len(name) > 1}

    def _targets(self, position: int, line: Line) -> list[str]:
        found: list[str] = []
        for target, kind in zip(line.targets, line.kinds, strict=True):
            if not target:
                found.append("_")
                continue
            is_one = len(line.targets) == 1 and kind == TENSOR
            told = self.hints.get(target, "") if kind == TENSOR else ""
            name = self._kept(position, line) if is_one and not told else ""
            name = name or self._free(told or _telling(line.hint), kind, position, found)
            self.names[target] = name
            self.kinds[name] = kind
            found.append(name)
        return found

    def _kept(self, position: int, line: Line) -> str:
        """Return the variable that gets the next value: one that nothing reads after this line."""
        for value in dict.fromkeys(line.uses):
            name = self.names[value]
            is_done = name not in self._living(position) and name not in self._fixed()
            if not is_done or self.kinds.get(name) != TENSOR:
                continue
            if name in _GENERIC and (self.counts[value] == 1 or not _telling(line.hint)):
                return name
            if line.code.parts[:1] == (Local(value),) and not line.hint and self._is_chain(line):
                return name
        return ""

    def _is_chain(self, line: Line) -> bool:
        """Whether a line only moves the elements of one value, which keeps its name."""
        return len(set(line.uses)) == 1

    def _living(self, position: int) -> set[str]:
        """Return the variables that are read after a line."""
        return {self.names[v] for v, at in self.last.items() if at > position and v in self.names}

    def _free(self, hint: str, kind: Kind, position: int, also: Sequence[str] = ()) -> str:
        """Return a name that no value has that is still read."""
        other = {name for name, known in self.kinds.items() if known != TENSOR or kind != TENSOR}
        taken = {*self._living(position), *self._fixed(), *self.writer.reserved, *also, *other}
        if position < 0:
            taken |= set(self.names.values())
        wanted = [hint] if hint else []
        wanted += _GENERIC if kind == TENSOR else []
        base = hint or ("value" if kind != TENSOR else "t")
        for name in wanted:
            if name not in taken:
                return name
        number = 2
        while f"{base}{number}" in taken:
            number += 1
        return f"{base}{number}"

    def _text(self, x: Code) -> str:
        return "".join(self._spell(part) for part in flat(x))

    def _spell(self, part: Part) -> str:
        if isinstance(part, Local):
            return self.names[part.value]
        return part if isinstance(part, str) else self.writer.spell(part)


#: Variables for values that nothing names.
_GENERIC = ("x", "y", "z", "w")


def _telling(hint: str) -> str:
    """Return the name of a layer, if a variable of that name tells a reader something."""
    found = _TELLING.fullmatch(hint)
    return found[1] if found else ""


def _is_tensor(line: Line, typed: set[str], names: Mapping[str, str]) -> bool:
    """Whether mypy sees that a line gives a tensor: no module and no op of ONNX is called in it."""
    if line.kinds != (TENSOR,):
        return False
    if any(isinstance(p, Operator) for p in line.code.walk()) or _calls_member(line.code):
        return False
    return all(names.get(name) in typed or name not in names for name in line.uses)


def _calls_member(x: Code) -> bool:
    parts = flat(x)
    if any(isinstance(p, str) and "self." in p for p in parts):
        return True
    return any(
        isinstance(p, Member) and isinstance(n, str) and n.startswith("(")
        for p, n in pairwise(parts)
    )


def _hints(lines: Sequence[Line]) -> dict[str, str]:
    """Return names for values by how they are used: what attention is of."""
    found: dict[str, str] = {}
    for line in lines:
        text = flat(line.code)
        for position, part in enumerate(text):
            if isinstance(part, str) and part.startswith(".scaled_dot_product_attention("):
                names = [p.value for p in text[position - 1 :] if isinstance(p, Local)]
                found.update(zip(names, ("query", "key", "value", "mask"), strict=False))
    return found
