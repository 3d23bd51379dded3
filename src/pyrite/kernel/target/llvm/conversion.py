"""Casts: each rounds once, whatever steps the processor has for it."""

from __future__ import annotations

from typing import Final

from pyrite.kernel.ir import Node, Type
from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.half import HalfBits
from pyrite.kernel.target.llvm.spelling import (
    constant,
    instruction_from,
    mangled,
    splat,
    type_of,
    vector,
)
from pyrite.types import float32

#: Bits that are lost between 64 bits of integer and 53 of float64.
_LOW: Final = (1 << 11) - 1


class Conversions(Assembly):
    """The part of the printer that casts."""

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
        condition, type = vector("i1", to.width), type_of(to)
        one, zero = constant(1, to), constant(0, to)
        return self.value(f"select {condition} {x}, {type} {one}, {type} {zero}")

    def integer_to(self, x: str, source: Type, to: Type) -> str:
        if to.dtype.is_integer:
            return self.resize(x, source, to)
        if to.dtype.itemsize > 2:
            return self.convert(instruction_from(source), x, type_of(source), type_of(to))
        if source.dtype.itemsize <= 2 or to.dtype.name == "float16":
            # Exact in float32, or beyond what float16 holds.
            single = self.convert(
                instruction_from(source), x, type_of(source), vector("float", to.width)
            )
            return self.narrow(single, to)
        exact = self.sticky(x, source) if source.dtype.itemsize == 8 else x
        double = self.convert(
            instruction_from(source), exact, type_of(source), vector("double", to.width)
        )
        return self.narrow(self.to_odd_single(double, to.width), to)

    def resize(self, x: str, source: Type, to: Type) -> str:
        if source.dtype.bits == to.dtype.bits:
            return x
        if source.dtype.bits > to.dtype.bits:
            return self.convert("trunc", x, type_of(source), type_of(to))
        extend = "sext" if source.dtype.kind == "int" else "zext"
        return self.convert(extend, x, type_of(source), type_of(to))

    def sticky(self, x: str, source: Type) -> str:
        """Keep the first 53 of 64 bits, the last one set if any after it was.

        That is exact in float64, and rounds later as the integer itself would.
        """
        type, width, is_signed = type_of(source), source.width, source.dtype.kind == "int"

        def every(number: int) -> str:
            return splat("i64", width, str(number))

        low = self.value(f"and {type} {x}, {every(_LOW)}")
        has_low = self.value(f"icmp ne {type} {low}, {every(0)}")
        bit = self.value(
            f"select {vector('i1', width)} {has_low}, {type} {every(_LOW + 1)}, {type} {every(0)}"
        )
        high = self.value(f"and {type} {x}, {every(~_LOW)}")
        rounded = self.value(f"or {type} {high}, {bit}")
        # Below 2 ** 53 in magnitude all bits are kept; as unsigned, larger ones fail the test too.
        shifted = self.value(f"add {type} {x}, {every(1 << 53)}") if is_signed else x
        head = self.value(f"lshr {type} {shifted}, {every(53 + is_signed)}")
        is_small = self.value(f"icmp eq {type} {head}, {every(0)}")
        return self.value(f"select {vector('i1', width)} {is_small}, {type} {x}, {type} {rounded}")

    def to_odd_single(self, x: str, width: int) -> str:
        """float64 to float32, to odd where it is inexact: rounding once more is rounding once.

        Source: Boldo & Melquiond 2008, doi:10.1109/TC.2007.70819.
        """
        single, double, bits = (vector(e, width) for e in ("float", "double", "i32"))
        nearest = self.convert("fptrunc", x, double, single)
        back = self.convert("fpext", nearest, single, double)
        inexact = self.value(f"fcmp one {double} {back}, {x}")
        magnitudes = [
            self.call(double, f"llvm.fabs.{mangled('double', width)}", (double, v))
            for v in (back, x)
        ]
        is_above = self.value(f"fcmp ogt {double} {magnitudes[0]}, {magnitudes[1]}")
        down, odd = (
            self.convert("zext", c, vector("i1", width), bits) for c in (is_above, inexact)
        )
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
            whole = self.convert(instruction, x, type_of(source), type_of(to))
            return self.value(f"freeze {type_of(to)} {whole}")
        if to.dtype.itemsize == 2:
            single = self.to_odd_single(x, to.width) if source.dtype.itemsize == 8 else x
            return self.narrow(single, to)
        instruction = "fpext" if source.dtype.itemsize < to.dtype.itemsize else "fptrunc"
        return self.convert(instruction, x, type_of(source), type_of(to))

    def widen(self, x: str, source: Type) -> str:
        """Convert float16 or bfloat16 to float32."""
        bits, single = vector("i16", source.width), vector("float", source.width)
        if source.dtype.name == "bfloat16":
            return HalfBits(self, source.width).bfloat16_to_single(x)
        if not self.target.has_float16:
            return HalfBits(self, source.width).float16_to_single(x)
        half = vector("half", source.width)
        return self.convert("fpext", self.convert("bitcast", x, bits, half), half, single)

    def narrow(self, x: str, to: Type) -> str:
        """Convert float32 to float16 or bfloat16, to nearest even."""
        bits, single = vector("i16", to.width), vector("float", to.width)
        if to.dtype.name == "bfloat16":
            return HalfBits(self, to.width).single_to_bfloat16(x)
        if not self.target.has_float16:
            return HalfBits(self, to.width).single_to_float16(x)
        half = vector("half", to.width)
        return self.convert("bitcast", self.convert("fptrunc", x, single, half), half, bits)
