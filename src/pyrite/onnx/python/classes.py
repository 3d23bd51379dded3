"""The classes of a generated file: modules of the same text are one, with parameters for numbers.

A number that differs between the instances of a class is a parameter of its ``__init__``; numbers
that are equal in every instance are one parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyrite.onnx.naming import identifier
from pyrite.onnx.python.code import Code, Imported, flat
from pyrite.onnx.python.layout import WIDTH, broken
from pyrite.onnx.python.module import Body, Element, Spell
from pyrite.onnx.python.value import TENSOR

#: The names of the arguments of layers that are given by position.
_ARGUMENTS = {
    "Linear": ("in_features", "out_features"),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "LayerNorm": ("features",),
    "RMSNorm": ("features",),
    "GroupNorm": ("groups", "channels"),
}
_CONV = ("in_channels", "out_channels", "kernel_size")


@dataclass(slots=True, eq=False)
class FieldNumber:
    """A number of one field: how it is called, and its literal in each instance."""

    name: str
    values: list[str]
    owner: str


@dataclass(slots=True, eq=False)
class Class:
    """A class of the file, with all modules that are its instances."""

    name: str
    bodies: list[Body]
    #: The parameters of ``__init__``, and their literals in each instance.
    parameters: dict[str, list[str]] = field(default_factory=dict)


class Classes:
    """The classes of a model, innermost first."""

    def __init__(self, root: Body, name: str, spell: Spell, taken: frozenset[str]) -> None:
        self._spell = spell
        self._by_skeleton: dict[str, Class] = {}
        self._names = {*taken}
        for body in _bodies(root):
            wanted = name if body is root else _camel(body.label)
            self._add(body, wanted)
        for each in self._by_skeleton.values():
            each.parameters = self._parameters(each)

    def __iter__(self) -> Iterator[Class]:
        return iter(self._by_skeleton.values())

    def _add(self, body: Body, wanted: str) -> None:
        known = self._by_skeleton.get(body.skeleton)
        if known is not None:
            known.bodies.append(body)
            return
        if wanted in self._names:
            wanted = self._other(body, wanted)
        self._names.add(wanted)
        self._by_skeleton[body.skeleton] = Class(wanted, [body])

    def _other(self, body: Body, wanted: str) -> str:
        """Return a name for a second class of the same: by what it has more, or with a number."""
        first = next((c for c in self if c.name == wanted), None)
        own = [n for n in body.fields if first is not None and n not in first.bodies[0].fields]
        more = _camel(own[0]) if own else ""
        if more and f"{more}{wanted}" not in self._names:
            return f"{more}{wanted}"
        number = 2
        while f"{wanted}{number}" in self._names:
            number += 1
        return f"{wanted}{number}"

    def of(self, body: Body) -> Class:
        """Return the class of a module."""
        return self._by_skeleton[body.skeleton]

    # ---- parameters ----

    def _parameters(self, of: Class) -> dict[str, list[str]]:
        rows = [list(self._slots(body)) for body in of.bodies]
        found: dict[str, list[str]] = {}
        owners: dict[str, FieldNumber] = {}
        for column in zip(*rows, strict=True):
            values = [slot.values[0] for slot in column]
            if len(set(values)) == 1:
                continue
            same = next((n for n, v in found.items() if v == values), None)
            if same is not None:
                found = _merged(found, same, column[0].name)
                continue
            name = column[0].name
            if name in found:
                name = identifier(f"{column[0].owner}_{name}")
            while name in found:
                name += "_"
            found[name] = values
            owners[name] = column[0]
        return found

    def _slots(self, body: Body) -> Iterator[FieldNumber]:
        """Give the numbers of a module's fields, in order."""
        for name, element in body.fields.items():
            yield from self._element_slots(element, name)

    def _element_slots(self, element: Element, owner: str) -> Iterator[FieldNumber]:
        if element.layer is not None:
            layer = element.layer
            names = _argument_names(layer.name)
            for position, argument in enumerate(layer.arguments):
                name = names[position] if position < len(names) else "size"
                yield FieldNumber(name, [self._text(argument)], owner)
            for name, argument in layer.named.items():
                yield FieldNumber(name, [self._text(argument)], owner)
        elif element.held is not None:
            for size in element.held.shape:
                yield FieldNumber("size", [str(size)], owner)
        elif element.body is not None:
            child = self.of(element.body)
            at = child.bodies.index(element.body)
            for name, values in child.parameters.items():
                yield FieldNumber(name, [values[at]], owner)
        for item in element.items:
            yield from self._element_slots(item, owner)

    def _text(self, x: Code) -> str:
        return "".join(self._spell(part) for part in flat(x))

    # ---- text ----

    def text(self, of: Class) -> list[str]:
        """Return the lines of a class."""
        body = of.bodies[0]
        rows = [f"class {of.name}(Module):"]
        if body.fields:
            parameters = [f"{n}: {_type_of(v)}" for n, v in of.parameters.items()]
            head = broken("def __init__(", ["self", *parameters], ") -> None:", 4)
            rows += [f"    {row}" for row in head]
            for name, element in body.fields.items():
                rows += [f"        {row}" for row in self._field(of, name, element)]
            rows.append("")
        inputs = [
            f"{n}: {_annotation(k)}" for n, k in zip(body.inputs, body.input_kinds, strict=True)
        ]
        head = broken("def forward(", ["self", *inputs], f") -> {_result(body)}:", 4)
        rows += [f"    {row}" for row in head]
        rows += [f"        {row}" for row in body.forward.lines]
        return rows

    def _field(self, of: Class, name: str, element: Element) -> list[str]:
        left = f"self.{name}: Tensor = " if element.held is not None else f"self.{name} = "
        head, items, tail = self._made(of, element)
        if isinstance(items, str):
            return [f"{left}{items}"]
        line = f"{left}{head}{', '.join(items)}{tail}"
        if len(line) + 8 <= WIDTH:
            return [line]
        return [f"{left}{head}", *(f"    {item}," for item in items), tail]

    def _made(self, of: Class, element: Element) -> tuple[str, Sequence[str] | str, str]:
        """Return how an element is made: what begins a call, its arguments, and what ends it."""
        if element.layer is not None:
            arguments = [self._argument(of, self._text(a)) for a in self._slot_texts(of, element)]
            named = list(element.layer.named)
            plain = len(element.layer.arguments)
            given = [
                *arguments[:plain],
                *(f"{n}={a}" for n, a in zip(named, arguments[plain:], strict=True)),
            ]
            return f"{element.layer.name}(", given, ")"
        if element.held is not None:
            return self._held(of, element)
        if element.body is not None:
            child = self.of(element.body)
            texts = self._slot_texts(of, element)
            return f"{child.name}(", [self._argument(of, self._text(t)) for t in texts], ")"
        if element.function:
            return "", f"Tensor.{element.function}", ""
        made = ["".join(_line(*self._made(of, item))) for item in element.items]
        return self._several(element, made)

    def _several(self, element: Element, made: list[str]) -> tuple[str, Sequence[str] | str, str]:
        is_list = element.kind == "list"
        if len(made) > 2 and len(set(made)) == 1:
            comprehension = f"[{made[0]} for _ in range({len(made)})]"
            return "", comprehension if is_list else f"Sequential(*{comprehension})", ""
        return ("[", made, "]") if is_list else ("Sequential(", made, ")")

    def _held(self, of: Class, element: Element) -> tuple[str, Sequence[str] | str, str]:
        held = element.held
        assert held is not None, "it is asked before"
        sizes = [self._argument(of, self._text(t)) for t in self._slot_texts(of, element)]
        shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        dtype = (
            ""
            if held.dtype == "float32"
            else f", dtype={self._spell(Imported('pyrite', held.dtype))}"
        )
        kind = "Parameter" if held.role == "parameter" else "State"
        return "", f"{kind}(zeros({shape}{dtype}))", ""

    def _slot_texts(self, of: Class, element: Element) -> list[Code]:
        """Return the numbers of an element as literals of the first instance, with its columns."""
        return [Code((f"{i}\0{v}",)) for i, v in self._columns(of, element)]

    def _columns(self, of: Class, element: Element) -> Iterator[tuple[int, str]]:
        wanted = {id(e) for e in _elements(element)}
        position = 0
        for name, each in of.bodies[0].fields.items():
            for inner in _elements(each):
                for slot in self._own_slots(inner, name):
                    if id(inner) in wanted:
                        yield position, slot.values[0]
                    position += 1

    def _own_slots(self, element: Element, owner: str) -> Iterator[FieldNumber]:
        if not element.items:
            yield from self._element_slots(element, owner)

    def _argument(self, of: Class, text: str) -> str:
        """Return a literal, or the parameter that stands for its column."""
        column, _, value = text.partition("\0")
        values = [list(self._slots(body))[int(column)].values[0] for body in of.bodies]
        if len(set(values)) == 1:
            return value
        return next(name for name, found in of.parameters.items() if found == values)


def _line(head: str, items: Sequence[str] | str, tail: str) -> tuple[str, str, str]:
    return head, items if isinstance(items, str) else ", ".join(items), tail


def _elements(element: Element) -> Iterator[Element]:
    if not element.items:
        yield element
    for item in element.items:
        yield from _elements(item)


def _bodies(body: Body) -> Iterator[Body]:
    """Give the modules in a module, innermost first, and it last."""
    for element in body.fields.values():
        for inner in _elements(element):
            if inner.body is not None:
                yield from _bodies(inner.body)
    yield body


def _merged(found: dict[str, list[str]], name: str, other: str) -> dict[str, list[str]]:
    """Return parameters where one is for what comes in and goes out: ``channels``."""
    pair = {name.removeprefix("in_").removeprefix("out_"), other.removeprefix("out_")}
    is_both = name.startswith("in_") and other == f"out_{name.removeprefix('in_')}"
    plain = name.removeprefix("in_")
    if len(pair) != 1 or not is_both or plain in found:
        return found
    return {plain if key == name else key: values for key, values in found.items()}


def _argument_names(layer: str) -> tuple[str, ...]:
    if layer.startswith("Conv"):
        return _CONV
    if layer.startswith("BatchNorm"):
        return ("channels",)
    return _ARGUMENTS.get(layer, ())


def _camel(label: str) -> str:
    stem = re.sub(r"_?\d+$", "", label) or "Block"
    words = [word for word in re.split(r"_+", stem) if word]
    found = "".join(word[0].upper() + word[1:] for word in words) or "Block"
    return f"Block{found}" if found[0].isdigit() else found


def _type_of(values: Sequence[str]) -> str:
    if all(re.fullmatch(r"-?\d+", value) for value in values):
        return "int"
    if all(value in ("True", "False") for value in values):
        return "bool"
    if all(re.fullmatch(r"-?[\d.e+-]+", value) for value in values):
        return "float"
    return "Any"


def _annotation(kind: str) -> str:
    return "Tensor" if kind == TENSOR else "Any"


def _result(body: Body) -> str:
    kinds = [_annotation(kind) for kind in body.outputs]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


__all__ = ["Class", "Classes"]
