"""The printer: a kernel's nodes in their order, each as lines of WGSL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from pyrite.errors import DTypeError, KernelError
from pyrite.kernel.ir import Kernel, Kind, Node, Region, Type, dtype_of
from pyrite.kernel.target.wgsl.place import (
    factor_of,
    is_multiple,
    is_sum,
    less_multiples,
    vector_widths,
)
from pyrite.kernel.target.wgsl.spelling import (
    ATOMICS,
    BINARY,
    BUILTINS,
    CALLS,
    COMPONENTS,
    FUNCTIONS,
    INSTEAD,
    SHUFFLES,
    SPELLED,
    SUBGROUP,
    TYPES,
)
from pyrite.types import DType, Number, int64, uint64

_INDENT = "  "


def to_wgsl(
    kernel: Kernel,
    features: Collection[str] = (),
    *,
    all_writable: bool = False,
    is_folded: bool = False,
    has_immediates: bool = False,
) -> str:
    """Return the kernel as the text of a WGSL module with one entry point, ``main``.

    ``all_writable`` declares every buffer as written, for launches that bind parts of one buffer to
    several parameters.  ``is_folded`` counts the workgroups of a grid of one axis on two, and takes
    their number as a last argument.  ``has_immediates`` has the arguments as immediates.

    Raises DTypeError for a dtype that the features do not grant, KernelError for one that should
    have been legalised before.

    >>> from pyrite.kernel.build import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double", workgroup_size=64)
    >>> x = b.buffer("x", float32, "read_write")
    >>> i = b.global_id()
    >>> x[i] = x[i] * 2.0
    >>> print(to_wgsl(b.build()))
    @group(0) @binding(0) var<storage, read_write> x_0: array<f32>;
    <BLANKLINE>
    @compute @workgroup_size(64, 1, 1)
    fn main(@builtin(workgroup_id) workgroup: vec3<u32>, \
@builtin(local_invocation_id) local: vec3<u32>) {
      let v0 = i32(workgroup.x);
      let v1 = v0 * 64i;
      let v2 = i32(local.x);
      let v3 = v1 + v2;
      let v4 = x_0[v3];
      let v5 = v4 * 2.0f;
      x_0[v3] = v5;
    }
    <BLANKLINE>
    """
    return _Printer(kernel, frozenset(features), all_writable, is_folded, has_immediates).text()


#: The value of a node: one expression for each four elements.
Pieces = tuple[str, ...]


class _Printer:
    def __init__(
        self,
        kernel: Kernel,
        features: frozenset[str],
        all_writable: bool,
        is_folded: bool,
        has_immediates: bool,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.all_writable = all_writable
        self.is_folded = is_folded
        self.has_immediates = has_immediates
        self.values: dict[Node, Pieces] = {}
        #: Of each control node, what its regions yielded.
        self.results: dict[Node, Sequence[Pieces]] = {}
        self.memories: dict[Node, str] = {}
        self.vector_widths = vector_widths(kernel)
        self.module: list[str] = []
        self.lines: list[str] = []
        #: Of each region being printed, indices over the width of a vector: see `quotient`.
        self.quotients: list[dict[tuple[Node, int], str]] = []
        self.depth = 1
        self.numbered = 0
        self.functions: dict[str, str] = {}
        self.builtins: dict[str, None] = {}
        self.enabled: dict[str, None] = {}

    def text(self) -> str:
        for position, node in enumerate(self.kernel.buffers):
            self.buffer(position, node)
        self.arguments()
        if self.is_folded:
            self.fold()
        self.region(self.kernel.body)
        body = self.lines
        parameters = ", ".join(
            f"@builtin({name}) {variable}: {type}"
            for name, variable, type in (BUILTINS[b] for b in BUILTINS if b in self.builtins)
        )
        size = ", ".join(map(str, self.kernel.workgroup_size))
        head = [f"enable {name};" for name in self.enabled]
        functions = list(self.functions.values())
        main = [f"@compute @workgroup_size({size})", f"fn main({parameters}) {{", *body, "}"]
        parts = ["\n".join(part) for part in (head, self.module, functions, main) if part]
        return "\n\n".join(parts) + "\n"

    # The head of the module.

    def buffer(self, position: int, node: Node) -> None:
        _, name, access = node.attr
        name = f"{_clean(name)}_{position}"
        mode = "read" if access == "read" and not self.all_writable else "read_write"
        self.memories[node] = name
        self.module.append(
            f"@group(0) @binding({position}) var<storage, {mode}> {name}: "
            f"array<{self.memory_type(node)}>;"
        )

    def memory_type(self, node: Node) -> str:
        """The type of one element of the array of a memory."""
        type = node.value_type
        if type.dtype.is_bool:
            self.unsupported(type.dtype)
        if node.attr[2] == "atomic":
            return f"atomic<{self.scalar(type.dtype)}>"
        return self.type(type.with_width(self.vector_widths[node]))

    def arguments(self) -> None:
        fields = []
        for position, node in enumerate(self.kernel.arguments):
            name = f"{_clean(node.attr[1])}_{position}"
            spelled, value = self.argument(dtype_of(node), f"arguments.{name}")
            fields.append(f"{name}: {spelled}")
            self.values[node] = (value,)
        if self.is_folded:
            fields.append("grid: u32")
        if not fields:
            return
        self.module.append(f"struct Arguments {{ {', '.join(fields)} }}")
        binding = f"@group(0) @binding({len(self.kernel.buffers)}) var<uniform>"
        space = "var<immediate>" if self.has_immediates else binding
        self.module.append(f"{space} arguments: Arguments;")

    def argument(self, dtype: DType, name: str) -> tuple[str, str]:
        """The type in which an argument travels, a word at least, and its value."""
        if dtype.is_bool:
            return "u32", f"({name} != 0u)"
        spelled = self.scalar(dtype)
        return ("f32", f"f16({name})") if spelled == "f16" else (spelled, name)

    def fold(self) -> None:
        workgroup, workgroups = self.builtin("workgroup_id"), self.builtin("num_workgroups")
        self.line(f"let folded = {workgroup}.y * {workgroups}.x + {workgroup}.x;")
        self.line("if (folded >= arguments.grid) { return; }")

    # Types and numbers.

    def scalar(self, dtype: DType) -> str:
        if dtype.name not in TYPES:
            self.unsupported(dtype)
        name, _, feature = TYPES[dtype.name]
        if feature is not None:
            if feature not in self.features:
                self.unsupported(dtype)
            if feature == "shader-f16":
                self.enabled["f16"] = None
        return name

    def unsupported(self, dtype: DType) -> None:
        if dtype.name in INSTEAD:
            raise DTypeError(
                f"kernel '{self.kernel.name}' requires a device with {dtype.name}, got one "
                f"without; use {INSTEAD[dtype.name]}: x.astype(pyrite.{INSTEAD[dtype.name]})"
            )
        raise KernelError(
            f"kernel '{self.kernel.name}' requires 32-bit words for WGSL, got {dtype.name}; "
            "legalise it first"
        )

    def type(self, type: Type) -> str:
        """The type of one piece of a value."""
        name = self.scalar(type.dtype)
        return name if type.width == 1 else f"vec{min(type.width, 4)}<{name}>"

    def literal(self, value: Number, dtype: DType) -> str:
        """A number as WGSL writes it."""
        if dtype.is_bool:
            return "true" if value else "false"
        suffix = TYPES[dtype.name][1] if self.scalar(dtype) else ""
        if dtype.is_float:
            return self.float_literal(float(value), dtype, suffix)
        if value == dtype.lowest and dtype.kind == "int":
            return f"({int(value) + 1}{suffix} - 1{suffix})"
        return f"{int(value)}{suffix}"

    def float_literal(self, value: float, dtype: DType, suffix: str) -> str:
        if math.isfinite(value):
            return f"{value!r}{suffix}"
        self.function("bits_f32")
        bits = "0x7fc00000u" if math.isnan(value) else "0x7f800000u"
        sign = "-" if value < 0 else ""
        spelled = f"{sign}bits_f32({bits})"
        return spelled if dtype.name == "float32" else f"{self.scalar(dtype)}({spelled})"

    def function(self, name: str) -> str:
        if name not in self.functions:
            if name == "mulhi_i32":
                self.function("mulhi_u32")
            self.functions[name] = FUNCTIONS[name]
        return name

    # Lines and values.

    def line(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text)

    def name(self) -> str:
        self.numbered += 1
        return f"v{self.numbered - 1}"

    def let(self, expression: str) -> str:
        name = self.name()
        self.line(f"let {name} = {expression};")
        return name

    def define(self, node: Node, expressions: Sequence[str]) -> None:
        """Give the node its value, an expression for each piece."""
        self.values[node] = tuple(self.let(e) for e in expressions)

    def variables(self, type: Type, initial: Pieces | None) -> Pieces:
        """New variables of the type."""
        names = []
        for piece in range(_pieces(type)):
            name = self.name()
            value = f" = {initial[piece]}" if initial is not None else ""
            self.line(f"var {name}: {self.type(type)}{value};")
            names.append(name)
        return tuple(names)

    def element(self, node: Node, element: int) -> str:
        """The expression of one element of a value."""
        width = node.value_type.width
        if width == 1:
            return self.values[node][0]
        return f"{self.values[node][element // 4]}.{COMPONENTS[element % 4]}"

    def region(self, region: Region) -> None:
        self.quotients.append({})
        for node in region.body:
            _PRINT[node.kind](self, node)
        self.quotients.pop()

    def block(self, opening: str, fill: Callable[[], None], closing: str = "}") -> None:
        self.line(opening)
        self.depth += 1
        fill()
        self.depth -= 1
        self.line(closing)

    # Nodes: values.

    def const(self, node: Node) -> None:
        type = node.value_type
        if type.width == 1:
            self.values[node] = (self.literal(node.attr, type.dtype),)
            return
        numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,) * type.width
        elements = [self.literal(number, type.dtype) for number in numbers]
        self.define(node, list(self.grouped(type, elements)))

    def grouped(self, type: Type, elements: Sequence[str]) -> Iterator[str]:
        """The pieces of a vector of these elements."""
        for start in range(0, type.width, 4):
            part = elements[start : start + 4]
            inside = part[0] if len(set(part)) == 1 else ", ".join(part)
            yield f"{self.type(type)}({inside})"

    def builtin(self, name: str) -> str:
        self.builtins[name] = None
        if name.startswith("subgroup"):
            self.subgroups()
        return BUILTINS[name][1]

    def builtin_node(self, node: Node) -> None:
        name, axis = node.attr
        if self.is_folded and name in ("workgroup_id", "num_workgroups") and axis == 0:
            value = "folded" if name == "workgroup_id" else "arguments.grid"
        else:
            value = self.builtin(name)
            if BUILTINS[name][2] != "u32":
                value += "." + COMPONENTS[axis]
        self.define(node, [f"{self.type(node.value_type)}({value})"])

    def alu(self, node: Node) -> None:
        operands = [self.values[i] for i in node.inputs]
        if all(i.kind == "const" for i in node.inputs):
            # Of literals alone it would be a constant expression, and an error where it overflows.
            operands[0] = tuple(self.let(piece) for piece in operands[0])
        spelled = [self.spell(node, pieces) for pieces in zip(*operands, strict=True)]
        self.define(node, spelled)

    def spell(self, node: Node, operands: tuple[str, ...]) -> str:
        name = node.attr
        if name in CALLS:
            return f"{CALLS[name]}({', '.join(operands)})"
        if name in BINARY:
            x, y = operands
            return f"{x} {BINARY[name]} {y}"
        return SPELLED[name](self, node.inputs[0].value_type, *operands)

    def cast(self, node: Node) -> None:
        (x,) = node.inputs
        if node.value_type.dtype.is_bool:
            raise KernelError(f"kernel '{self.kernel.name}' requires no cast to bool; use ne")
        type, pieces = self.type(node.value_type), self.runtime(x)
        if (wide := _widened(x.value_type, node.value_type)) is not None:
            # naga extends by the sign of the target, not of the source.
            pieces = tuple(f"{self.type(wide)}({piece})" for piece in pieces)
        self.define(node, [f"{type}({piece})" for piece in pieces])

    def runtime(self, node: Node) -> Pieces:
        """A value that is no constant expression to WGSL, whose evaluation could be an error."""
        pieces = self.values[node]
        return tuple(map(self.let, pieces)) if node.kind == "const" else pieces

    def bitcast(self, node: Node) -> None:
        type = self.type(node.value_type)
        self.define(node, [f"bitcast<{type}>({piece})" for piece in self.runtime(node.inputs[0])])

    def select(self, node: Node) -> None:
        condition, x, y = (self.values[i] for i in node.inputs)
        if len(condition) < len(x):
            condition = condition * len(x)
        parts = zip(condition, x, y, strict=True)
        self.define(node, [f"select({b}, {a}, {c})" for c, a, b in parts])

    def splat(self, node: Node) -> None:
        type = node.value_type
        (x,) = self.values[node.inputs[0]]
        self.define(node, [f"{self.type(type)}({x})"] * _pieces(type))

    def make(self, node: Node) -> None:
        elements = [self.values[i][0] for i in node.inputs]
        self.define(node, list(self.grouped(node.value_type, elements)))

    def extract(self, node: Node) -> None:
        self.values[node] = (self.element(node.inputs[0], node.attr),)

    def known(self, node: Node) -> None:
        """A node whose value was given before: by the kernel's head, or its control node."""

    # Nodes: memory.

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
        """The pieces of a value that lies in these places."""
        if len(places) == _pieces(type):
            yield from places
        elif len(places) == type.width:
            yield from self.grouped(type, places)
        else:
            # A vec4 of two vec2.
            for start in range(0, len(places), 2):
                yield f"{self.type(type)}({places[start]}, {places[start + 1]})"

    def places(self, memory: Node, index: Node, width: int) -> list[str]:
        """The lvalues of an access: one for each vector of the memory, or for each element."""
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
        """One element, of a memory of scalars or of vectors."""
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
            lines = [f"if ({mask}) {{", *(_INDENT + text for text in lines), "}"]
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
            f"{_INDENT}let {result} = {exchange};",
            f"{_INDENT}{old} = {result}.old_value;",
            f"{_INDENT}if ({result}.exchanged || {old} != {expected}) {{ break; }}",
            "}",
        ]

    def error(self, node: Node) -> None:
        memory, failed, code = node.inputs
        pieces = self.values[failed]
        is_vector = failed.value_type.width > 1
        condition = " || ".join(f"any({piece})" if is_vector else piece for piece in pieces)
        target = self.memories[memory]
        self.line(f"if ({condition}) {{ atomicMax(&{target}[0], {self.values[code][0]}); }}")

    # Nodes: control.

    def for_(self, node: Node) -> None:
        step, unroll = node.attr
        (region,) = node.regions
        start, stop, *initial = node.inputs
        if unroll:
            self.unrolled(node, region, start, stop, step, initial)
            return
        carried = self.carried(initial, region.parameters[1:])
        type = region.parameters[0].value_type
        counter = self.name()
        self.values[region.parameters[0]] = (counter,)
        first, last = self.values[start][0], self.values[stop][0]
        advance = f"{counter} += {self.literal(step, type.dtype)}"

        def body() -> None:
            self.region(region)
            self.assign(carried, [self.values[y] for y in region.yields])

        self.block(
            f"for (var {counter}: {self.type(type)} = {first}; {counter} < {last}; {advance}) {{",
            body,
        )
        self.results[node] = carried

    def unrolled(
        self,
        node: Node,
        region: Region,
        start: Node,
        stop: Node,
        step: int,
        initial: Sequence[Node],
    ) -> None:
        values = [self.values[i] for i in initial]
        counter, *parameters = region.parameters
        for number in range(start.attr, stop.attr, step):
            self.values[counter] = (self.literal(number, dtype_of(counter)),)
            self.values.update(zip(parameters, values, strict=True))
            self.region(region)
            values = [self.values[y] for y in region.yields]
        self.results[node] = values

    def while_(self, node: Node) -> None:
        condition, body = node.regions
        carried = self.carried(node.inputs, condition.parameters)
        self.values.update(zip(body.parameters, carried, strict=True))

        def fill() -> None:
            self.region(condition)
            self.line(f"if (!({self.values[condition.yields[0]][0]})) {{ break; }}")
            self.region(body)
            self.assign(carried, [self.values[y] for y in body.yields])

        self.block("loop {", fill)
        self.results[node] = carried

    def if_(self, node: Node) -> None:
        then, otherwise = node.regions
        results = [self.variables(y.value_type, None) for y in then.yields]

        def fill(region: Region) -> None:
            self.region(region)
            self.assign(results, [self.values[y] for y in region.yields])

        opening = f"if ({self.values[node.inputs[0]][0]}) {{"
        if otherwise.body or otherwise.yields:
            self.block(opening, lambda: fill(then), "} else {")
            self.depth += 1
            fill(otherwise)
            self.depth -= 1
            self.line("}")
        else:
            self.block(opening, lambda: fill(then))
        self.results[node] = results

    def carried(self, initial: Sequence[Node], parameters: Sequence[Node]) -> list[Pieces]:
        variables = [self.variables(i.value_type, self.values[i]) for i in initial]
        self.values.update(zip(parameters, variables, strict=True))
        return variables

    def assign(self, targets: Sequence[Pieces], values: Sequence[Pieces]) -> None:
        """Assign all at once: a value may be another of the variables."""
        moves = [
            (target, value)
            for pieces, others in zip(targets, values, strict=True)
            for target, value in zip(pieces, others, strict=True)
            if target != value
        ]
        variables = {target for target, _ in moves}
        moves = [(t, self.let(v) if v.split(".")[0] in variables else v) for t, v in moves]
        for target, value in moves:
            self.line(f"{target} = {value};")

    def result(self, node: Node) -> None:
        self.values[node] = self.results[node.inputs[0]][node.attr]

    def barrier(self, node: Node) -> None:
        self.line("workgroupBarrier();")
        if node.attr == "storage":
            self.line("storageBarrier();")

    # Nodes: subgroups.

    def subgroups(self) -> None:
        if "subgroups" in self.features:
            self.enabled["subgroups"] = None
        elif "subgroup" not in self.features:
            raise KernelError(
                f"kernel '{self.kernel.name}' requires a device with subgroups, got one without; "
                "use workgroup memory"
            )

    def subgroup(self, node: Node) -> None:
        self.subgroups()
        x, *rest = (self.values[i] for i in node.inputs)
        if node.kind == "subgroup_reduce":
            self.define(node, [f"{SUBGROUP[node.attr]}({piece})" for piece in x])
        elif node.kind == "subgroup_broadcast":
            self.define(node, [f"subgroupBroadcastFirst({piece})" for piece in x])
        elif node.kind == "subgroup_ballot":
            self.define(node, [f"subgroupBallot({x[0]})"])
        else:
            lane = f"u32({rest[0][0]})"
            self.define(node, [f"{SHUFFLES[node.attr]}({piece}, {lane})" for piece in x])

    def subgroup_scan(self, node: Node) -> None:
        """By shuffles, log2 of the lanes; WGSL scans only sums and products."""
        self.subgroups()
        name, is_inclusive = node.attr
        lane, lanes = self.builtin("subgroup_lane"), self.builtin("subgroup_size")
        type = node.value_type
        total = self.variables(type, self.values[node.inputs[0]])
        distance = self.name()

        def step() -> None:
            for piece in total:
                before = self.let(f"subgroupShuffleUp({piece}, {distance})")
                combined = self.combine(name, type, before, piece)
                self.line(f"if ({lane} >= {distance}) {{ {piece} = {combined}; }}")

        self.block(f"for (var {distance} = 1u; {distance} < {lanes}; {distance} *= 2u) {{", step)
        if is_inclusive:
            self.values[node] = total
            return
        zero = f"{self.type(type)}({self.literal(_identity(name, type.dtype), type.dtype)})"
        shifted = [self.let(f"subgroupShuffleUp({piece}, 1u)") for piece in total]
        self.define(node, [f"select({piece}, {zero}, {lane} == 0u)" for piece in shifted])

    def combine(self, name: str, type: Type, x: str, y: str) -> str:
        if name in BINARY:
            return f"{x} {BINARY[name]} {y}"
        return SPELLED[name](self, type, x, y)


def _widened(source: Type, target: Type) -> Type | None:
    """The type of 64 bits and the source's sign, where an integer gets 64 bits and the other."""
    kinds = source.dtype.kind, target.dtype.kind
    if kinds not in (("int", "uint"), ("uint", "int")) or target.dtype.itemsize != 8:
        return None
    return source.with_dtype(int64 if kinds[0] == "int" else uint64)


def _pieces(type: Type) -> int:
    return max(1, type.width // 4)


def _clean(name: str) -> str:
    """A name of which WGSL makes an identifier when a number follows it."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "x"
    return cleaned if cleaned[0].isalpha() else f"x{cleaned}"


def _identity(name: str, dtype: DType) -> Number:
    """What changes nothing when combined."""
    if name in ("min", "max"):
        return dtype.highest if name == "min" else dtype.lowest
    if name == "and":
        return True if dtype.is_bool else (-1 if dtype.kind == "int" else int(dtype.highest))
    return 1 if name == "mul" else 0


_PRINT: dict[Kind, Callable[[_Printer, Node], Any]] = {
    "const": _Printer.const, "argument": _Printer.known, "builtin": _Printer.builtin_node,
    "alu": _Printer.alu, "cast": _Printer.cast, "bitcast": _Printer.bitcast,
    "select": _Printer.select, "splat": _Printer.splat, "make": _Printer.make,
    "extract": _Printer.extract, "parameter": _Printer.known, "result": _Printer.result,
    "buffer": _Printer.known, "alloc": _Printer.alloc, "load": _Printer.load,
    "store": _Printer.store, "atomic": _Printer.atomic, "error": _Printer.error,
    "for": _Printer.for_, "while": _Printer.while_, "if": _Printer.if_,
    "barrier": _Printer.barrier, "subgroup_reduce": _Printer.subgroup,
    "subgroup_scan": _Printer.subgroup_scan, "subgroup_shuffle": _Printer.subgroup,
    "subgroup_broadcast": _Printer.subgroup, "subgroup_ballot": _Printer.subgroup,
}  # fmt: skip
