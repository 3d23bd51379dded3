"""Loads, stores and atomics, of memories of scalars or of vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyrite.kernel.ir import Node, Type, dtype_of
from pyrite.kernel.target.wgsl.place import factor_of, is_multiple, is_sum, less_multiples
from pyrite.kernel.target.wgsl.spelling import ATOMICS, COMPONENTS, TYPES
from pyrite.kernel.target.wgsl.text import INDENT, Text, pieces_of

#: A literal index below 0, with or without an offset.
_BELOW = re.compile(r"\[(-\d+)(l?i)(?: \+ (\d+)l?i)?\]")


class Accesses(Text):
    """The part of the printer that reads and writes memory."""

    def memory_type(self, node: Node) -> str:
        """Return the type of one element of the array of a memory."""
        type = node.value_type
        if type.dtype.is_bool:
            self.unsupported(type.dtype)
        if node.attr[2] == "atomic":
            if type.dtype.itemsize > 4:
                self.no_wide_atomics(type.dtype)
            return f"atomic<{self.scalar(type.dtype)}>"
        return self.type(type.with_width(self.vector_widths[node]))

    def alloc(self, node: Node) -> None:
        space, size, _ = node.attr
        name = f"{space}_{len(self.memories)}"
        self.memories[node] = name
        length = -(-size // self.vector_widths[node])
        array = f"array<{self.memory_type(node)}, {length}>"
        if space == "shared":
            self.module.append(f"var<workgroup> {name}: {array};")
        else:
            self.line(f"var {name}: {array};")

    def load(self, node: Node) -> None:
        type = node.value_type
        places = self.places(node.inputs[0], node.inputs[1], type.width)
        if len(node.inputs) == 2:
            self.define(node, list(self.loaded(type, places)))
            return
        mask, other = node.inputs[2:]
        places = [_possible(place) for place in places]
        variables = self.variables(type, self.values[other])
        self.values[node] = variables
        if mask.value_type.width == 1:
            loaded = self.loaded(type, places)
            assign = " ".join(f"{v} = {e};" for v, e in zip(variables, loaded, strict=True))
            self.line(f"if ({self.values[mask][0]}) {{ {assign} }}")
        elif len(places) < type.width:
            # One place is a whole vector; its binding ends with a whole vector too.
            pieces = self.loaded(type, places)
            for v, e, m in zip(variables, pieces, self.values[mask], strict=True):
                self.line(f"if (any({m})) {{ {v} = select({v}, {e}, {m}); }}")
        else:
            for number, place in enumerate(places):
                target = f"{variables[number // 4]}.{COMPONENTS[number % 4]}"
                self.line(f"if ({self.element(mask, number)}) {{ {target} = {place}; }}")

    def loaded(self, type: Type, places: Sequence[str]) -> Iterator[str]:
        """Yield the pieces of a value that lies in these places."""
        if len(places) == pieces_of(type):
            yield from places
        elif len(places) == type.width:
            yield from self.grouped(type, places)
        else:
            # A vec4 of two vec2.
            for start in range(0, len(places), 2):
                yield f"{self.type(type)}({places[start]}, {places[start + 1]})"

    def places(self, memory: Node, index: Node, width: int) -> list[str]:
        """Return the lvalues of an access: one for each vector of the memory, or each element."""
        name, vector = self.memories[memory], self.vector_widths[memory]
        if index.value_type.width > 1:
            places = (self.element(index, number) for number in range(width))
            return [self.place(name, vector, place) for place in places]
        (start,) = self.values[index]
        if vector == 1:
            return [self.at(name, start, number) for number in range(width)]
        first = self.quotient(index, vector)
        if width == 1:
            (rest,) = self.values[less_multiples(index, vector)]
            return [f"{name}[{first}][u32({rest}) & {vector - 1}u]"]
        return [self.at(name, first, number) for number in range(width // vector)]

    def place(self, name: str, vector: int, index: str) -> str:
        """Return one element, of a memory of scalars or of vectors."""
        if vector == 1:
            return f"{name}[{index}]"
        shift = vector.bit_length() - 1
        return f"{name}[u32({index}) >> {shift}u][u32({index}) & {vector - 1}u]"

    def quotient(self, index: Node, vector: int) -> str:
        """The expression of index // vector, without a shift of what is known to be a multiple.

        So that of places that lie apart by a constant one is computed, and the others are offsets
        of it in the instruction: drivers do not see through a shift of the sum.
        """
        found = next((q[index, vector] for q in self.quotients if (index, vector) in q), None)
        if found is None:
            found = self.quotients[-1][index, vector] = self.new_quotient(index, vector)
        return found

    def new_quotient(self, index: Node, vector: int) -> str:
        name = self.type(index.value_type)
        if index.kind == "const":
            return self.literal(index.attr // vector, index.value_type.dtype)
        factor = factor_of(index, vector) if index.kind == "alu" else None
        if factor is not None:
            other, number = factor
            if number == vector:
                return self.values[other][0]
            times = self.literal(number // vector, index.value_type.dtype)
            return self.let(f"{self.values[other][0]} * {times}")
        if is_sum(index) and any(is_multiple(i, vector) for i in index.inputs):
            x, y = (self.quotient(i, vector) for i in index.inputs)
            return self.let(f"{x} + {y}")
        return self.let(f"{name}(u32({self.values[index][0]}) >> {vector.bit_length() - 1}u)")

    def at(self, name: str, start: str, offset: int) -> str:
        suffix = TYPES[self.kernel.index.name][1]
        return f"{name}[{start} + {offset}{suffix}]" if offset else f"{name}[{start}]"

    def store(self, node: Node) -> None:
        memory, index, value = node.inputs[:3]
        width = value.value_type.width
        places = self.places(memory, index, width)
        mask = node.inputs[3] if len(node.inputs) == 4 else None
        places = places if mask is None else [_possible(place) for place in places]
        stores = list(self.stores(places, value))
        if mask is None:
            for store in stores:
                self.line(store)
        elif mask.value_type.width == 1:
            self.line(f"if ({self.values[mask][0]}) {{ {' '.join(stores)} }}")
        else:
            self.masked_stores(places, value, mask)

    def stores(self, places: Sequence[str], value: Node) -> Iterator[str]:
        type = value.value_type
        pieces = self.values[value]
        if len(places) == len(pieces):
            values = list(pieces)
        elif len(places) == type.width:
            values = [self.element(value, number) for number in range(type.width)]
        else:
            values = [f"{piece}.{half}" for piece in pieces for half in ("xy", "zw")]
        for place, spelled in zip(places, values, strict=True):
            yield f"{place} = {spelled};"

    def masked_stores(self, places: Sequence[str], value: Node, mask: Node) -> None:
        width = value.value_type.width
        vector = width // len(places)
        for number in range(width):
            place = places[number // vector]
            target = place if vector == 1 else f"{place}.{COMPONENTS[number % vector]}"
            condition, element = self.element(mask, number), self.element(value, number)
            self.line(f"if ({condition}) {{ {target} = {element}; }}")

    def atomic(self, node: Node) -> None:
        name, has_mask = node.attr
        memory, index = node.inputs[:2]
        operands = [self.values[i][0] for i in node.inputs[2 : len(node.inputs) - has_mask]]
        pointer = f"&{self.memories[memory]}[{self.values[index][0]}]"
        zero = self.literal(0, dtype_of(node))
        (old,) = self.values[node] = self.variables(node.value_type, (zero,))
        lines = self.atomic_lines(name, pointer, old, operands)
        if has_mask:
            mask = self.values[node.inputs[-1]][0]
            lines = [f"if ({mask}) {{", *(INDENT + text for text in lines), "}"]
        for text in lines:
            self.line(text)

    def atomic_lines(self, name: str, pointer: str, old: str, operands: list[str]) -> list[str]:
        if name == "load":
            return [f"{old} = atomicLoad({pointer});"]
        if name == "store":
            # The old value of a store is read as an exchange does.
            return [f"{old} = atomicExchange({pointer}, {operands[0]});"]
        if name != "exchange_equal":
            return [f"{old} = {ATOMICS[name]}({pointer}, {operands[0]});"]
        value, expected = operands
        exchange = f"atomicCompareExchangeWeak({pointer}, {expected}, {value})"
        result = self.name()
        # Weak: it may fail although the values are equal.
        return [
            "loop {",
            f"{INDENT}let {result} = {exchange};",
            f"{INDENT}{old} = {result}.old_value;",
            f"{INDENT}if ({result}.exchanged || {old} != {expected}) {{ break; }}",
            "}",
        ]

    def error(self, node: Node) -> None:
        memory, failed, code = node.inputs
        pieces = self.values[failed]
        is_vector = failed.value_type.width > 1
        condition = " || ".join(f"any({piece})" if is_vector else piece for piece in pieces)
        target = self.memories[memory]
        self.line(f"if ({condition}) {{ atomicMax(&{target}[0], {self.values[code][0]}); }}")


def _possible(place: str) -> str:
    """Return a masked place, with index 0 for a literal below 0, where the mask is false.

    WGSL refuses such a literal even where nothing comes to it.
    """
    return _BELOW.sub(lambda m: f"[{max(int(m[1]) + int(m[3] or 0), 0)}{m[2]}]", place)
