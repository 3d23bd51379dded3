"""Products with powers of two by the instruction of AVX-512, of vectors of any width."""

from __future__ import annotations

from typing import Final

from pyrite.kernel.ir import Type
from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.spelling import element_type, vector

#: Bytes of the least and the greatest registers.
_LEAST: Final = 16
_MOST: Final = 64
#: Rounds as everything else does.
_ROUNDING: Final = ("i32", "4")


def scaled(printer: Assembly, type: Type, x: str, n: str) -> str:
    """Return x * 2 ** n, rounded once: register by register, which LLVM does not do by itself."""
    size = type.dtype.itemsize
    lanes = min(max(type.width, _LEAST // size), _MOST // size)
    if type.width <= lanes:
        x, n = (_widened(printer, type, y, lanes) for y in (x, n))
        return _narrowed(printer, type, _register(printer, type.with_width(lanes), x, n))
    parts = [
        _register(printer, type.with_width(lanes), *given)
        for i in range(0, type.width, lanes)
        for given in [[_part(printer, type, y, i, lanes) for y in (x, n)]]
    ]
    element, width = element_type(type.dtype), lanes
    while len(parts) > 1:
        of, places = vector(element, width), range(2 * width)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffled(printer, of, *pair, places) for pair in pairs]
        width *= 2
    return parts[0]


def _register(printer: Assembly, type: Type, x: str, n: str) -> str:
    """Return the products of elements that fill a register."""
    bits = 8 * type.width * type.dtype.itemsize
    kind, spelled = "ps" if type.dtype.itemsize == 4 else "pd", _spelled(type)
    mask = (f"i{max(type.width, 8)}", "-1")
    rounding = [_ROUNDING] if bits == 8 * _MOST else []
    given = [(spelled, x), (spelled, n), (spelled, "zeroinitializer"), mask, *rounding]
    return printer.call(spelled, f"llvm.x86.avx512.mask.scalef.{kind}.{bits}", *given)


def _widened(printer: Assembly, type: Type, x: str, lanes: int) -> str:
    """Return a vector of so many lanes that begins with the elements of x."""
    if type.width == lanes:
        return x
    if type.width == 1:
        return printer.value(f"insertelement {_spelled(type.with_width(lanes))} zeroinitializer, "
                             f"{_spelled(type)} {x}, i64 0")  # fmt: skip
    places = [min(i, type.width) for i in range(lanes)]
    return _shuffled(printer, _spelled(type), x, "zeroinitializer", places)


def _narrowed(printer: Assembly, type: Type, x: str) -> str:
    """Return the first elements of a register."""
    lanes = max(type.width, _LEAST // type.dtype.itemsize)
    if type.width == lanes:
        return x
    wide = _spelled(type.with_width(lanes))
    if type.width == 1:
        return printer.value(f"extractelement {wide} {x}, i64 0")
    return _shuffled(printer, wide, x, "poison", range(type.width))


def _part(printer: Assembly, type: Type, x: str, first: int, lanes: int) -> str:
    return _shuffled(printer, _spelled(type), x, "poison", range(first, first + lanes))


def _shuffled(printer: Assembly, type: str, x: str, y: str, places: range | list[int]) -> str:
    mask = ", ".join(f"i32 {i}" for i in places)
    return printer.value(f"shufflevector {type} {x}, {type} {y}, <{len(places)} x i32> <{mask}>")


def _spelled(type: Type) -> str:
    return vector(element_type(type.dtype), type.width)
