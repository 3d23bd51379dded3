"""How WGSL spells types, opcodes and what it lacks.

An opcode stands once in `BINARY`, `CALLS` or `SPELLED`; a test says which is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol

from pyrite.kernel.ir import Type, vector
from pyrite.types import DType, float64, int32, uint32, uint64


class Printer(Protocol):
    """What spelling asks of the printer: names of types, and functions in the module's head."""

    features: frozenset[str]

    def type(self, type: Type) -> str: ...
    def scalar(self, dtype: DType) -> str: ...
    def function(self, name: str) -> str: ...


#: WGSL's name and suffix of literals, and the feature that it needs.
TYPES: dict[str, tuple[str, str, str | None]] = {
    "bool": ("bool", "", None),
    "int32": ("i32", "i", None),
    "uint32": ("u32", "u", None),
    "float32": ("f32", "f", None),
    "float16": ("f16", "h", "shader-f16"),
    "float64": ("f64", "lf", "shader-f64"),
    "int64": ("i64", "li", "shader-int64"),
    "uint64": ("u64", "lu", "shader-int64"),
}

INSTEAD = {"float64": "float32", "int64": "int32", "uint64": "uint32"}

#: Opcodes that are an operator between their operands.
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
}  # fmt: skip

#: Opcodes that are a function of WGSL.
CALLS = {
    "abs": "abs", "fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil",
    "exp2": "exp2",
    "popcount": "countOneBits", "clz": "countLeadingZeros",
}  # fmt: skip

ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exchange": "atomicExchange",
}  # fmt: skip

SUBGROUP = {
    "add": "subgroupAdd", "mul": "subgroupMul", "min": "subgroupMin", "max": "subgroupMax",
    "and": "subgroupAnd", "or": "subgroupOr", "xor": "subgroupXor",
}  # fmt: skip
SHUFFLES = {
    "index": "subgroupShuffle", "xor": "subgroupShuffleXor", "up": "subgroupShuffleUp",
    "down": "subgroupShuffleDown",
}  # fmt: skip

#: The parameters of the entry point behind each builtin.
BUILTINS = {
    "workgroup_id": ("workgroup_id", "workgroup", "vec3<u32>"),
    "num_workgroups": ("num_workgroups", "workgroups", "vec3<u32>"),
    "local_id": ("local_invocation_id", "local", "vec3<u32>"),
    "local_index": ("local_invocation_index", "invocation", "u32"),
    "subgroup_lane": ("subgroup_invocation_id", "lane", "u32"),
    "subgroup_size": ("subgroup_size", "lanes", "u32"),
}

#: What a literal cannot say, and what WGSL lacks.  The texts are WGSL.
FUNCTIONS = {
    # Mesa's llvmpipe cuts off where it is to round numbers of 64 bits.
    "rint_f64": """\
fn rint_f64(x: f64) -> f64 {
  let below = floor(x);
  let rest = x - below;
  let is_odd = !(below == 2.0lf * floor(below * 0.5lf));
  let near = select(below, below + 1.0lf, rest > 0.5lf || (rest == 0.5lf && is_odd));
  return select(near, -abs(near), x < 0.0lf);
}""",
    # llvmpipe's own makes 0.0 of -0.0 and of -0.5 on processors without AVX-512.
    "trunc_f64": """\
fn trunc_f64(x: f64) -> f64 { return select(floor(x), ceil(x), x < 0.0lf); }""",
    "bits_f32": "fn bits_f32(bits: u32) -> f32 { return bitcast<f32>(bits); }",
    "mulhi_u32": """\
fn mulhi_u32(x: u32, y: u32) -> u32 {
  let low = (x & 0xffffu) * (y & 0xffffu);
  let one = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
  let two = (x & 0xffffu) * (y >> 16u) + (one & 0xffffu);
  return (x >> 16u) * (y >> 16u) + (one >> 16u) + (two >> 16u);
}""",
    "mulhi_u64": """\
fn mulhi_u64(x: u64, y: u64) -> u64 {
  let mask = 0xfffffffflu;
  let low = (x & mask) * (y & mask);
  let one = (x >> 32u) * (y & mask) + (low >> 32u);
  let two = (x & mask) * (y >> 32u) + (one & mask);
  return (x >> 32u) * (y >> 32u) + (one >> 32u) + (two >> 32u);
}""",
    "mulhi_i32": """\
fn mulhi_i32(x: i32, y: i32) -> i32 {
  let high = i32(mulhi_u32(u32(x), u32(y)));
  return high - select(0i, y, x < 0i) - select(0i, x, y < 0i);
}""",
    "mulhi_i64": """\
fn mulhi_i64(x: i64, y: i64) -> i64 {
  let high = i64(mulhi_u64(u64(x), u64(y)));
  return high - select(0li, y, x < 0li) - select(0li, x, y < 0li);
}""",
}

#: The same where a device has a feature: one instruction in the place of some twelve.
FUNCTIONS_BY_FEATURE = {
    ("mulhi_u32", "shader-int64"): """\
fn mulhi_u32(x: u32, y: u32) -> u32 { return u32((u64(x) * u64(y)) >> 32u); }""",
}


def function_of(name: str, features: Collection[str]) -> str:
    """Return the text of a function, for a device with some features."""
    of_feature = (
        text
        for (of, feature), text in FUNCTIONS_BY_FEATURE.items()
        if of == name and feature in features
    )
    return next(of_feature, FUNCTIONS[name])


COMPONENTS = "xyzw"


def _ordered(sign: str) -> Callable[[Printer, Type, str, str], str]:
    def spell(printer: Printer, type: Type, x: str, y: str) -> str:
        if type.dtype.is_float:
            # In the IR it is y unless x is less.  A driver may take the comparison and the choice
            # for its own minimum, which loses a NaN in y (seen on an NVIDIA H200), so y is asked
            # by its bits; a NaN in x fails the comparison either way.
            return f"select(select({y}, {x}, {x} {sign} {y}), {y}, {_nan_bits(printer, type, y)})"
        return f"{'min' if sign == '<' else 'max'}({x}, {y})"

    return spell


def _nan_bits(printer: Printer, type: Type, x: str) -> str:
    """Whether a float is NaN, by integers: WGSL lets a target assume that there is none."""
    words = vector(uint32, min(type.width, 4))
    if type.dtype.itemsize != 4:
        return f"!({x} == {x})"
    spelled = printer.type(words)
    return f"(bitcast<{spelled}>({x}) & {spelled}(0x7fffffffu)) > {spelled}(0x7f800000u)"


def _fence(printer: Printer, type: Type, x: str) -> str:
    """Return a float whose bits meet a number that is zero, which only a running kernel knows."""
    is_wide = type.dtype is float64
    if is_wide and "shader-int64" not in printer.features:
        # No bits of 64: a product with one lets a driver do less at least.
        return f"{x} * select(1.0lf, 2.0lf, unseen != 0u)"
    words = printer.type(vector(uint64 if is_wide else uint32, min(type.width, 4)))
    zero = f"{words}({'u64(unseen)' if is_wide else 'unseen'})"
    return f"bitcast<{printer.type(type)}>(bitcast<{words}>({x}) ^ {zero})"


#: Values of float16 behind a fence, by their type.  naga has no bitcast of them.
HALVES = {
    "f16": "vec2<f16>(unpack2x16float(pack2x16float(vec2<f32>(f32({0}), 0.0f)) ^ unseen)).x",
    "vec2<f16>": "vec2<f16>(unpack2x16float(pack2x16float(vec2<f32>({0})) ^ unseen))",
    "vec4<f16>": (
        "vec4<f16>(vec4<f32>(unpack2x16float(pack2x16float(vec2<f32>({0}.xy)) ^ unseen), "
        "unpack2x16float(pack2x16float(vec2<f32>({0}.zw)) ^ unseen)))"
    ),
}


def _remainder(printer: Printer, type: Type, x: str, y: str) -> str:
    """Return x - (x / y) * y: Vulkan leaves the remainder of negative integers open (H200)."""
    return f"{x} % {y}" if type.dtype.kind == "uint" else f"{x} - ({x} / {y}) * {y}"


def _by_components(opcode: str) -> Callable[..., str]:
    """Return what calls the function of a dtype for each component."""

    def spell(printer: Printer, type: Type, *operands: str) -> str:
        name = printer.function(f"{opcode}_{printer.scalar(type.dtype)}")
        if type.width == 1:
            return f"{name}({', '.join(operands)})"
        components = COMPONENTS[: min(type.width, 4)]
        calls = [f"{name}({', '.join(f'{x}.{c}' for x in operands)})" for c in components]
        return f"{printer.type(type)}({', '.join(calls)})"

    return spell


def _rint(printer: Printer, type: Type, x: str) -> str:
    """Return the nearest whole number: ``round`` of WGSL is to even."""
    return _rint_f64(printer, type, x) if type.dtype is float64 else f"round({x})"


_rint_f64 = _by_components("rint")


def _ldexp(printer: Printer, type: Type, x: str, n: str) -> str:
    return f"ldexp({x}, {printer.type(type.with_dtype(int32))}({n}))"


def _keep_nan(printer: Printer, type: Type, x: str, y: str) -> str:
    return f"select({y}, {x}, {_nan_bits(printer, type, x)})"


def _trunc(printer: Printer, type: Type, x: str) -> str:
    """Return the whole number towards zero, with the sign of what is cut off to zero."""
    return _trunc_f64(printer, type, x) if type.dtype is float64 else f"trunc({x})"


_trunc_f64 = _by_components("trunc")


#: A number of 64 bits, or a vector of one.
_LONG_LITERAL = re.compile(r"(?:vec\d<\w+>\()?(\d+)l[iu]\)?")


def _shift(sign: str) -> Callable[[Printer, Type, str, str], str]:
    def spell(printer: Printer, type: Type, x: str, y: str) -> str:
        amount = "u32" if type.width == 1 else f"vec{min(type.width, 4)}<u32>"
        # naga converts no 64-bit literal.
        literal = _LONG_LITERAL.fullmatch(y)
        return f"{x} {sign} {amount}({f'{literal[1]}u' if literal else y})"

    return spell


#: Opcodes that take more than a name.
SPELLED: dict[str, Callable[..., str]] = {
    "neg": lambda printer, type, x: (
        f"{printer.literal(0, type.dtype)} - {x}" if type.dtype.kind == "uint" else f"-({x})"
    ),
    "not": lambda printer, type, x: f"{'!' if type.dtype.is_bool else '~'}({x})",
    # In naga, x != y is false of a NaN.
    "ne": lambda printer, type, x, y: f"!({x} == {y})" if type.dtype.is_float else f"{x} != {y}",
    "xor": lambda printer, type, x, y: f"{x} {'!=' if type.dtype.is_bool else '^'} {y}",
    "min": _ordered("<"),
    "max": _ordered(">"),
    "rem": _remainder,
    "fence": _fence,
    "trunc": _trunc,
    "mulhi": _by_components("mulhi"),
    "rint": _rint,
    "ldexp": _ldexp,
    "ldexp_normal": _ldexp,
    "keep_nan": _keep_nan,
    "shl": _shift("<<"),
    "shr": _shift(">>"),
}
