"""Loads, stores and atomics, each plain where its mask is one for the whole vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.kernel.ir import Node, Type, dtype_of, scalar
from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.spelling import (
    ATOMIC,
    literal,
    mangled,
    mangled_pointer,
    memory_type,
    splat,
    type_of,
    vector,
)
from pyrite.types import DType, uint32


class Accesses(Assembly):
    """The part of the printer that reads and writes memory."""

    def alloc(self, node: Node) -> None:
        space, size, _ = node.attr
        number = dict(self.target.spaces).get(space, 0)
        suffix = f", addrspace({number})" if number else ""
        array = f"[{size} x {memory_type(dtype_of(node))}]"
        self.names[node] = self.value(f"alloca {array}, align 64{suffix}")

    def memory_pointer(self, memory: Node) -> str:
        space = "buffer" if memory.kind == "buffer" else memory.attr[0]
        return self.target.pointer(space)

    def address(self, node: Node) -> tuple[str, str]:
        """Return the address of an access and its type: one pointer, or a vector of them."""
        memory, index = node.inputs[:2]
        pointer = self.memory_pointer(memory)
        element = memory_type(dtype_of(memory))
        name, offset = self.split(index)
        type = type_of(index.value_type)
        if self.kernel.index is uint32:
            # LLVM would extend the sign.
            wide = vector("i64", index.value_type.width)
            type, name = wide, self.convert("zext", name, type, wide)
        at = self.value(f"getelementptr {element}, {pointer} {self.names[memory]}, {type} {name}")
        if offset:
            at = self.value(f"getelementptr {element}, {pointer} {at}, i64 {offset}")
        return at, vector(pointer, index.value_type.width)

    def split(self, index: Node) -> tuple[str, int]:
        """Return an index as a value and a number >= 0 on top of it, which an instruction may hold.

        An element's index less such a number is in the range of signed indices, whatever wrapped
        around on the way.  In that of unsigned ones it may not be.
        """
        if self.kernel.index is uint32 or index.value_type.width > 1:
            return self.names[index], 0
        terms, offset = _terms(index, depth=3)
        if not terms or not 0 < offset <= self.kernel.index.highest:
            return self.names[index], 0
        name, *others = (self.names[term] for term in terms)
        for other in others:
            name = self.value(f"add {type_of(index.value_type)} {name}, {other}")
        return name, offset

    def to_memory(self, x: str, type: Type) -> str:
        if not type.dtype.is_bool:
            return x
        return self.convert("zext", x, type_of(type), vector("i8", type.width))

    def from_memory(self, x: str, type: Type) -> str:
        if not type.dtype.is_bool:
            return x
        return self.value(f"icmp ne {vector('i8', type.width)} {x}, {splat('i8', type.width, '0')}")

    def load(self, node: Node) -> str:
        _memory, index = node.inputs[:2]
        mask, other = node.inputs[2:] or (None, None)
        at, pointer = self.address(node)
        of = node.value_type
        type = vector(memory_type(of.dtype), of.width)
        if index.value_type.width == 1 and (mask is None or mask.value_type.width == 1):
            return self.load_together(node, at, type)
        names = (mangled(memory_type(of.dtype), of.width), mangled_pointer(pointer))
        mask_name = _ALL if mask is None else self.mask(mask, of.width)
        default = "zeroinitializer" if other is None else self.to_memory(self.names[other], of)
        kind = "load" if index.value_type.width == 1 else "gather"
        whole = ragged = after = ""

        def masked(mask_name: str) -> str:
            return self.call(
                type,
                f"llvm.masked.{kind}.{names[0]}.{names[1]}",
                (pointer, at),
                ("i32", str(of.dtype.itemsize)),
                (vector("i1", of.width), mask_name),
                (type, default),
            )

        # Elements from anywhere are read one by one, each behind a branch: one for all is less.
        is_apart = kind == "gather" and self.target.vector_bytes < _MASKED
        if mask is not None and (is_apart or self.may_be_whole(mask)):
            ragged, after = self.part_whole(mask, of.width)
            before = self.block
            if is_apart:
                whole = masked(_ALL)
            else:
                whole = self.value(f"load {type}, {pointer} {at}, align {of.dtype.itemsize}")
            self.line(f"br label %{after}")
            self.label(ragged)
        loaded = masked(mask_name)
        if whole:
            self.line(f"br label %{after}")
            self.label(after)
            pairs = f"[ {whole}, %{before} ], [ {loaded}, %{ragged} ]"
            loaded = self.value(f"phi {type} {pairs}")
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
            f"select {self.typed(condition)}, {type_of(of)} {value}, {self.typed(other)}"
        )

    def load_apart(self, loads: Sequence[Node]) -> str | None:
        """Return a vector of loads that lie a few elements apart, None where they do not.

        Vectors are read from the first to the last of them, and never beyond: what lies between two
        of them exists, but is nobody's, and is left out.  Only memory that the kernel does not
        write: there it is of no matter when it is read.
        """
        step = _step_between(loads)
        if step is None:
            return None
        ordered = loads if step > 0 else loads[::-1]
        count, step = len(loads), abs(step)
        first, pointer = self.address(ordered[0])
        element = memory_type(dtype_of(loads[0]))
        type, last = vector(element, count), (count - 1) * step
        made, begin = "poison", 0
        for begin in range(0, last + 1, count):
            start = min(begin, last + 1 - count)
            at = self.value(f"getelementptr {element}, {pointer} {first}, i64 {start}")
            read = self.value(f"load {type}, {pointer} {at}, align {dtype_of(loads[0]).itemsize}")
            places = []
            for i in range(count):
                ahead = i * step - begin
                own = count + i * step - start
                places.append(f"i32 {own if 0 <= ahead < count else i}")
            lanes = ", ".join(places)
            made = self.value(
                f"shufflevector {type} {made}, {type} {read}, <{count} x i32> <{lanes}>"
            )
        if ordered is not loads:
            lanes = ", ".join(f"i32 {i}" for i in reversed(range(count)))
            made = self.value(
                f"shufflevector {type} {made}, {type} poison, <{count} x i32> <{lanes}>"
            )
        return self.from_memory(made, loads[0].value_type.with_width(count))

    def prefetch(self, node: Node) -> None:
        """Into the second cache: what is worked on meanwhile may fill the first."""
        at, pointer = self.address(node)
        reads, second, data = ("i32", "0"), ("i32", "2"), ("i32", "1")
        name = f"llvm.prefetch.{mangled_pointer(pointer)}"
        self.call("void", name, (pointer, at), reads, second, data)

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
        type = vector(memory_type(of.dtype), of.width)
        stored = self.to_memory(self.names[value], of)
        if index.value_type.width == 1 and (mask is None or mask.value_type.width == 1):
            if mask is not None:
                spare = self.spare("%sink", pointer)
                at = self.value(f"select {self.typed(mask)}, {pointer} {at}, {pointer} {spare}")
            self.line(f"store {type} {stored}, {pointer} {at}, {self.hints(node, type)}")
            return
        names = (mangled(memory_type(of.dtype), of.width), mangled_pointer(pointer))
        mask_name = "splat (i1 true)" if mask is None else self.mask(mask, of.width)
        kind = "store" if index.value_type.width == 1 else "scatter"
        after = None
        if kind == "store" and mask is not None and self.may_be_whole(mask):
            ragged, after = self.part_whole(mask, of.width)
            self.line(f"store {type} {stored}, {pointer} {at}, {self.hints(node, type)}")
            self.line(f"br label %{after}")
            self.label(ragged)
        self.call(
            "void",
            f"llvm.masked.{kind}.{names[0]}.{names[1]}",
            (type, self.fence(stored, memory_type(of.dtype), of.width)),
            (pointer, at),
            ("i32", str(of.dtype.itemsize)),
            (vector("i1", of.width), mask_name),
        )
        if after is not None:
            self.line(f"br label %{after}")
            self.label(after)

    def may_be_whole(self, mask: Node | None) -> bool:
        """Whether a mask is that of a row's end, where most vectors before it are whole.

        Before AVX-512 a masked access takes up to ten times as long as one without.
        """
        return mask is not None and self.target.vector_bytes < _MASKED and _is_end(mask)

    def part_whole(self, mask: Node, width: int) -> tuple[str, str]:
        """Begin what is done where all of a mask holds; return labels of the rest and the end."""
        bits = self.convert("bitcast", self.mask(mask, width), vector("i1", width), f"i{width}")
        whole, ragged, after = self.labels("whole", "ragged", "after")
        is_whole = self.value(f"icmp eq i{width} {bits}, -1")
        self.line(f"br i1 {is_whole}, label %{whole}, label %{ragged}")
        self.label(whole)
        return ragged, after

    def fence(self, x: str, element: str, width: int) -> str:
        """Return a vector that LLVM takes as it is, whatever made it; no instruction.

        Else a masked store of integers that were just narrowed becomes one that narrows, and that,
        under a mask of one lane, a store of the wide integer: the neighbours are overwritten.
        The only fence of LLVM is one for floats.

        Source: https://github.com/llvm/llvm-project/issues/179489, in LLVM 22 and before.
        """
        if not element.startswith("i"):
            return x
        # At least a whole register: LLVM 22 gives up on 16 bits on Arm.
        count = max(width, 128 // int(element[1:]))
        floats = ("float", count * int(element[1:]) // 32)
        type, opaque = vector(element, count), vector(*floats)
        bits = self.convert("bitcast", self.resized(x, element, width, count), type, opaque)
        kept = self.call(opaque, f"llvm.arithmetic.fence.{mangled(*floats)}", (opaque, bits))
        return self.resized(self.convert("bitcast", kept, opaque, type), element, count, width)

    def resized(self, x: str, element: str, width: int, count: int) -> str:
        """Return the first elements of a vector; behind its last there is anything."""
        if count == width:
            return x
        type = vector(element, width)
        lanes = ", ".join(f"i32 {i}" if i < width else "i32 poison" for i in range(count))
        return self.value(f"shufflevector {type} {x}, {type} poison, <{count} x i32> <{lanes}>")

    def hints(self, node: Node, type: str) -> str:
        """Return the alignment of a store; past the caches if its buffer is one that streams."""
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
        # One thread runs the invocations of a workgroup, so its memory needs no lock.
        exchange = self.exchange if memory.kind == "buffer" else self.exchange_alone
        old = exchange(node, name, f"{pointer} {at}", dtype_of(memory))
        if mask is None:
            return old
        type, zero = type_of(memory.value_type), literal(0, dtype_of(memory))
        return self.value(f"select i1 {mask}, {type} {old}, {type} {zero}")

    def exchange(self, node: Node, name: str, at: str, dtype: DType) -> str:
        bits = f"i{dtype.bits}"
        if name == "load":
            type = type_of(scalar(dtype))
            return self.value(f"load atomic {type}, {at} monotonic, align {dtype.itemsize}")
        if name == "exchange_equal":
            new, expected = (self.typed(i) for i in node.inputs[2:4])
            pair = self.value(f"cmpxchg {at}, {expected}, {new} monotonic monotonic")
            return self.value(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        spelled = ATOMIC.get(name) or (name if dtype.kind == "int" else f"u{name}")
        if name == "add" and dtype.is_float:
            spelled = "fadd"
        return self.value(f"atomicrmw {spelled} {at}, {self.typed(node.inputs[2])} monotonic")

    def exchange_alone(self, node: Node, name: str, at: str, dtype: DType) -> str:
        """Return what was there; what `exchange` does, where no other thread comes."""
        bits, aligned = f"i{dtype.bits}", f"align {dtype.itemsize}"
        old = self.value(f"load {bits}, {at}, {aligned}")
        if name == "load":
            return old
        given = self.names[node.inputs[2]]
        new = given
        if name == "exchange_equal":
            is_equal = self.value(f"icmp eq {bits} {old}, {self.names[node.inputs[3]]}")
            new = self.value(f"select i1 {is_equal}, {bits} {given}, {bits} {old}")
        elif name in ("min", "max"):
            sign = "s" if dtype.kind == "int" else "u"
            order = f"{sign}{'lt' if name == 'min' else 'gt'}"
            is_first = self.value(f"icmp {order} {bits} {old}, {given}")
            new = self.value(f"select i1 {is_first}, {bits} {old}, {bits} {given}")
        elif name not in ("store", "exchange"):
            new = self.value(f"{ATOMIC[name]} {bits} {old}, {given}")
        self.line(f"store {bits} {new}, {at}, {aligned}")
        return old

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


#: The mask of a vector of which every lane is there.
_ALL: Final = "splat (i1 true)"
#: Bytes of the vectors of processors that read and write under a mask as fast as without.
_MASKED: Final = 64


def _is_end(mask: Node) -> bool:
    """Whether a mask says which places come before an end."""
    return mask.kind == "alu" and mask.attr == "lt" and not mask.inputs[0].value_type.dtype.is_float


#: As many elements apart, the vectors between which others lie are read sooner than each alone.
_NEAR: Final = 4


def _step_between(loads: Sequence[Node]) -> int | None:
    """Return how far apart loads of one element lie, None where they lie in no such way."""
    memory = loads[0].inputs[0]
    if memory.kind != "buffer" or memory.attr[2] != "read":
        return None
    if any(len(x.inputs) != 2 or x.inputs[0] is not memory for x in loads):
        return None
    if any(x.value_type.width > 1 for x in loads):
        return None
    (base, begin), *others = (_base(x.inputs[1]) for x in loads)
    step = others[0][1] - begin if others else 0
    expected = [(base, begin + (i + 1) * step) for i in range(len(others))]
    return step if others == expected and 0 < abs(step) <= _NEAR else None


def _base(index: Node) -> tuple[Node | None, int]:
    """Return an index as a node and a number on top of it."""
    offset = 0
    while index.kind == "alu" and index.attr == "add":
        x, y = index.inputs
        if x.kind == "const":
            x, y = y, x
        if y.kind != "const":
            break
        index, offset = x, offset + y.attr
    return (None, offset + index.attr) if index.kind == "const" else (index, offset)


def _terms(index: Node, depth: int) -> tuple[list[Node], int]:
    """Return an index as the sum of nodes, at most two to the power of depth, and a number."""
    if index.kind == "const":
        return [], index.attr
    if index.kind != "alu" or index.attr != "add" or depth == 0:
        return [index], 0
    (xs, x), (ys, y) = (_terms(i, depth - 1) for i in index.inputs)
    return xs + ys, x + y
