"""One module of the tree as text: its ``__init__`` and its ``forward``, but for its numbers.

Two modules of the same text are instances of one class; where their numbers differ, the class has
parameters (`classes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyrite.onnx.python.code import Code, Local, Member, Part, call, code, flat, local
from pyrite.onnx.python.function import FunctionWriter, Written
from pyrite.onnx.python.line import Assignment
from pyrite.onnx.python.member import HeldTensor, LayerMember
from pyrite.onnx.python.step import Scope, Step
from pyrite.onnx.python.tree import ModuleDraft
from pyrite.onnx.python.value import TENSOR, Kind

Spell = Callable[[Part], str]


@dataclass(slots=True, eq=False)
class Element:
    """What a field of a module holds: a layer, a tensor, a module, or several of these in order."""

    kind: str  # layer, held, module, list, sequential
    layer: LayerMember | None = None
    held: HeldTensor | None = None
    body: Body | None = None
    function: str = ""
    items: list[Element] = field(default_factory=list)

    @property
    def skeleton(self) -> str:
        """What it is without its numbers."""
        if self.layer is not None:
            return f"{self.layer.name}/{len(self.layer.arguments)}/{sorted(self.layer.named)}"
        if self.held is not None:
            return f"{self.held.role}/{self.held.dtype}/{len(self.held.shape)}"
        if self.body is not None:
            return f"<{self.body.skeleton}>"
        return f"{self.kind}{self.function}[{' '.join(item.skeleton for item in self.items)}]"


@dataclass(slots=True, eq=False)
class Body:
    """A module's fields, and its forward."""

    path: Scope
    fields: dict[str, Element]
    forward: Written
    inputs: list[str]
    input_kinds: list[Kind]
    outputs: list[Kind]
    label: str = ""

    @property
    def skeleton(self) -> str:
        """Its text without its numbers: of two modules with the same they are one class."""
        fields = ";".join(f"{name}={e.skeleton}" for name, e in self.fields.items())
        head = ",".join(map(str.__add__, self.forward.parameters, self.input_kinds))
        head += "->" + ",".join(self.outputs)
        return f"{_stem(self.label)}|{fields}|{head}|{chr(10).join(self.forward.lines)}"


@dataclass(slots=True)
class Reader:
    """Reads the modules of a tree, innermost first."""

    paths: Mapping[str, Scope]
    kinds: Mapping[str, Kind]
    spell: Spell
    reserved: frozenset[str]
    layers: Mapping[str, LayerMember]
    helds: Mapping[str, HeldTensor]
    given: Mapping[str, str]
    #: The names of all tensors of the file, by the key of what reads them.
    files: dict[str, Scope] = field(default_factory=dict)

    def body(self, group: ModuleDraft, at: Scope = ()) -> Body:
        """Return a module and those in it; ``at`` is where it lies in the generated model."""
        lines = [line for item in group.items for line in self._lines(item)]
        fields, renamed, lines = self._fields(group, lines, at)
        is_root = not group.path
        kinds = {name: self.kinds.get(name, TENSOR) for name in group.inputs}
        labels = {line.loop[1] for line in lines if line.loop is not None}
        writer = FunctionWriter(
            lines,
            kinds,
            group.outputs,
            lambda part: self._spelled(part, group.path, renamed, fields),
            self.reserved | labels,
            self.given if is_root else {},
        )
        written = writer.write()
        written.lines = [_without_anchor(line) for line in written.lines]
        return Body(
            group.path, fields, written, written.parameters, list(kinds.values()),
            [self.kinds.get(name, TENSOR) for name in group.outputs], _label(group.path),
        )  # fmt: skip

    def _lines(self, item: Step | ModuleDraft) -> list[Assignment]:
        if isinstance(item, Step):
            return [
                Assignment(step.targets, step.code, step.kinds, self._hint(step), step.mark)
                for step in item.lines()
            ]
        member = Code((Member(f"group:{'.'.join(item.path)}"),))
        made = call(member, *map(local, item.inputs))
        kinds = tuple(self.kinds.get(name, TENSOR) for name in item.outputs)
        hint = "" if item.path[-1].isdecimal() else item.path[-1]
        return [Assignment(item.targets, made, kinds, hint)]

    def _hint(self, step: Step) -> str:
        """Return the name of the layer that a step calls, for what it gives."""
        part = step.code.parts[0] if step.code.parts else ""
        if not isinstance(part, Member) or step.code.arguments is None or len(step.code.parts) > 1:
            return step.hint
        name = self._path(part)[-1]
        return step.hint if name.isdecimal() else name

    # ---- fields ----

    def _fields(
        self, group: ModuleDraft, lines: list[Assignment], at: Scope
    ) -> tuple[dict[str, Element], dict[Scope, str], list[Assignment]]:
        """Return what a module holds in the order in which it is used, and lines with loops."""
        depth = len(group.path)
        groups = {item.path: item for item in group.groups}
        fields: dict[str, Element] = {}
        renamed: dict[Scope, str] = {}
        order: list[Scope] = []
        for line in lines:
            for part in line.code.walk():
                if isinstance(part, Member):
                    path = self._path(part)
                    order += [path] if path not in order else []
        for path in order:
            name = path[depth]
            if len(path) > depth + 1 and path[depth + 1].isdecimal() and path in groups:
                self._list_item(fields, renamed, groups[path], at, depth)
                continue
            owner = path[: depth + 1]
            if owner in renamed:
                continue
            plain = f"layer{name}" if name.isdecimal() else name
            if owner in groups:
                fields[plain] = self._module(groups[owner], (*at, plain))
            else:
                element = self._leaf(owner, (*at, plain))
                if element is None:
                    continue
                fields[plain] = element
            renamed[owner] = plain
        return fields, renamed, _looped(lines, self._path, fields, depth)

    def _path(self, member: Member) -> Scope:
        if member.key.startswith("group:"):
            return tuple(member.key.removeprefix("group:").split("."))
        return self.paths[member.key]

    def _leaf(self, path: Scope, at: Scope) -> Element | None:
        for key, where in self.paths.items():
            if where == path and key in self.layers:
                self.files[key] = at
                return Element("layer", layer=self.layers[key])
            if where == path and key in self.helds:
                self.files[key] = at
                return Element("held", held=self.helds[key])
        return next(
            (self._leaf(self.paths[k], at) for k in self.layers if self.paths.get(k) == path), None
        )

    def _module(self, group: ModuleDraft, at: Scope) -> Element:
        chain = self._sequential(group, at)
        return chain if chain is not None else Element("module", body=self.body(group, at))

    def _list_item(
        self, fields: dict[str, Element], renamed: dict[Scope, str], group: ModuleDraft, at: Scope,
        depth: int,
    ) -> None:  # fmt: skip
        name = group.path[depth]
        name = f"layers{name}" if name.isdecimal() else name
        if group.path in renamed:
            return
        holder = fields.setdefault(name, Element("list"))
        index = len(holder.items)
        holder.items.append(self._module(group, (*at, name, str(index))))
        renamed[group.path] = f"{name}[{index}]"

    def _sequential(self, group: ModuleDraft, at: Scope) -> Element | None:
        """Return layers one after the other, where that is all that a module of numbers is."""
        members = [self._path(p) for item in group.items if isinstance(item, Step)
                   for p in item.walk() if isinstance(p, Member)]  # fmt: skip
        depth = len(group.path)
        numbered = all(len(p) == depth + 1 and p[-1].isdecimal() for p in members)
        if not members or not numbered or len(group.inputs) != 1 or len(group.outputs) != 1:
            return None
        value, found = group.inputs[0], Element("sequential")
        for item in group.items:
            is_one = isinstance(item, Step) and not item.block and len(item.targets) == 1
            if not isinstance(item, Step) or not is_one or item.uses != [value]:
                return None
            element = self._link(item, value, (*at, str(len(found.items))))
            if element is None:
                return None
            found.items.append(element)
            (value,) = item.targets
        return found if value == group.outputs[0] else None

    def _link(self, item: Step, value: str, at: Scope) -> Element | None:
        parts = flat(item.code)
        if len(parts) == 4 and isinstance(parts[0], Member) and parts[2] == Local(value):
            return self._leaf(self._path(parts[0]), at)
        if len(parts) == 2 and parts[0] == Local(value) and isinstance(parts[1], str):
            named = re.fullmatch(r"\.([a-z_0-9]+)\(\)", parts[1])
            return Element("function", function=named[1]) if named else None
        return None

    def _spelled(
        self, part: Part, path: Scope, renamed: Mapping[Scope, str], fields: Mapping[str, Element]
    ) -> str:
        if not isinstance(part, Member):
            return self.spell(part)
        where = self._path(part)
        depth = len(path)
        for end in (depth + 2, depth + 1):
            if where[:end] in renamed and end <= len(where):
                name = renamed[where[:end]]
                return f"self.{name}{_inside(_element(fields, name), where[end:])}"
        return "self." + ".".join(where[depth:])


def _element(fields: Mapping[str, Element], name: str) -> Element | None:
    """Return what a name like ``layers[2]`` stands for."""
    found = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", name)
    element = fields.get(found[1]) if found is not None else None
    if element is None or found is None or found[2] is None:
        return element
    return element.items[int(found[2])]


def _inside(element: Element | None, path: Scope) -> str:
    """Return a path within an element as it is written: a module has no items, but ``layer0``."""
    if not path:
        return ""
    first, *rest = path
    if element is not None and element.body is not None:
        name = first if first in element.body.fields else f"layer{first}"
        return f".{name}{_inside(element.body.fields.get(name), tuple(rest))}"
    text = f"[{first}]" if first.isdecimal() else f".{first}"
    return text + _inside(None, tuple(rest))


def _label(path: Scope) -> str:
    """Return how a module is called: by its list, if it has a number there."""
    names = [part for part in path[-2:] if not part.isdecimal()]
    if not path or not names:
        return "block" if path else "model"
    return names[-1].removesuffix("s") if path[-1].isdecimal() and len(names[-1]) > 3 else names[-1]


def _stem(label: str) -> str:
    return re.sub(r"_?\d+$", "", label)


ANCHOR = "<anchor>"


def _without_anchor(line: str) -> str:
    """Return a line of a function without tensors, which computes where the others do."""
    return line.replace(f", device={ANCHOR}", "").replace(f"device={ANCHOR}", "")


def _looped(
    lines: Sequence[Assignment],
    path: Callable[[Member], Scope],
    fields: dict[str, Element],
    depth: int,
) -> list[Assignment]:
    """Return lines with calls of all modules of a list, one after the other, as a loop."""
    found: list[Assignment] = []
    position = 0
    while position < len(lines):
        run = _run(lines, position, path, depth)
        name = path(run[0].code.parts[0])[depth] if run else ""  # type: ignore[arg-type]
        element = fields.get(name)
        if len(run) < 2 or element is None or element.kind != "list":
            found.append(lines[position])
            position += 1
            continue
        position += len(run)
        if len(run) != len(element.items) or not _is_same_class(element):
            found += run
            continue
        state, slot = _state(run)
        arguments = list(run[0].code.arguments or ())
        if len(arguments) == 1:
            element.kind = "sequential"
            member = code("self." + name)
            made = call(member, local(state))
            found.append(Assignment(run[-1].targets, made, (TENSOR,), name))
            continue
        variable = name.removesuffix("s") if name != "s" else "layer"
        target = run[-1].targets[0]
        arguments[slot] = local(f"{target}:before")
        made = call(code(variable), *arguments)
        loop = (code("self." + name), variable, state)
        found.append(Assignment((target,), made, (TENSOR,), "x", loop=loop))
    return found


def _is_same_class(element: Element) -> bool:
    return len({item.kind for item in element.items}) == 1


def _run(
    lines: Sequence[Assignment], start: int, path: Callable[[Member], Scope], depth: int
) -> list[Assignment]:
    """Return calls of modules 0, 1, … of one list, each with the value of the one before."""
    run: list[Assignment] = []
    for line in lines[start:]:
        part = line.code.parts[0] if line.code.parts else ""
        if not isinstance(part, Member) or not part.key.startswith("group:"):
            break
        where = path(part)
        is_next = len(where) == depth + 2 and where[-1] == str(len(run)) and len(line.targets) == 1
        if not is_next or (run and where[:-1] != path(run[0].code.parts[0])[:-1]):  # type: ignore[arg-type]
            break
        if run and not _continues(run, line):
            break
        run.append(line)
    return run


def _continues(run: Sequence[Assignment], line: Assignment) -> bool:
    before, now = run[-1].code.arguments or (), line.code.arguments or ()
    value = local(run[-1].targets[0])
    if len(before) != len(now) or sum(a == value for a in now) != 1:
        return False
    slot = now.index(value)
    others = all(a == b for i, (a, b) in enumerate(zip(before, now, strict=True)) if i != slot)
    return others and (len(run) == 1 or _state(run)[1] == slot)


def _state(run: Sequence[Assignment]) -> tuple[str, int]:
    """Return the value that goes through a run, and at which place each call takes it."""
    first, second = run[0].code.arguments or (), run[1].code.arguments or ()
    slot = second.index(local(run[0].targets[0]))
    return first[slot].locals[0], slot
