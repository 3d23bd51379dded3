"""The printer: a kernel's nodes in their order, each as lines of WGSL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from pyrite.errors import KernelError
from pyrite.kernel.ir import Kernel, Kind, Node, Region, Type, dtype_of
from pyrite.kernel.target.wgsl.access import Accesses
from pyrite.kernel.target.wgsl.control import Control
from pyrite.kernel.target.wgsl.spelling import (
    BINARY,
    BUILTINS,
    CALLS,
    COMPONENTS,
    HALVES,
    SPELLED,
)
from pyrite.kernel.target.wgsl.subgroup import Subgroups
from pyrite.kernel.target.wgsl.text import Pieces, pieces_of
from pyrite.types import DType, float16, int64, uint64


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

    >>> from pyrite.kernel.builder import KernelBuilder
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
    return Printer(
        kernel, frozenset(features), all_writable, is_folded, has_immediates
    ).module_text()


class Printer(Accesses, Control, Subgroups):
    """Walks a kernel once; a method for each kind of node."""

    # The head of the module.

    def module_text(self) -> str:
        for position, node in enumerate(self.kernel.buffers):
            self.buffer(position, node)
        self.arguments()
        if self.is_folded:
            self.fold()
        self.halves = _computed_halves(self.kernel)
        if self.halves or any(n.kind == "alu" and n.attr == "fence" for n in self.kernel.walk()):
            self.unseen_zero()
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

    def buffer(self, position: int, node: Node) -> None:
        _, name, access = node.attr
        name = f"{_clean(name)}_{position}"
        mode = "read" if access == "read" and not self.all_writable else "read_write"
        self.memories[node] = name
        self.module.append(
            f"@group(0) @binding({position}) var<storage, {mode}> {name}: "
            f"array<{self.memory_type(node)}>;"
        )

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
        """Return the type in which an argument travels, a word at least, and its value."""
        if dtype.is_bool:
            return "u32", f"({name} != 0u)"
        spelled = self.scalar(dtype)
        return ("f32", f"f16({name})") if spelled == "f16" else (spelled, name)

    def fold(self) -> None:
        workgroup, workgroups = self.builtin("workgroup_id"), self.builtin("num_workgroups")
        self.line(f"let folded = {workgroup}.y * {workgroups}.x + {workgroup}.x;")
        self.line("if (folded >= arguments.grid) { return; }")

    def unseen_zero(self) -> None:
        """Make the zero of fences, of which a compiler knows nothing: no grid is empty."""
        workgroups = self.builtin("num_workgroups")
        self.line(f"let unseen = select(0u, 1u, {workgroups}.z == 0u);")

    # Values.

    def region(self, region: Region) -> None:
        self.quotients.append({})
        for node in region.body:
            _PRINT[node.kind](self, node)
        self.quotients.pop()

    def const(self, node: Node) -> None:
        type = node.value_type
        if type.width == 1:
            self.values[node] = (self.literal(node.attr, type.dtype),)
            return
        numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,) * type.width
        elements = [self.literal(number, type.dtype) for number in numbers]
        self.define(node, list(self.grouped(type, elements)))

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
            # Of literals it would be a constant expression, and an error where it overflows.
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
        if node in self.halves and type in HALVES:
            self.define(node, [HALVES[type].format(piece) for piece in self.values[node]])

    def runtime(self, node: Node) -> Pieces:
        """Return a value that is no constant expression to WGSL, which could be an error."""
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
        self.define(node, [f"{self.type(type)}({x})"] * pieces_of(type))

    def make(self, node: Node) -> None:
        elements = [self.values[i][0] for i in node.inputs]
        self.define(node, list(self.grouped(node.value_type, elements)))

    def extract(self, node: Node) -> None:
        self.values[node] = (self.element(node.inputs[0], node.attr),)

    def known(self, node: Node) -> None:
        """Return a node whose value was given before: by the kernel's head, or its control node."""


def _computed_halves(kernel: Kernel) -> frozenset[Node]:
    """Return the roundings to float16 that are not only stored.

    Drivers leave out a rounding of which the result is widened (seen on an NVIDIA H200).
    """
    used = [x for n in kernel.walk() if n.kind != "store" for x in n.inputs]
    yielded = [x for n in kernel.walk() for region in n.regions for x in region.yields]
    return frozenset(
        x for x in (*used, *yielded) if x.kind == "cast" and x.value_type.dtype is float16
    )


def _widened(source: Type, target: Type) -> Type | None:
    """The type of 64 bits and the source's sign, where an integer gets 64 bits and the other."""
    kinds = source.dtype.kind, target.dtype.kind
    if kinds not in (("int", "uint"), ("uint", "int")) or target.dtype.itemsize != 8:
        return None
    return source.with_dtype(int64 if kinds[0] == "int" else uint64)


def _clean(name: str) -> str:
    """Return a name of which WGSL makes an identifier when a number follows it."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "x"
    return cleaned if cleaned[0].isalpha() else f"x{cleaned}"


_PRINT: dict[Kind, Callable[[Printer, Node], Any]] = {
    "const": Printer.const, "argument": Printer.known, "builtin": Printer.builtin_node,
    "alu": Printer.alu, "cast": Printer.cast, "bitcast": Printer.bitcast,
    "select": Printer.select, "splat": Printer.splat, "make": Printer.make,
    "extract": Printer.extract, "parameter": Printer.known, "result": Printer.result,
    "buffer": Printer.known, "alloc": Printer.alloc, "load": Printer.load,
    "store": Printer.store, "atomic": Printer.atomic, "prefetch": Printer.known,
    "error": Printer.error, "for": Printer.for_, "while": Printer.while_, "if": Printer.if_,
    "barrier": Printer.barrier, "subgroup_reduce": Printer.subgroup,
    "subgroup_scan": Printer.subgroup_scan, "subgroup_shuffle": Printer.subgroup,
    "subgroup_broadcast": Printer.subgroup, "subgroup_ballot": Printer.subgroup,
}  # fmt: skip
