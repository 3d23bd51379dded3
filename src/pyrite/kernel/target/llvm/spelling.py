"""How LLVM spells types, constants and opcodes.

An opcode stands once in one of the tables `BINARY`, `COMPARE`, `CALL` and the printer's `SPELLED`,
for each kind of dtype that it accepts; a test says which is missing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from pyrite.kernel.ir import Type
from pyrite.types import DType, Number

# ---- types and constants ----

_ELEMENTS = {
    "bool": "i1", "float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip
_MANGLED = {"float": "f32", "double": "f64", "half": "f16"}


def element_type(dtype: DType) -> str:
    """Return the type of one element in registers."""
    return _ELEMENTS.get(dtype.name) or f"i{dtype.bits}"


def vector(element: str, width: int) -> str:
    """Return the type of so many elements, one of which is no vector."""
    return element if width == 1 else f"<{width} x {element}>"


def type_of(type: Type) -> str:
    """Return the type of a value in registers."""
    return vector(element_type(type.dtype), type.width)


def memory_type(dtype: DType) -> str:
    """Return the type of one element in memory."""
    return "i8" if dtype.is_bool else element_type(dtype)


def mangled(element: str, width: int) -> str:
    """Return the name of a type in that of an intrinsic."""
    name = _MANGLED.get(element, element)
    return name if width == 1 else f"v{width}{name}"


def mangled_pointer(pointer: str) -> str:
    """Return the same of ``ptr``, ``ptr addrspace(1)`` or ``<8 x ptr>``."""
    width = f"v{pointer[1:].split(' ')[0]}" if pointer.startswith("<") else ""
    space = pointer.split("(")[1].split(")")[0] if "(" in pointer else "0"
    return f"{width}p{space}"


def literal(value: Number, dtype: DType) -> str:
    """Return a number as a constant of the dtype."""
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.itemsize == 2:
        return str(int.from_bytes(dtype.numpy.type(value).tobytes(), "little"))
    bits = struct.pack(">d", math.nan if value != value else value)
    return f"0x{bits.hex().upper()}"


def constant(attr: Number | tuple[Number, ...], type: Type) -> str:
    """Return a constant node's value: one number for all elements, or one for each."""
    element = element_type(type.dtype)
    if isinstance(attr, tuple):
        return "<" + ", ".join(f"{element} {literal(n, type.dtype)}" for n in attr) + ">"
    return splat(element, type.width, literal(attr, type.dtype))


def splat(element: str, width: int, number: str) -> str:
    """Return a constant with the same number in all elements."""
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

#: What ``atomicrmw`` does; min and max are told apart by the sign of the dtype.
ATOMIC = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg", "store": "xchg",
}  # fmt: skip


def instruction_from(source: Type) -> str:
    """Return the instruction that makes floats of integers."""
    return "sitofp" if source.dtype.kind == "int" else "uitofp"
