"""Angles of any size as n π/2 + r with |r| <= π/4, by integers (Payne & Hanek 1983, SIGNUM 18).

With x = m 2 ** e the bits of 2/π that stand for multiples of 4 in x 2/π count for nothing, and
those far behind the point for little: three words of them serve, from a place that depends on e.
The product of m and these, cut off above, is the quadrant in two bits, and behind them what is
left, of which as many bits are 0 as x is near a multiple of π/2: 30 at most for float32, 61 for
float64.
"""

from __future__ import annotations

import math
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import TWO_PER_PI, TWO_PER_PI_BITS, Table
from pyrite.kernel.polyfill.floats import Format, format_of, negative, of, with_sign
from pyrite.types import DType, uint32, uint64

#: The biased exponents of the least numbers that are large: 2 ** 16 and 2 ** 26.
LEAST_LARGE: Final = (143, 1049)

#: What the nearest float32 or float64 to π/2 lacks of it.
HALF_PI_LOW: Table = ((-4.371139e-8,), (6.123233995736766e-17,))

#: Words that are read from a place on: three, which begin and end in the midst of four.
_READ: Final = 4


def large_reduction(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return n, of which two bits count, and r; for large finite x, of others anything."""
    format = format_of(x)
    word = uint32 if format.bits.bits == 32 else uint64
    pattern = k.bitcast(x, format.bits)
    place = k.max((pattern >> format.mantissa) - LEAST_LARGE[format.column], 0)
    mantissa = (pattern & ((1 << format.mantissa) - 1)) | (1 << format.mantissa)
    digits = _bits_from(k, k.bitcast(place, word), _words(format, word))
    top, middle, low = _product(k, k.bitcast(mantissa, word), digits)
    n = (top + (1 << (word.bits - 3))) >> (word.bits - 2)
    rest = _joined(top, middle, 2), _joined(middle, low, 2)
    return k.bitcast(n, format.bits), _angle(k, rest, x)


def _words(format: Format, word: DType) -> list[int]:
    """Return the bits of 2/π in words, first those that the least large number needs."""
    # The first bit of that number stands for 2; before the point 2/π has zeros.
    zeros = format.bias + format.mantissa + 2 - LEAST_LARGE[format.column]
    places = 2 * format.bias - LEAST_LARGE[format.column]
    count = (1 << (places // word.bits).bit_length()) - 1 + _READ
    whole = TWO_PER_PI >> (TWO_PER_PI_BITS + zeros - count * word.bits)
    return [whole >> (word.bits * i) & int(word.highest) for i in reversed(range(count))]


def _bits_from(k: KernelBuilder, place: Value, words: list[int]) -> list[Value]:
    """Return three words of the bits from a place on."""
    bits = place.dtype.bits
    number, shift = place >> (bits.bit_length() - 1), place & (bits - 1)
    found = [k.const(w, place.type) for w in words]
    step = (len(words) - _READ + 1) // 2
    while step:
        is_on = (number & step) != 0
        found = [k.select(is_on, found[i + step], found[i]) for i in range(step - 1 + _READ)]
        step //= 2
    # A shift by all bits is none: so by one, and by the others.
    back = (bits - 1) - shift
    return [(found[i] << shift) | ((found[i + 1] >> 1) >> back) for i in range(_READ - 1)]


def _product(k: KernelBuilder, m: Value, digits: list[Value]) -> tuple[Value, Value, Value]:
    """Return the last three words of the product of a word and three."""
    first, second, third = digits
    middle = m * second + k.alu("mulhi", m, third)
    carry = k.select(middle < m * second, k.const(1, m.type), 0)
    return m * first + k.alu("mulhi", m, second) + carry, middle, m * third


def _joined(upper: Value, lower: Value, n: int) -> Value:
    """Return the upper word shifted to the left by n bits, which come from the lower one."""
    return (upper << n) | (lower >> (upper.dtype.bits - n))


def _angle(k: KernelBuilder, rest: tuple[Value, Value], x: Value) -> Value:
    """Return π/2 times a signed fraction of two words, the point before the first."""
    format, bits = format_of(x), rest[0].dtype.bits
    signed = k.bitcast(rest[0], format.bits) >> (bits - 1)
    mask = k.bitcast(signed, rest[0].dtype)
    upper, lower = (part ^ mask for part in rest)
    # As many bits as a float holds, and those behind them.
    held = format.mantissa + 1
    head = k.cast(k.bitcast(upper >> (bits - held), format.bits), x.dtype)
    tail = k.cast(k.bitcast(_joined(upper, lower, held) >> 1, format.bits), x.dtype)
    one, half_pi, (missing,) = 2.0**-held, math.pi / 2, of(x, HALF_PI_LOW)
    small = k.fma(negative(k, head), -missing * one, tail * (half_pi * one * 2.0 ** (1 - bits)))
    angle = k.fma(head, half_pi * one, small)
    return with_sign(k, angle, signed & int(format.bits.lowest))
