"""The body of a ``forward``: which expressions stand in others, what variables are called, lines.

A value that is read once stands where it is read as long as the line stays short; a variable that
is not read any more may be given the next value, as in ``x = self.fc(x)``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pyrite.onnx.python.code import Anchor, Code, Local, Member, Operator, Part, flat
from pyrite.onnx.python.layout import WIDTH, exploded
from pyrite.onnx.python.line import Assignment, joined
from pyrite.onnx.python.liveness import last_reads, successors
from pyrite.onnx.python.step import OPENING, together
from pyrite.onnx.python.value import INTEGER, TENSOR, TENSORS, Kind

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

    lines: Sequence[Assignment]
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
            lines = joined(self.lines, self.outputs, apart)
            parameters, written, long = self._written(lines)
            if not long:
                return Written(written, parameters)
            apart |= long

    def _written(
        self, lines: Sequence[Assignment], declared: frozenset[str] = frozenset()
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


#: Names of layers that a reader wants to see as names of what they give.
_TELLING = re.compile(
    r"(?:.*_)?(query|key|value|q|k|v|qkv|gate|logits|scores|mask|residual|shortcut)(?:_proj)?"
)


@dataclass(slots=True)
class _Names:
    """The variables of a function while it is written."""

    writer: FunctionWriter
    lines: Sequence[Assignment]
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
    #: Values that take a loop's variable.
    successors: Mapping[str, str] = field(default_factory=dict)
    #: The first parameter that is a tensor, on whose device the function computes.
    anchor: str = ""
    #: How many blocks the next line lies in.
    depth: int = 0

    def __post_init__(self) -> None:
        for line in self.lines:
            self.counts.update(set(line.uses))
        self.last = last_reads(self.lines, self.writer.outputs)
        self.successors = successors(self.lines)
        self.hints = hints = _hints(self.lines)
        for value, kind in self.writer.inputs.items():
            name = self.writer.given.get(value) or self._free(hints.get(value, ""), kind, -1)
            self.names[value] = name
            self.parameters.append(name)
            self.kinds[name] = kind
            if kind == TENSOR:
                self.typed.add(name)
                self.told.add(name)
                self.anchor = self.anchor or name

    @property
    def width(self) -> int:
        """How many columns the next line has."""
        return WIDTH - self.writer.indent - 4 * self.depth

    def statement(self, position: int, line: Assignment) -> list[str]:
        """Return the rows of one line."""
        if line.mark == "end":
            self.depth -= 1
            return []
        rows = self._rows(position, line)
        depth = self.depth - 1 if line.mark == "else" else self.depth
        self.depth = depth + (line.mark in OPENING)
        return ["    " * depth + row for row in rows]

    def _rows(self, position: int, line: Assignment) -> list[str]:
        if line.loop is not None:
            return self._loop(position, line)
        if line.mark == "set":
            return self._set(position, line)
        text = self._text(line.code)
        if line.mark == "for":
            targets = ", ".join(self._targets(position, line)) or "_"
            return [f"for {targets} in {text}:"]
        if line.mark == "if":
            self._targets(position, line)
            return [f"if {text}:"]
        plain = {"else": ["else:"], "while": ["while True:"], "do": [text],
                 "unless": [f"if not {text}:", "    break"]}  # fmt: skip
        return plain.get(line.mark) or self._assignment(position, line)

    def _assignment(self, position: int, line: Assignment) -> list[str]:
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
        if len(row) <= self.width:
            return [*declared, row]
        return declared + self._exploded(f"{left} = ", line.code)

    def _exploded(self, left: str, x: Code) -> list[str]:
        return exploded(left, x, self._spell, indent=self.writer.indent + 4 * self.depth)

    def _set(self, position: int, line: Assignment) -> list[str]:
        """Return the row that gives values to the variables of a block: none that has them."""
        items = line.code.arguments if len(line.targets) > 1 else (line.code,)
        assert items is not None, "as many as targets"
        left: list[str] = []
        right: list[Code] = []
        for target, item, kind in zip(line.targets, items, line.kinds, strict=True):
            value = self.names.get(item.locals[0], "") if _is_local(item) else ""
            if target and target not in self.names and not self._takes(target, item, position):
                self._add(target, self._free(line.hint, kind, position), kind)
            if not target or self.names[target] == value:
                continue
            name = self.names[target]
            is_tensor = kind == TENSOR and _is_typed(item, self.typed, self.names)
            note = f": {TENSORS}" if kind == TENSORS else self._type(name, is_tensor)
            left.append(name + note)
            right.append(item)
        if not left:
            return []
        whole = together(right)
        text = ", ".join(map(self._text, right))
        row = f"{', '.join(left)} = {text}"
        return [row] if len(row) <= self.width else self._exploded(f"{', '.join(left)} = ", whole)

    def _takes(self, target: str, item: Code, position: int) -> bool:
        """Whether a new variable is a value's own, which nothing else reads any more."""
        name = self.names.get(item.locals[0], "") if _is_local(item) else ""
        if not name or name in self._living(position) or name in self._fixed():
            return False
        self.names[target] = name
        return True

    def _add(self, value: str, name: str, kind: Kind) -> None:
        self.names[value] = name
        self.kinds[name] = kind
        if kind == TENSORS:
            self.typed.add(name)

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

    def returned(self, line: Assignment) -> str | None:
        """Return the last line's expression, if it can be returned without a variable."""
        is_it = len(self.writer.outputs) == 1 and line.targets == tuple(self.writer.outputs)
        if (
            not is_it
            or line.mark
            or line.loop is not None
            or not _is_tensor(line, self.typed, self.names)
        ):
            return None
        return self._text(line.code)

    def _loop(self, position: int, line: Assignment) -> list[str]:
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

    def _targets(self, position: int, line: Assignment) -> list[str]:
        found: list[str] = []
        # ``for x in x`` would be right, and hard to read.
        read = [self.names[name] for name in line.uses] if line.mark == "for" else []
        for target, kind in zip(line.targets, line.kinds, strict=True):
            if not target:
                found.append("_")
                continue
            if target in self.successors and self.successors[target] in self.names:
                self.names[target] = self.names[self.successors[target]]
                found.append(self.names[target])
                continue
            is_one = len(line.targets) == 1 and kind == TENSOR and not line.mark
            told = self.hints.get(target, "") if kind == TENSOR else ""
            name = self._kept(position, line) if is_one and not told else ""
            name = name or self._free(told or _telling(line.hint), kind, position, [*found, *read])
            self._add(target, name, kind)
            found.append(name)
        return found

    def _kept(self, position: int, line: Assignment) -> str:
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

    def _is_chain(self, line: Assignment) -> bool:
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
        base = hint or _PLAIN.get(kind, "value")
        wanted: tuple[str, ...] = _GENERIC if kind == TENSOR else (base,)
        for name in (hint, *wanted):
            if name and name not in taken:
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
        if isinstance(part, Anchor) and self.anchor:
            return f"{self.anchor}.device"
        return part if isinstance(part, str) else self.writer.spell(part)


#: Variables for values that nothing names.
_GENERIC = ("x", "y", "z", "w")

#: The same for other kinds, and where all of these are taken.
_PLAIN = {TENSOR: "t", TENSORS: "outputs", INTEGER: "i"}


def _telling(hint: str) -> str:
    """Return the name of a layer, if a variable of that name tells a reader something."""
    found = _TELLING.fullmatch(hint)
    return found[1] if found else ""


def _is_tensor(line: Assignment, typed: set[str], names: Mapping[str, str]) -> bool:
    """Whether mypy sees that a line gives a tensor."""
    return line.kinds == (TENSOR,) and _is_typed(line.code, typed, names)


def _is_typed(x: Code, typed: set[str], names: Mapping[str, str]) -> bool:
    """Whether mypy sees that an expression is a tensor: nothing calls a module or an op of ONNX."""
    if any(isinstance(p, Operator) for p in x.walk()) or _calls_member(x):
        return False
    return all(names.get(name) in typed or name not in names for name in x.locals)


def _is_local(x: Code) -> bool:
    """Whether an expression is a value alone."""
    return x.arguments is None and len(x.parts) == 1 and isinstance(x.parts[0], Local)


def _calls_member(x: Code) -> bool:
    parts = flat(x)
    if any(isinstance(p, str) and "self." in p for p in parts):
        return True
    return any(
        isinstance(p, Member) and isinstance(n, str) and n.startswith("(")
        for p, n in pairwise(parts)
    )


def _hints(lines: Sequence[Assignment]) -> dict[str, str]:
    """Return names for values by how they are used: what attention is of."""
    found: dict[str, str] = {}
    for line in lines:
        text = flat(line.code)
        for position, part in enumerate(text):
            if isinstance(part, str) and part.startswith(".scaled_dot_product_attention("):
                names = [p.value for p in text[position - 1 :] if isinstance(p, Local)]
                found.update(zip(names, ("query", "key", "value", "mask"), strict=False))
    return found
