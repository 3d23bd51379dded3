"""Element types of ONNX and the dtypes that carry them.

ONNX has types of 2 and 4 bits that no device here computes in: they are carried in int8, uint8 or
float32, and what is cast to them is rounded and saturates.  Strings, complex numbers and 8-bit
floats have no carrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from onnx import TensorProto

from pyrite import types
from pyrite.types import DType, Number


@dataclass(frozen=True, slots=True)
class Element:
    """One element type: its name in ONNX, and the dtype that carries it, if any does."""

    name: str
    carrier: DType | None

    @property
    def is_narrow(self) -> bool:
        """Whether it has fewer bits than its carrier."""
        return self.name in _NARROW

    @property
    def lowest(self) -> Number:
        """The least value that it holds."""
        return _NARROW[self.name][0] if self.is_narrow else self._carried.lowest

    @property
    def highest(self) -> Number:
        """The greatest value that it holds."""
        return _NARROW[self.name][1] if self.is_narrow else self._carried.highest

    @property
    def _carried(self) -> DType:
        assert self.carrier is not None, f"{self.name} has no carrier"
        return self.carrier


_CARRIERS: Mapping[str, DType] = MappingProxyType(
    {
        "float": types.float32,
        "double": types.float64,
        "float16": types.float16,
        "bfloat16": types.bfloat16,
        "bool": types.bool_,
        "int4": types.int8,
        "int2": types.int8,
        "uint4": types.uint8,
        "uint2": types.uint8,
        "float4e2m1": types.float32,
        **{d.name: d for d in types.INTEGERS},
    }
)

_NARROW: Mapping[str, tuple[Number, Number]] = MappingProxyType(
    {
        "int4": (-8, 7),
        "int2": (-2, 1),
        "uint4": (0, 15),
        "uint2": (0, 3),
        "float4e2m1": (-6.0, 6.0),
    }
)

#: By the number that stands for it in a file.
ELEMENTS: Mapping[int, Element] = MappingProxyType(
    {
        number: Element(name.lower(), _CARRIERS.get(name.lower()))
        for name, number in TensorProto.DataType.items()
        if name != "UNDEFINED"
    }
)

BY_NAME: Mapping[str, Element] = MappingProxyType({e.name: e for e in ELEMENTS.values()})


def element(number: int) -> Element | None:
    """Return the element type of a number in a file; None for one that is not known."""
    return ELEMENTS.get(number)
