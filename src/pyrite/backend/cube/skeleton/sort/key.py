"""Keys: unsigned integers in the order of the elements, equal where the elements are equal.

-0.0 and 0.0 have one key, all NaNs have the highest; the keys of a descending sort are the
complement.  Keys are no wider than they must be, for each digit of a key costs a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.kernel import KernelBuilder, Value
from pyrite.types import DType, bfloat16, bool_, float16, int32, uint32, uint64

#: Bits of the keys of dtypes that have fewer than the dtype in which they are computed: a float16
#: as float32 has 1 + 8 + 10 of them, and the others are 0.
_NARROW = {bool_: 1, float16: 19, bfloat16: 16}


@dataclass(frozen=True, slots=True)
class Key:
    """How elements of a dtype become keys; unsigned ones may be known to be below a ``limit``."""

    source: DType
    is_descending: bool
    limit: int | None = None

    @property
    def dtype(self) -> DType:
        """The dtype of a key."""
        return uint64 if self.source.bits == 64 else uint32

    @property
    def bits(self) -> int:
        """How many bits of a key may differ from 0."""
        if self.limit is not None:
            return max(1, (self.limit - 1).bit_length())
        return _NARROW.get(self.source, self.source.bits)

    @property
    def highest(self) -> int:
        """The greatest key."""
        return (1 << self.bits) - 1

    def of(self, b: KernelBuilder, x: Value) -> Value:
        """Return the key of an element in its compute dtype, or the keys of a vector of them."""
        key = self._ascending(b, x)
        return key ^ self.highest if self.is_descending else key

    def _ascending(self, b: KernelBuilder, x: Value) -> Value:
        source = self.source
        if source.is_float:
            return self._of_float(b, x)
        if source.kind != "int":
            return b.cast(x, self.dtype)
        if source.bits < 32:
            return b.bitcast(b.cast(x, int32) - int(source.lowest), uint32)
        return b.bitcast(x, self.dtype) ^ (1 << source.bits - 1)

    def _of_float(self, b: KernelBuilder, x: Value) -> Value:
        """Sign and magnitude become an offset from the middle, where both zeros are."""
        bits = x.dtype.bits
        middle = 1 << bits - 1
        word = b.bitcast(x, self.dtype)
        magnitude = word & (middle - 1)
        key = b.select(word < middle, magnitude + middle, middle - magnitude)
        infinity = {32: 0xFF << 23, 64: 0x7FF << 52}[bits]
        key = b.select(magnitude > infinity, (1 << bits) - 1, key)
        return key >> (bits - self.bits) if self.bits < bits else key
