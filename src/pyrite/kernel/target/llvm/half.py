"""Conversions of 16-bit floats by integer arithmetic, for processors that lack their own."""

from __future__ import annotations

from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.spelling import literal, splat, vector
from pyrite.types import float32


class HalfBits:
    """Conversions of 16-bit floats by integer arithmetic on vectors of 32 bits."""

    def __init__(self, printer: Assembly, width: int) -> None:
        self.printer = printer
        self.width = width
        self.type = vector("i32", width)
        self.bools = vector("i1", width)
        self.single = vector("float", width)
        self.short = vector("i16", width)

    def splat(self, number: int) -> str:
        return splat("i32", self.width, str(number))

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
        number = splat("float", self.width, literal(y, float32))
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
