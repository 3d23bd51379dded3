"""The printer: a kernel's nodes in their order, as instructions of one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pyrite.errors import KernelError
from pyrite.kernel.arithmetic import neutral
from pyrite.kernel.ir import Kernel, Kind, Node, Region, dtype_of, scalar
from pyrite.kernel.target.llvm.access import Accesses
from pyrite.kernel.target.llvm.assembly import SPARE
from pyrite.kernel.target.llvm.control import Control
from pyrite.kernel.target.llvm.conversion import Conversions
from pyrite.kernel.target.llvm.counters import Counters
from pyrite.kernel.target.llvm.processor import LLVMTarget
from pyrite.kernel.target.llvm.scaling import scaled
from pyrite.kernel.target.llvm.spelling import (
    BINARY,
    CALL,
    COMPARE,
    constant,
    element_type,
    mangled,
    memory_type,
    splat,
    type_of,
    vector,
)

#: The name of the function.  Equal kernels have equal text, whatever they are called.
SYMBOL: Final = "kernel"
#: Slots before the parameters: the sizes of the grid.
GRID_SLOTS: Final = 3


def to_llvm(kernel: Kernel, target: LLVMTarget, *, streams: Iterable[int] = ()) -> str:
    """Return the kernel as the text of an LLVM module with one function.

    ``streams`` are positions of buffers so large that what is stored there is soon forgotten: full
    vectors go past the caches.  Such a buffer begins at a multiple of 64 bytes.

    Raises KernelError if a workgroup has more than one invocation.
    """
    if kernel.invocations != 1:
        raise KernelError(
            f"to_llvm requires workgroups of one invocation, got {kernel.workgroup_size} in "
            f"kernel {kernel.name!r}; run the pass split_barriers first"
        )
    return Printer(kernel, target, frozenset(streams)).module()


class Printer(Conversions, Accesses, Control, Counters):
    """Walks a kernel once; a method for each kind of node and each opcode of its own."""

    # ---- the module ----

    def module(self) -> str:
        self.entry()
        body = "\n".join(line for line in self.lines if line)
        streaming = ["!0 = !{i32 1}"] if self.streams else []
        parts = [
            f'target triple = "{self.target.triple}"',
            *self.zeros(),
            *sorted(self.declarations.values()),
            f"define void @{SYMBOL}(ptr %slots, i64 %begin, i64 %end) #0 {{\n{body}\n}}",
            f"attributes #0 = {{ {self.attributes()} }}",
            *streaming,
        ]
        return "\n\n".join(parts) + "\n"

    def zeros(self) -> Sequence[str]:
        if "@zeros" not in self.spares:
            return ()
        return (f"@zeros = private unnamed_addr constant [{SPARE}] zeroinitializer, align 64",)

    def attributes(self) -> str:
        """Without these LLVM halves vectors of 512 bits on processors that clock down for them."""
        bits = 8 * self.target.vector_bytes
        return f'nounwind "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"'

    def entry(self) -> None:
        """Parameters and allocations, then a loop over workgroups with the body inside."""
        self.lines.append("entry:")
        sizes = [self.slot(axis, "i64") for axis in range(self.kernel.grid)]
        for p in self.kernel.parameters:
            self.names[p] = self.parameter_slot(p)
        sink = self.reserve()
        for node in self.kernel.body.body:
            if node.kind == "alloc":
                self.alloc(node)
        self.line("%any = icmp ult i64 %begin, %end")
        before = self.begin_counters("%begin", "br i1 %any, label %{}, label %done", "group")
        self.label("group")
        self.line(f"%g = phi i64 [ %begin, %{before} ], [ %g.next, %group.end ]")
        self.carry_counters(before, "group.end")
        self.builtins(sizes)
        self.region(self.kernel.body)
        self.line("br label %group.end")
        self.label("group.end")
        self.step_counters()
        self.line("%g.next = add i64 %g, 1")
        self.line("%more = icmp ult i64 %g.next, %end")
        self.line("br i1 %more, label %group, label %done")
        self.label("done")
        self.line("ret void")
        if "%sink" in self.spares:
            self.lines[sink] = f"  %sink = alloca [{SPARE}], align 64"

    def slot(self, number: int, type: str) -> str:
        at = self.value(f"getelementptr i64, ptr %slots, i64 {number}")
        return self.value(f"load {type}, ptr {at}, align 8")

    def parameter_slot(self, node: Node) -> str:
        number = GRID_SLOTS + node.attr[0]
        if node.kind == "buffer":
            return self.slot(number, self.target.pointer("buffer"))
        dtype = dtype_of(node)
        return self.from_memory(self.slot(number, memory_type(dtype)), scalar(dtype))

    def builtins(self, sizes: Sequence[str]) -> None:
        """Return the workgroup's place in the grid, and the grid's sizes, in the index dtype."""
        place, rest = [], "%g"
        for size in sizes[:-1]:
            place.append(self.value(f"urem i64 {rest}, {size}"))
            rest = self.value(f"udiv i64 {rest}, {size}")
        place.append(rest)
        self.place = [self.to_index(x) for x in place]
        self.sizes = [self.to_index(x) for x in sizes]

    def to_index(self, x: str) -> str:
        type = element_type(self.kernel.index)
        return x if type == "i64" else self.value(f"trunc i64 {x} to {type}")

    # ---- nodes ----

    def region(self, region: Region) -> None:
        for node in region.body:
            name = _NODES[node.kind](self, node)
            if name is not None:
                self.names[node] = name

    def const(self, node: Node) -> str:
        return constant(node.attr, node.value_type)

    def builtin(self, node: Node) -> str:
        name, axis = node.attr
        if name == "workgroup_id":
            return self.place[axis] if axis < len(self.place) else "0"
        if name == "num_workgroups":
            return self.sizes[axis] if axis < len(self.sizes) else "1"
        return "1" if name == "subgroup_size" else "0"

    def alu(self, node: Node) -> str:
        kind = node.inputs[0].value_type.dtype.kind
        key = (node.attr, kind)
        type = type_of(node.inputs[0].value_type)
        if node.attr in ("div", "rem") and (counter := self.counter_of(node)) is not None:
            return counter.quotient if node.attr == "div" else counter.rest
        operands = [self.names[i] for i in node.inputs]
        if (spelled := BINARY.get(key) or COMPARE.get(key)) is not None:
            return self.value(f"{spelled} {type} {operands[0]}, {operands[1]}")
        if key in CALL:
            return self.intrinsic(node, *CALL[key])
        return SPELLED[key](self, node)

    def intrinsic(self, node: Node, name: str, *more: tuple[str, str]) -> str:
        of = node.value_type
        full = f"llvm.{name}.{mangled(element_type(of.dtype), of.width)}"
        operands = [(type_of(of), self.names[i]) for i in node.inputs]
        return self.call(type_of(of), full, *operands, *more)

    def select(self, node: Node) -> str:
        condition, x, y = node.inputs
        return self.value(f"select {self.typed(condition)}, {self.typed(x)}, {self.typed(y)}")

    def bitcast(self, node: Node) -> str:
        x = node.inputs[0]
        if type_of(x.value_type) == type_of(node.value_type):
            return self.names[x]
        return self.value(f"bitcast {self.typed(x)} to {type_of(node.value_type)}")

    def splat(self, node: Node) -> str:
        return self.splat_value(self.names[node.inputs[0]], node.value_type)

    def make(self, node: Node) -> str:
        if all(x.kind == "extract" for x in node.inputs):
            sources = list(dict.fromkeys(x.inputs[0] for x in node.inputs))
            if len({s.type for s in sources}) == 1 and len(sources) <= 2:
                return self.shuffle(sources, node.inputs)
        if (made := self.with_constants(node)) is not None:
            return made
        if all(x.kind == "load" for x in node.inputs):
            found = self.load_apart(node.inputs)
            if found is not None:
                return found
        spelled, name = type_of(node.value_type), "poison"
        for i, x in enumerate(node.inputs):
            name = self.value(f"insertelement {spelled} {name}, {self.typed(x)}, i64 {i}")
        return name

    def with_constants(self, node: Node) -> str | None:
        """Elements of a vector as long, and constants: a shuffle too; None for others."""
        sources = {x.inputs[0] if x.kind == "extract" else None for x in node.inputs} - {None}
        if len(sources) != 1 or any(x.kind not in ("extract", "const") for x in node.inputs):
            return None
        source: Any = sources.pop()
        if source.type is not node.type:
            return None
        others = [x.attr if x.kind == "const" else 0 for x in node.inputs]
        places = [
            i + len(others) if x.kind == "const" else x.attr for i, x in enumerate(node.inputs)
        ]
        type, mask = type_of(node.value_type), ", ".join(f"i32 {place}" for place in places)
        other = constant(tuple(others), node.value_type)
        return self.value(
            f"shufflevector {self.typed(source)}, {type} {other}, <{len(places)} x i32> <{mask}>"
        )

    def shuffle(self, sources: Sequence[Node], elements: Sequence[Node]) -> str:
        """Elements of one or two vectors: as one instruction, which LLVM does not always find."""
        width = sources[0].value_type.width
        places = (sources.index(x.inputs[0]) * width + x.attr for x in elements)
        mask = ", ".join(f"i32 {place}" for place in places)
        second = sources[1] if len(sources) == 2 else None
        other = f"{type_of(sources[0].value_type)} poison" if second is None else self.typed(second)
        given = f"{self.typed(sources[0])}, {other}"
        return self.value(f"shufflevector {given}, <{len(elements)} x i32> <{mask}>")

    def extract(self, node: Node) -> str:
        return self.value(f"extractelement {self.typed(node.inputs[0])}, i64 {node.attr}")

    def result(self, node: Node) -> str:
        position: int = node.attr
        return self.results[node.inputs[0]][position]

    # ---- opcodes that are more than one instruction ----

    def pick(self, node: Node, compare: str) -> str:
        """Min and max of floats as the IR states them, which are x86's own instructions."""
        x, y = node.inputs
        first = self.value(f"fcmp {compare} {self.typed(x)}, {self.names[y]}")
        bools = vector("i1", node.value_type.width)
        return self.value(f"select {bools} {first}, {self.typed(x)}, {self.typed(y)}")

    def negate(self, node: Node) -> str:
        x = node.inputs[0]
        if dtype_of(node).is_float:
            return self.value(f"fneg {self.typed(x)}")
        zero = constant(0, node.value_type)
        return self.value(f"sub {type_of(node.value_type)} {zero}, {self.names[x]}")

    def invert(self, node: Node) -> str:
        dtype = dtype_of(node)
        ones = splat(element_type(dtype), node.value_type.width, "true" if dtype.is_bool else "-1")
        return self.value(f"xor {self.typed(node.inputs[0])}, {ones}")

    def fma(self, node: Node) -> str:
        if self.target.has_fma:
            return self.intrinsic(node, "fma")
        x, y, z = node.inputs
        product = self.value(f"fmul {self.typed(x)}, {self.names[y]}")
        return self.value(f"fadd {type_of(node.value_type)} {product}, {self.names[z]}")

    def scale(self, node: Node) -> str:
        assert self.target.has_scale, "expand_ldexp makes arithmetic of it"
        return scaled(self, node.value_type, *(self.names[i] for i in node.inputs))

    def kept(self, node: Node) -> str:
        assert "ldexp" in self.target.scales, "expand_ldexp makes a selection of it"
        return self.names[node.inputs[1]]

    def shift(self, node: Node) -> str:
        is_left, is_signed = node.attr == "shl", dtype_of(node).kind == "int"
        name = "shl" if is_left else "ashr" if is_signed else "lshr"
        x, n = node.inputs
        shifted = self.value(f"{name} {self.typed(x)}, {self.names[n]}")
        return self.value(f"freeze {type_of(node.value_type)} {shifted}")

    def upper_half(self, node: Node) -> str:
        """Return the product in twice as many bits, shifted."""
        type = node.value_type
        extend = "sext" if type.dtype.kind == "int" else "zext"
        wide = vector(f"i{2 * type.dtype.bits}", type.width)
        x, y = (self.value(f"{extend} {self.typed(i)} to {wide}") for i in node.inputs)
        product = self.value(f"mul {wide} {x}, {y}")
        by = splat(f"i{2 * type.dtype.bits}", type.width, str(type.dtype.bits))
        upper = self.value(f"lshr {wide} {product}, {by}")
        return self.value(f"trunc {wide} {upper} to {type_of(type)}")

    # ---- a workgroup and a subgroup are one invocation ----

    def nothing(self, node: Node) -> None:
        """A barrier of one; or an alloc, which `entry` has made."""

    def itself(self, node: Node) -> str:
        return self.names[node.inputs[0]]

    def scan(self, node: Node) -> str:
        name, is_inclusive = node.attr
        if is_inclusive:
            return self.itself(node)
        return constant(neutral(name, dtype_of(node)), node.value_type)

    def ballot(self, node: Node) -> str:
        bit = self.convert("zext", self.names[node.inputs[0]], "i1", "i32")
        return self.value(f"insertelement <4 x i32> zeroinitializer, i32 {bit}, i64 0")


#: Opcodes of more than one instruction.
SPELLED: Mapping[tuple[str, str], Callable[[Printer, Node], str]] = {
    ("neg", "int"): Printer.negate, ("neg", "uint"): Printer.negate,
    ("neg", "float"): Printer.negate,
    ("abs", "uint"): Printer.itself,
    ("min", "float"): lambda p, n: p.pick(n, "olt"),
    ("max", "float"): lambda p, n: p.pick(n, "ogt"),
    ("fma", "float"): Printer.fma, ("fence", "float"): Printer.itself,
    ("mulhi", "int"): Printer.upper_half, ("mulhi", "uint"): Printer.upper_half,
    ("not", "int"): Printer.invert, ("not", "uint"): Printer.invert,
    ("not", "bool"): Printer.invert,
    ("ldexp", "float"): Printer.scale, ("ldexp_normal", "float"): Printer.scale,
    ("keep_nan", "float"): Printer.kept,
    ("shl", "int"): Printer.shift, ("shl", "uint"): Printer.shift,
    ("shr", "int"): Printer.shift, ("shr", "uint"): Printer.shift,
}  # fmt: skip

_NODES: Mapping[Kind, Callable[[Printer, Node], str | None]] = {
    "const": Printer.const, "builtin": Printer.builtin, "alu": Printer.alu,
    "cast": Printer.cast, "bitcast": Printer.bitcast, "select": Printer.select,
    "splat": Printer.splat, "make": Printer.make, "extract": Printer.extract,
    "result": Printer.result, "alloc": Printer.nothing, "load": Printer.load,
    "store": Printer.store, "atomic": Printer.atomic, "prefetch": Printer.prefetch,
    "error": Printer.error, "for": Printer.for_, "while": Printer.while_, "if": Printer.if_,
    "barrier": Printer.nothing, "subgroup_reduce": Printer.itself,
    "subgroup_scan": Printer.scan, "subgroup_shuffle": Printer.itself,
    "subgroup_broadcast": Printer.itself, "subgroup_ballot": Printer.ballot,
}  # fmt: skip
