"""A kernel as LLVM IR with explicit vectors.

The vectors are the kernel's own, so the text is compiled without LLVM's optimiser (its vectorisers
take two thirds of a compile and find nothing): what the passes made is what runs.  Nothing here
needs LLVM; `pyrite.runtime.cpu` compiles the text.

A kernel becomes one function, ``void kernel(ptr slots, i64 begin, i64 end)``, that runs the
workgroups begin to end - 1 of the grid, counted with axis 0 fastest.  ``slots`` are 8 bytes each:
the three sizes of the grid, then the parameters in order, a buffer as its address and an argument
as its bits in the low bytes.  A workgroup has one invocation here: the pass `split_barriers` makes
loops of the others; a subgroup is that one invocation.

Values: float16 and bfloat16 are kept as i16, so that they move bit for bit; bool is i1 in registers
and i8 in memory.  Memory is accessed with the alignment of one element whatever ``is_aligned``
says: a misaligned vector costs nothing on these processors if it stays in a cache line.

Spelling: an opcode stands once in one of the tables `BINARY`, `COMPARE`, `CALL` and `SPELLED`, for
each kind of dtype that it accepts; a test says which is missing.  Float arithmetic carries no
fast-math flag and no integer one wraps "never".  Where the IR says *unspecified* LLVM says
*poison*, which spreads; ``freeze`` makes it a value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.errors import KernelError
from pyrite.kernel.ir import Kernel, Kind, Node, Region, Type, dtype_of, scalar
from pyrite.types import DType, Number, float32, uint32

#: The name of the function.  Equal kernels have equal text, whatever they are called.
SYMBOL: Final = "kernel"
#: Slots before the parameters: the sizes of the grid.
GRID_SLOTS: Final = 3


@dataclass(frozen=True, slots=True)
class LLVMTarget:
    """A processor as LLVM names it, and what of it the printer needs to know."""

    triple: str
    cpu: str = ""
    #: ``"+avx2,+fma"``: what the processor has beyond ``cpu``, or lacks.
    features: str = ""
    #: Bytes of a vector register.
    vector_bytes: int = 16
    #: Whether fma is an instruction; else it is a product and a sum, each rounded.
    has_fma: bool = False
    #: Whether float16 is converted by an instruction; else by integer arithmetic.
    has_float16: bool = False
    #: The address space of each memory that is not in space 0: buffer, shared, private.
    spaces: tuple[tuple[str, int], ...] = ()

    def lanes(self, dtype: DType) -> int:
        """How many elements fill a vector register, as a width of the IR.

        >>> LLVMTarget("x86_64-unknown-linux-gnu", vector_bytes=32).lanes(float32)
        8
        """
        return min(self.vector_bytes // dtype.itemsize, 16)

    def pointer(self, space: str) -> str:
        """The type of a pointer into a memory."""
        number = dict(self.spaces).get(space, 0)
        return f"ptr addrspace({number})" if number else "ptr"


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
    return _Printer(kernel, target, frozenset(streams)).module()


# ---- types and constants ----

_ELEMENTS = {
    "bool": "i1", "float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip
_MANGLED = {"float": "f32", "double": "f64", "half": "f16"}


def _element(dtype: DType) -> str:
    return _ELEMENTS.get(dtype.name) or f"i{dtype.bits}"


def _of(element: str, width: int) -> str:
    return element if width == 1 else f"<{width} x {element}>"


def _type(type: Type) -> str:
    return _of(_element(type.dtype), type.width)


def _in_memory(dtype: DType) -> str:
    return "i8" if dtype.is_bool else _element(dtype)


def _mangled(element: str, width: int) -> str:
    name = _MANGLED.get(element, element)
    return name if width == 1 else f"v{width}{name}"


def _number(value: Number, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.itemsize == 2:
        return str(int.from_bytes(dtype.numpy.type(value).tobytes(), "little"))
    bits = struct.pack(">d", math.nan if value != value else value)
    return f"0x{bits.hex().upper()}"


def _constant(attr: Number | tuple[Number, ...], type: Type) -> str:
    element = _element(type.dtype)
    if isinstance(attr, tuple):
        return "<" + ", ".join(f"{element} {_number(n, type.dtype)}" for n in attr) + ">"
    return _splat(element, type.width, _number(attr, type.dtype))


def _splat(element: str, width: int, number: str) -> str:
    return number if width == 1 else f"splat ({element} {number})"


# ---- opcodes, by name and the kind of their operands ----

BINARY: Mapping[tuple[str, str], str] = {
    ("add", "int"): "add", ("add", "uint"): "add", ("add", "float"): "fadd",
    ("sub", "int"): "sub", ("sub", "uint"): "sub", ("sub", "float"): "fsub",
    ("mul", "int"): "mul", ("mul", "uint"): "mul", ("mul", "float"): "fmul",
    ("div", "int"): "sdiv", ("div", "uint"): "udiv", ("div", "float"): "fdiv",
    ("rem", "int"): "srem", ("rem", "uint"): "urem",
    ("and", "int"): "and", ("and", "uint"): "and", ("and", "bool"): "and",
    ("or", "int"): "or", ("or", "uint"): "or", ("or", "bool"): "or",
    ("xor", "int"): "xor", ("xor", "uint"): "xor", ("xor", "bool"): "xor",
}  # fmt: skip

COMPARE: Mapping[tuple[str, str], str] = {
    ("lt", "int"): "icmp slt", ("lt", "uint"): "icmp ult", ("lt", "float"): "fcmp olt",
    ("le", "int"): "icmp sle", ("le", "uint"): "icmp ule", ("le", "float"): "fcmp ole",
    ("gt", "int"): "icmp sgt", ("gt", "uint"): "icmp ugt", ("gt", "float"): "fcmp ogt",
    ("ge", "int"): "icmp sge", ("ge", "uint"): "icmp uge", ("ge", "float"): "fcmp oge",
    ("eq", "int"): "icmp eq", ("eq", "uint"): "icmp eq", ("eq", "float"): "fcmp oeq",
    ("eq", "bool"): "icmp eq",
    ("ne", "int"): "icmp ne", ("ne", "uint"): "icmp ne", ("ne", "float"): "fcmp une",
    ("ne", "bool"): "icmp ne",
}  # fmt: skip

#: The last operand of abs and ctlz: the least integer, or 0, is no poison.
_NO_POISON = ("i1", "false")

#: Intrinsics of LLVM, and what they take after the operands.
CALL: Mapping[tuple[str, str], tuple[str, *tuple[tuple[str, str], ...]]] = {
    ("abs", "int"): ("abs", _NO_POISON), ("abs", "float"): ("fabs",),
    ("min", "int"): ("smin",), ("min", "uint"): ("umin",),
    ("max", "int"): ("smax",), ("max", "uint"): ("umax",),
    ("sqrt", "float"): ("sqrt",), ("floor", "float"): ("floor",),
    ("ceil", "float"): ("ceil",), ("trunc", "float"): ("trunc",),
    ("rint", "float"): ("rint",),
    ("popcount", "int"): ("ctpop",), ("popcount", "uint"): ("ctpop",),
    ("clz", "int"): ("ctlz", _NO_POISON), ("clz", "uint"): ("ctlz", _NO_POISON),
}  # fmt: skip

_ATOMIC = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg", "store": "xchg",
}  # fmt: skip


class _Printer:
    """Walks a kernel once; a method for each kind of node and each opcode of its own."""

    def __init__(self, kernel: Kernel, target: LLVMTarget, streams: frozenset[int]) -> None:
        self.kernel = kernel
        self.target = target
        self.streams = streams
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.results: dict[Node, Sequence[str]] = {}
        self.declarations: dict[str, str] = {}
        #: Which of the memories that may be touched for nothing are in use.
        self.spares: set[str] = set()
        self.count = 0
        self.block = "entry"

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
        return (f"@zeros = private unnamed_addr constant [{_SPARE}] zeroinitializer, align 64",)

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
        self.line("br i1 %any, label %group, label %done")
        self.label("group")
        self.line("%g = phi i64 [ %begin, %entry ], [ %g.next, %group.end ]")
        self.builtins(sizes)
        self.region(self.kernel.body)
        self.line("br label %group.end")
        self.label("group.end")
        self.line("%g.next = add i64 %g, 1")
        self.line("%more = icmp ult i64 %g.next, %end")
        self.line("br i1 %more, label %group, label %done")
        self.label("done")
        self.line("ret void")
        if "%sink" in self.spares:
            self.lines[sink] = f"  %sink = alloca [{_SPARE}], align 64"

    def slot(self, number: int, type: str) -> str:
        at = self.value(f"getelementptr i64, ptr %slots, i64 {number}")
        return self.value(f"load {type}, ptr {at}, align 8")

    def parameter_slot(self, node: Node) -> str:
        number = GRID_SLOTS + node.attr[0]
        if node.kind == "buffer":
            return self.slot(number, self.target.pointer("buffer"))
        dtype = dtype_of(node)
        return self.from_memory(self.slot(number, _in_memory(dtype)), scalar(dtype))

    def builtins(self, sizes: Sequence[str]) -> None:
        """The workgroup's place in the grid, and the grid's sizes, in the index dtype."""
        place, rest = [], "%g"
        for size in sizes[:-1]:
            place.append(self.value(f"urem i64 {rest}, {size}"))
            rest = self.value(f"udiv i64 {rest}, {size}")
        place.append(rest)
        self.place = [self.to_index(x) for x in place]
        self.sizes = [self.to_index(x) for x in sizes]

    def to_index(self, x: str) -> str:
        type = _element(self.kernel.index)
        return x if type == "i64" else self.value(f"trunc i64 {x} to {type}")

    # ---- lines ----

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def value(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def reserve(self) -> int:
        """Keep a line for a phi, of which what comes in is known only later."""
        self.lines.append("")
        return len(self.lines) - 1

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic on pairs of a type and a value."""
        if name not in self.declarations:
            types = ", ".join(type for type, _ in arguments)
            self.declarations[name] = f"declare {result} @{name}({types})"
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        text = f"call {result} @{name}({given})"
        if result == "void":
            self.line(text)
            return ""
        return self.value(text)

    def typed(self, node: Node) -> str:
        return f"{_type(node.value_type)} {self.names[node]}"

    # ---- nodes ----

    def region(self, region: Region) -> None:
        for node in region.body:
            name = _NODES[node.kind](self, node)
            if name is not None:
                self.names[node] = name

    def const(self, node: Node) -> str:
        return _constant(node.attr, node.value_type)

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
        type = _type(node.inputs[0].value_type)
        operands = [self.names[i] for i in node.inputs]
        if (spelled := BINARY.get(key) or COMPARE.get(key)) is not None:
            return self.value(f"{spelled} {type} {operands[0]}, {operands[1]}")
        if key in CALL:
            return self.intrinsic(node, *CALL[key])
        return SPELLED[key](self, node)

    def intrinsic(self, node: Node, name: str, *more: tuple[str, str]) -> str:
        of = node.value_type
        full = f"llvm.{name}.{_mangled(_element(of.dtype), of.width)}"
        operands = [(_type(of), self.names[i]) for i in node.inputs]
        return self.call(_type(of), full, *operands, *more)

    def select(self, node: Node) -> str:
        condition, x, y = node.inputs
        return self.value(f"select {self.typed(condition)}, {self.typed(x)}, {self.typed(y)}")

    def bitcast(self, node: Node) -> str:
        x = node.inputs[0]
        if _type(x.value_type) == _type(node.value_type):
            return self.names[x]
        return self.value(f"bitcast {self.typed(x)} to {_type(node.value_type)}")

    def splat(self, node: Node) -> str:
        return self.splat_value(self.names[node.inputs[0]], node.value_type)

    def splat_value(self, x: str, type: Type) -> str:
        spelled, element = _type(type), _element(type.dtype)
        if not x.startswith("%"):
            return _splat(element, type.width, x)
        first = self.value(f"insertelement {spelled} poison, {element} {x}, i64 0")
        lanes = f"<{type.width} x i32> zeroinitializer"
        return self.value(f"shufflevector {spelled} {first}, {spelled} poison, {lanes}")

    def make(self, node: Node) -> str:
        spelled, name = _type(node.value_type), "poison"
        for i, x in enumerate(node.inputs):
            name = self.value(f"insertelement {spelled} {name}, {self.typed(x)}, i64 {i}")
        return name

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
        bools = _of("i1", node.value_type.width)
        return self.value(f"select {bools} {first}, {self.typed(x)}, {self.typed(y)}")

    def negate(self, node: Node) -> str:
        x = node.inputs[0]
        if dtype_of(node).is_float:
            return self.value(f"fneg {self.typed(x)}")
        zero = _constant(0, node.value_type)
        return self.value(f"sub {_type(node.value_type)} {zero}, {self.names[x]}")

    def invert(self, node: Node) -> str:
        dtype = dtype_of(node)
        ones = _splat(_element(dtype), node.value_type.width, "true" if dtype.is_bool else "-1")
        return self.value(f"xor {self.typed(node.inputs[0])}, {ones}")

    def fma(self, node: Node) -> str:
        if self.target.has_fma:
            return self.intrinsic(node, "fma")
        x, y, z = node.inputs
        product = self.value(f"fmul {self.typed(x)}, {self.names[y]}")
        return self.value(f"fadd {_type(node.value_type)} {product}, {self.names[z]}")

    def shift(self, node: Node) -> str:
        is_left, is_signed = node.attr == "shl", dtype_of(node).kind == "int"
        name = "shl" if is_left else "ashr" if is_signed else "lshr"
        x, n = node.inputs
        shifted = self.value(f"{name} {self.typed(x)}, {self.names[n]}")
        return self.value(f"freeze {_type(node.value_type)} {shifted}")

    def upper_half(self, node: Node) -> str:
        """The product in twice as many bits, shifted."""
        type = node.value_type
        extend = "sext" if type.dtype.kind == "int" else "zext"
        wide = _of(f"i{2 * type.dtype.bits}", type.width)
        x, y = (self.value(f"{extend} {self.typed(i)} to {wide}") for i in node.inputs)
        product = self.value(f"mul {wide} {x}, {y}")
        by = _splat(f"i{2 * type.dtype.bits}", type.width, str(type.dtype.bits))
        upper = self.value(f"lshr {wide} {product}, {by}")
        return self.value(f"trunc {wide} {upper} to {_type(type)}")

    # ---- casts ----

    def cast(self, node: Node) -> str:
        x, to = node.inputs[0], node.value_type
        source = x.value_type
        if source.dtype is to.dtype:
            return self.names[x]
        if source.dtype.is_bool:
            return self.bool_to(self.names[x], to)
        if source.dtype.is_integer:
            return self.integer_to(self.names[x], source, to)
        return self.float_to(self.names[x], source, to)

    def bool_to(self, x: str, to: Type) -> str:
        condition, type = _of("i1", to.width), _type(to)
        one, zero = _constant(1, to), _constant(0, to)
        return self.value(f"select {condition} {x}, {type} {one}, {type} {zero}")

    def convert(self, instruction: str, x: str, source: str, to: str) -> str:
        return self.value(f"{instruction} {source} {x} to {to}")

    def integer_to(self, x: str, source: Type, to: Type) -> str:
        if to.dtype.is_integer:
            return self.resize(x, source, to)
        if to.dtype.itemsize > 2:
            return self.convert(_from_integer(source), x, _type(source), _type(to))
        if source.dtype.itemsize <= 2 or to.dtype.name == "float16":
            # Exact in float32, or beyond what float16 holds.
            single = self.convert(_from_integer(source), x, _type(source), _of("float", to.width))
            return self.narrow(single, to)
        exact = self.sticky(x, source) if source.dtype.itemsize == 8 else x
        double = self.convert(_from_integer(source), exact, _type(source), _of("double", to.width))
        return self.narrow(self.to_odd_single(double, to.width), to)

    def resize(self, x: str, source: Type, to: Type) -> str:
        if source.dtype.bits == to.dtype.bits:
            return x
        if source.dtype.bits > to.dtype.bits:
            return self.convert("trunc", x, _type(source), _type(to))
        extend = "sext" if source.dtype.kind == "int" else "zext"
        return self.convert(extend, x, _type(source), _type(to))

    def sticky(self, x: str, source: Type) -> str:
        """Keep the first 53 of 64 bits, the last one set if any after it was.

        That is exact in float64, and rounds later as the integer itself would.
        """
        type, width, is_signed = _type(source), source.width, source.dtype.kind == "int"

        def splat(number: int) -> str:
            return _splat("i64", width, str(number))

        low = self.value(f"and {type} {x}, {splat(_LOW)}")
        has_low = self.value(f"icmp ne {type} {low}, {splat(0)}")
        bit = self.value(
            f"select {_of('i1', width)} {has_low}, {type} {splat(_LOW + 1)}, {type} {splat(0)}"
        )
        high = self.value(f"and {type} {x}, {splat(~_LOW)}")
        rounded = self.value(f"or {type} {high}, {bit}")
        # Below 2 ** 53 in magnitude all bits are kept; as unsigned, larger ones fail the test too.
        shifted = self.value(f"add {type} {x}, {splat(1 << 53)}") if is_signed else x
        head = self.value(f"lshr {type} {shifted}, {splat(53 + is_signed)}")
        is_small = self.value(f"icmp eq {type} {head}, {splat(0)}")
        return self.value(f"select {_of('i1', width)} {is_small}, {type} {x}, {type} {rounded}")

    def to_odd_single(self, x: str, width: int) -> str:
        """float64 to float32, to odd where it is inexact: rounding once more is rounding once.

        Source: Boldo & Melquiond 2008, doi:10.1109/TC.2007.70819.
        """
        single, double, bits = _of("float", width), _of("double", width), _of("i32", width)
        nearest = self.convert("fptrunc", x, double, single)
        back = self.convert("fpext", nearest, single, double)
        inexact = self.value(f"fcmp one {double} {back}, {x}")
        magnitudes = [
            self.call(double, f"llvm.fabs.{_mangled('double', width)}", (double, v))
            for v in (back, x)
        ]
        is_above = self.value(f"fcmp ogt {double} {magnitudes[0]}, {magnitudes[1]}")
        down, odd = (self.convert("zext", c, _of("i1", width), bits) for c in (is_above, inexact))
        pattern = self.convert("bitcast", nearest, single, bits)
        truncated = self.value(f"sub {bits} {pattern}, {down}")
        return self.convert("bitcast", self.value(f"or {bits} {truncated}, {odd}"), bits, single)

    def float_to(self, x: str, source: Type, to: Type) -> str:
        if source.dtype.itemsize == 2:
            single = self.widen(x, source)
            if to.dtype is float32:
                return single
            return self.float_to(single, to.with_dtype(float32), to)
        if to.dtype.is_integer:
            instruction = "fptosi" if to.dtype.kind == "int" else "fptoui"
            whole = self.convert(instruction, x, _type(source), _type(to))
            return self.value(f"freeze {_type(to)} {whole}")
        if to.dtype.itemsize == 2:
            single = self.to_odd_single(x, to.width) if source.dtype.itemsize == 8 else x
            return self.narrow(single, to)
        instruction = "fpext" if source.dtype.itemsize < to.dtype.itemsize else "fptrunc"
        return self.convert(instruction, x, _type(source), _type(to))

    def widen(self, x: str, source: Type) -> str:
        """float16 or bfloat16 to float32."""
        bits, single = _of("i16", source.width), _of("float", source.width)
        if source.dtype.name == "bfloat16":
            return _Bits(self, source.width).bfloat16_to_single(x)
        if not self.target.has_float16:
            return _Bits(self, source.width).float16_to_single(x)
        half = _of("half", source.width)
        return self.convert("fpext", self.convert("bitcast", x, bits, half), half, single)

    def narrow(self, x: str, to: Type) -> str:
        """float32 to float16 or bfloat16, to nearest even."""
        bits, single = _of("i16", to.width), _of("float", to.width)
        if to.dtype.name == "bfloat16":
            return _Bits(self, to.width).single_to_bfloat16(x)
        if not self.target.has_float16:
            return _Bits(self, to.width).single_to_float16(x)
        half = _of("half", to.width)
        return self.convert("bitcast", self.convert("fptrunc", x, single, half), half, bits)

    # ---- memory ----

    def alloc(self, node: Node) -> None:
        space, size, _ = node.attr
        number = dict(self.target.spaces).get(space, 0)
        suffix = f", addrspace({number})" if number else ""
        array = f"[{size} x {_in_memory(dtype_of(node))}]"
        self.names[node] = self.value(f"alloca {array}, align 64{suffix}")

    def memory_pointer(self, memory: Node) -> str:
        space = "buffer" if memory.kind == "buffer" else memory.attr[0]
        return self.target.pointer(space)

    def address(self, node: Node) -> tuple[str, str]:
        """The address of an access and its type: one pointer, or a vector of them."""
        memory, index = node.inputs[:2]
        type, name = _type(index.value_type), self.names[index]
        if self.kernel.index is uint32:
            # LLVM would extend the sign.
            wide = _of("i64", index.value_type.width)
            type, name = wide, self.convert("zext", name, type, wide)
        pointer = self.memory_pointer(memory)
        element = _in_memory(dtype_of(memory))
        at = self.value(f"getelementptr {element}, {pointer} {self.names[memory]}, {type} {name}")
        return at, _of(pointer, index.value_type.width)

    def to_memory(self, x: str, type: Type) -> str:
        if not type.dtype.is_bool:
            return x
        return self.convert("zext", x, _type(type), _of("i8", type.width))

    def from_memory(self, x: str, type: Type) -> str:
        if not type.dtype.is_bool:
            return x
        return self.value(f"icmp ne {_of('i8', type.width)} {x}, {_splat('i8', type.width, '0')}")

    def load(self, node: Node) -> str:
        _memory, index = node.inputs[:2]
        mask, other = node.inputs[2:] or (None, None)
        at, pointer = self.address(node)
        of = node.value_type
        type = _of(_in_memory(of.dtype), of.width)
        if index.value_type.width == 1 and (mask is None or mask.value_type.width == 1):
            return self.load_together(node, at, type)
        names = (_mangled(_in_memory(of.dtype), of.width), _mangled_pointer(pointer))
        mask_name = "splat (i1 true)" if mask is None else self.mask(mask, of.width)
        default = "zeroinitializer" if other is None else self.to_memory(self.names[other], of)
        kind = "load" if index.value_type.width == 1 else "gather"
        loaded = self.call(
            type,
            f"llvm.masked.{kind}.{names[0]}.{names[1]}",
            (pointer, at),
            ("i32", str(of.dtype.itemsize)),
            (_of("i1", of.width), mask_name),
            (type, default),
        )
        return self.from_memory(loaded, of)

    def load_together(self, node: Node, at: str, type: str) -> str:
        """A whole vector, under no mask or one for all: where it is false, zeros are read."""
        of, pointer = node.value_type, self.memory_pointer(node.inputs[0])
        if len(node.inputs) == 2:
            return self.from_memory(
                self.value(f"load {type}, {pointer} {at}, align {of.dtype.itemsize}"), of
            )
        condition, other = node.inputs[2:]
        spare = self.spare("@zeros", pointer)
        safe = self.value(f"select {self.typed(condition)}, {pointer} {at}, {pointer} {spare}")
        loaded = self.value(f"load {type}, {pointer} {safe}, align {of.dtype.itemsize}")
        value = self.from_memory(loaded, of)
        return self.value(
            f"select {self.typed(condition)}, {_type(of)} {value}, {self.typed(other)}"
        )

    def spare(self, name: str, pointer: str) -> str:
        """Memory that may be touched for nothing, as a pointer of the type."""
        self.spares.add(name)
        return name if pointer == "ptr" else self.convert("addrspacecast", name, "ptr", pointer)

    def mask(self, mask: Node, width: int) -> str:
        if mask.value_type.width == width:
            return self.names[mask]
        return self.splat_value(self.names[mask], mask.value_type.with_width(width))

    def store(self, node: Node) -> None:
        _memory, index, value = node.inputs[:3]
        mask = node.inputs[3] if len(node.inputs) == 4 else None
        of = value.value_type
        at, pointer = self.address(node)
        type = _of(_in_memory(of.dtype), of.width)
        stored = self.to_memory(self.names[value], of)
        if index.value_type.width == 1 and (mask is None or mask.value_type.width == 1):
            if mask is not None:
                spare = self.spare("%sink", pointer)
                at = self.value(f"select {self.typed(mask)}, {pointer} {at}, {pointer} {spare}")
            self.line(f"store {type} {stored}, {pointer} {at}, {self.hints(node, type)}")
            return
        names = (_mangled(_in_memory(of.dtype), of.width), _mangled_pointer(pointer))
        mask_name = "splat (i1 true)" if mask is None else self.mask(mask, of.width)
        kind = "store" if index.value_type.width == 1 else "scatter"
        self.call(
            "void",
            f"llvm.masked.{kind}.{names[0]}.{names[1]}",
            (type, stored),
            (pointer, at),
            ("i32", str(of.dtype.itemsize)),
            (_of("i1", of.width), mask_name),
        )

    def hints(self, node: Node, type: str) -> str:
        """The alignment of a store; past the caches if its buffer is one that streams."""
        memory, of = node.inputs[0], node.inputs[2].value_type
        nbytes = of.dtype.itemsize * of.width
        streams = memory.kind == "buffer" and memory.attr[0] in self.streams
        if streams and node.attr is True and nbytes >= 16 and len(node.inputs) == 3:
            return f"align {min(nbytes, 64)}, !nontemporal !0"
        return f"align {of.dtype.itemsize}"

    def atomic(self, node: Node) -> str:
        name, has_mask = node.attr
        memory = node.inputs[0]
        at, pointer = self.address(node)
        mask = self.names[node.inputs[-1]] if has_mask else None
        if mask is not None:
            # The value read where the mask is false is replaced below.
            spare = self.spare("%sink", pointer)
            at = self.value(f"select i1 {mask}, {pointer} {at}, {pointer} {spare}")
        old = self.exchange(node, name, f"{pointer} {at}", dtype_of(memory))
        if mask is None:
            return old
        return self.value(f"select i1 {mask}, i32 {old}, i32 0")

    def exchange(self, node: Node, name: str, at: str, dtype: DType) -> str:
        if name == "load":
            return self.value(f"load atomic i32, {at} monotonic, align 4")
        if name == "exchange_equal":
            new, expected = (self.typed(i) for i in node.inputs[2:4])
            pair = self.value(f"cmpxchg {at}, {expected}, {new} monotonic monotonic")
            return self.value(f"extractvalue {{ i32, i1 }} {pair}, 0")
        spelled = _ATOMIC.get(name) or (name if dtype.kind == "int" else f"u{name}")
        return self.value(f"atomicrmw {spelled} {at}, {self.typed(node.inputs[2])} monotonic")

    def error(self, node: Node) -> None:
        memory, failed, code = node.inputs
        width = failed.value_type.width
        any_failed = self.names[failed]
        if width > 1:
            name = f"llvm.vector.reduce.or.v{width}i1"
            any_failed = self.call("i1", name, (f"<{width} x i1>", any_failed))
        yes, after = self.labels("failed", "after")
        self.line(f"br i1 {any_failed}, label %{yes}, label %{after}")
        self.label(yes)
        at = f"{self.memory_pointer(memory)} {self.names[memory]}"
        self.value(f"atomicrmw umax {at}, {self.typed(code)} monotonic")
        self.line(f"br label %{after}")
        self.label(after)

    # ---- control ----

    def phi(self, line: int, name: str, type: str, *incoming: tuple[str, str]) -> None:
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        self.lines[line] = f"  {name} = phi {type} {pairs}"

    def for_(self, node: Node) -> None:
        region = node.regions[0]
        step, unroll = node.attr
        carried = [self.names[i] for i in node.inputs[2:]]
        if unroll:
            for counter in range(node.inputs[0].attr, node.inputs[1].attr, step):
                self.bind(region, [str(counter), *carried])
                self.region(region)
                carried = [self.names[y] for y in region.yields]
            self.results[node] = carried
        else:
            self.counted(node, region, step, carried)

    def bind(self, region: Region, values: Sequence[str]) -> None:
        self.names.update(zip(region.parameters, values, strict=True))

    def counted(self, node: Node, region: Region, step: int, initial: Sequence[str]) -> None:
        """Tested at its end, and once before: one jump in each round."""
        start, stop = node.inputs[:2]
        types = [_type(p.value_type) for p in region.parameters]
        less = f"icmp {'ult' if self.kernel.index is uint32 else 'slt'} {types[0]}"
        body, after = self.labels("loop", "after")
        before = self.block
        enters = self.value(f"{less} {self.names[start]}, {self.names[stop]}")
        self.line(f"br i1 {enters}, label %{body}, label %{after}")
        self.label(body)
        inside = [(self.reserve(), self.fresh()) for _ in types]
        self.bind(region, [name for _, name in inside])
        self.region(region)
        counter = self.value(f"add {types[0]} {inside[0][1]}, {step}")
        again = self.value(f"{less} {counter}, {self.names[stop]}")
        self.line(f"br i1 {again}, label %{body}, label %{after}")
        first = [self.names[start], *initial]
        last = [counter, *(self.names[y] for y in region.yields)]
        for (line, name), type, x, y in zip(inside, types, first, last, strict=True):
            self.phi(line, name, type, (x, before), (y, self.block))
        end = self.block
        self.label(after)
        results = []
        for type, x, y in zip(types[1:], initial, last[1:], strict=True):
            results.append(self.fresh())
            self.phi(self.reserve(), results[-1], type, (x, before), (y, end))
        self.results[node] = results

    def while_(self, node: Node) -> None:
        condition, region = node.regions
        types = [_type(i.value_type) for i in node.inputs]
        test, body, after = self.labels("while", "do", "after")
        before = self.block
        self.line(f"br label %{test}")
        self.label(test)
        carried = [(self.reserve(), self.fresh()) for _ in types]
        names = [name for _, name in carried]
        self.bind(condition, names)
        self.region(condition)
        self.line(f"br i1 {self.names[condition.yields[0]]}, label %{body}, label %{after}")
        self.label(body)
        self.bind(region, names)
        self.region(region)
        self.line(f"br label %{test}")
        ends = zip(node.inputs, region.yields, strict=True)
        for (line, name), type, (x, y) in zip(carried, types, ends, strict=True):
            self.phi(line, name, type, (self.names[x], before), (self.names[y], self.block))
        self.label(after)
        self.results[node] = names

    def if_(self, node: Node) -> None:
        yes, no, after = self.labels("then", "else", "after")
        self.line(f"br i1 {self.names[node.inputs[0]]}, label %{yes}, label %{no}")
        incoming = []
        for label, region in zip((yes, no), node.regions, strict=True):
            self.label(label)
            self.region(region)
            incoming.append(([self.names[y] for y in region.yields], self.block))
            self.line(f"br label %{after}")
        self.label(after)
        results = []
        for i, y in enumerate(node.regions[0].yields):
            results.append(self.fresh())
            pairs = [(names[i], block) for names, block in incoming]
            self.phi(self.reserve(), results[-1], _type(y.value_type), *pairs)
        self.results[node] = results

    # ---- a workgroup and a subgroup are one invocation ----

    def nothing(self, node: Node) -> None:
        """A barrier of one; or an alloc, which `entry` has made."""

    def itself(self, node: Node) -> str:
        return self.names[node.inputs[0]]

    def scan(self, node: Node) -> str:
        name, is_inclusive = node.attr
        if is_inclusive:
            return self.itself(node)
        return _constant(_neutral(name, dtype_of(node)), node.value_type)

    def ballot(self, node: Node) -> str:
        bit = self.convert("zext", self.names[node.inputs[0]], "i1", "i32")
        return self.value(f"insertelement <4 x i32> zeroinitializer, i32 {bit}, i64 0")


class _Bits:
    """Conversions of 16-bit floats by integer arithmetic on vectors of 32 bits."""

    def __init__(self, printer: _Printer, width: int) -> None:
        self.printer = printer
        self.width = width
        self.type = _of("i32", width)
        self.bools = _of("i1", width)
        self.single = _of("float", width)
        self.short = _of("i16", width)

    def splat(self, number: int) -> str:
        return _splat("i32", self.width, str(number))

    def op(self, name: str, x: str, y: str | int) -> str:
        second = self.splat(y) if isinstance(y, int) else y
        return self.printer.value(f"{name} {self.type} {x}, {second}")

    def select(self, condition: str, x: str, y: str) -> str:
        return self.printer.value(
            f"select {self.bools} {condition}, {self.type} {x}, {self.type} {y}"
        )

    def wide(self, x: str) -> str:
        return self.printer.convert("zext", x, self.short, self.type)

    def narrow(self, x: str) -> str:
        return self.printer.convert("trunc", x, self.type, self.short)

    def as_single(self, x: str) -> str:
        return self.printer.convert("bitcast", x, self.type, self.single)

    def as_bits(self, x: str) -> str:
        return self.printer.convert("bitcast", x, self.single, self.type)

    def arithmetic(self, name: str, x: str, y: float) -> str:
        number = _splat("float", self.width, _number(y, float32))
        return self.printer.value(f"{name} {self.single} {x}, {number}")

    def bfloat16_to_single(self, x: str) -> str:
        return self.as_single(self.op("shl", self.wide(x), 16))

    def single_to_bfloat16(self, x: str) -> str:
        """Add just under half of the last place kept, and one more if that is odd; NaN stays."""
        bits = self.as_bits(x)
        odd = self.op("and", self.op("lshr", bits, 16), 1)
        nearest = self.op("lshr", self.op("add", self.op("add", bits, 0x7FFF), odd), 16)
        # The upper half of a NaN, made quiet, so that it does not become infinite.
        nan = self.op("or", self.op("lshr", bits, 16), 0x40)
        is_nan = self.printer.value(f"fcmp uno {self.single} {x}, {x}")
        return self.narrow(self.select(is_nan, nan, nearest))

    def float16_to_single(self, x: str) -> str:
        """Shift into place and scale by 2 ** 112, which corrects the exponent, subnormals too."""
        bits = self.wide(x)
        magnitude = self.op("shl", self.op("and", bits, 0x7FFF), 13)
        scaled = self.as_bits(self.arithmetic("fmul", self.as_single(magnitude), 2.0**112))
        special = self.op("or", magnitude, 0x7F800000)
        is_special = self.op("icmp uge", magnitude, 0x7C00 << 13)
        sign = self.op("shl", self.op("and", bits, 0x8000), 16)
        return self.as_single(self.op("or", self.select(is_special, special, scaled), sign))

    def single_to_float16(self, x: str) -> str:
        """Normal numbers by adding half a place, subnormal ones by letting a sum round them."""
        bits = self.as_bits(x)
        sign = self.op("and", self.op("lshr", bits, 16), 0x8000)
        magnitude = self.op("and", bits, 0x7FFFFFFF)
        odd = self.op("and", self.op("lshr", magnitude, 13), 1)
        rebased = self.op("add", magnitude, ((15 - 127) << 23) + 0xFFF)
        normal = self.op("lshr", self.op("add", rebased, odd), 13)
        # 0.5 has the exponent at which float32's last place is float16's least number.
        shifted = self.as_bits(self.arithmetic("fadd", self.as_single(magnitude), 0.5))
        subnormal = self.op("sub", shifted, 0x3F000000)
        is_small = self.op("icmp ult", magnitude, 0x38800000)  # 2 ** -14
        finite = self.select(is_small, subnormal, normal)
        is_large = self.op("icmp uge", magnitude, 0x47800000)  # 2 ** 16
        is_nan = self.op("icmp ugt", magnitude, 0x7F800000)
        # A NaN keeps the upper bits of its payload, and is quiet.
        payload = self.op("and", self.op("lshr", magnitude, 13), 0x3FF)
        nan = self.op("or", payload, 0x7E00)
        special = self.select(is_nan, nan, self.splat(0x7C00))
        return self.narrow(self.op("or", self.select(is_large, special, finite), sign))


#: Bits that are lost between 64 bits of integer and 53 of float64.
_LOW: Final = (1 << 11) - 1
#: The widest access: 16 elements of 8 bytes.
_SPARE: Final = "128 x i8"


def _from_integer(source: Type) -> str:
    return "sitofp" if source.dtype.kind == "int" else "uitofp"


def _mangled_pointer(pointer: str) -> str:
    """The name of the type ``ptr``, ``ptr addrspace(1)``, or ``<8 x ptr>`` in an intrinsic's."""
    width = f"v{pointer[1:].split(' ')[0]}" if pointer.startswith("<") else ""
    space = pointer.split("(")[1].split(")")[0] if "(" in pointer else "0"
    return f"{width}p{space}"


def _neutral(reduction: str, dtype: DType) -> Number:
    """What changes nothing under a reduction."""
    if reduction in ("min", "max"):
        return dtype.highest if reduction == "min" else dtype.lowest
    if reduction == "and":
        return True if dtype.is_bool else dtype.highest if dtype.kind == "uint" else -1
    return 1 if reduction == "mul" else 0


#: Opcodes of more than one instruction.
SPELLED: Mapping[tuple[str, str], Callable[[_Printer, Node], str]] = {
    ("neg", "int"): _Printer.negate, ("neg", "uint"): _Printer.negate,
    ("neg", "float"): _Printer.negate,
    ("abs", "uint"): _Printer.itself,
    ("min", "float"): lambda p, n: p.pick(n, "olt"),
    ("max", "float"): lambda p, n: p.pick(n, "ogt"),
    ("fma", "float"): _Printer.fma,
    ("mulhi", "int"): _Printer.upper_half, ("mulhi", "uint"): _Printer.upper_half,
    ("not", "int"): _Printer.invert, ("not", "uint"): _Printer.invert,
    ("not", "bool"): _Printer.invert,
    ("shl", "int"): _Printer.shift, ("shl", "uint"): _Printer.shift,
    ("shr", "int"): _Printer.shift, ("shr", "uint"): _Printer.shift,
}  # fmt: skip

_NODES: Mapping[Kind, Callable[[_Printer, Node], str | None]] = {
    "const": _Printer.const, "builtin": _Printer.builtin, "alu": _Printer.alu,
    "cast": _Printer.cast, "bitcast": _Printer.bitcast, "select": _Printer.select,
    "splat": _Printer.splat, "make": _Printer.make, "extract": _Printer.extract,
    "result": _Printer.result, "alloc": _Printer.nothing, "load": _Printer.load,
    "store": _Printer.store, "atomic": _Printer.atomic, "error": _Printer.error,
    "for": _Printer.for_, "while": _Printer.while_, "if": _Printer.if_,
    "barrier": _Printer.nothing, "subgroup_reduce": _Printer.itself,
    "subgroup_scan": _Printer.scan, "subgroup_shuffle": _Printer.itself,
    "subgroup_broadcast": _Printer.itself, "subgroup_ballot": _Printer.ballot,
}  # fmt: skip
