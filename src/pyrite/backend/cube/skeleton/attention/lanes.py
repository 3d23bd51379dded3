"""Rows of private memory as wide as a tile, which lanes of several vectors read and write."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.attention.config import LaneConfig
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Type, vector
from pyrite.kernel.template.index import Index, plus, times
from pyrite.types import DType


class Lanes:
    """The vectors of a tile."""

    def __init__(self, b: KernelBuilder, config: LaneConfig, dtype: DType) -> None:
        self.b, self.config, self.dtype = b, config, dtype

    @property
    def type(self) -> Type:
        """The type of a vector."""
        return vector(self.dtype, self.config.width)

    @property
    def zeros(self) -> list[Value]:
        """A row of zeros."""
        return [self.b.const(0, self.type)] * self.config.vectors

    def room(self, rows: int) -> Memory:
        """Return private memory of so many rows."""
        return self.b.private(self.dtype, rows * self.config.lanes)

    def vectors(self, memory: Memory, row: Index) -> list[Value]:
        """Return the vectors of a row."""
        width = self.config.width
        return [memory.load(at, width=width, is_aligned=True) for at in self._places(row)]

    def put(self, memory: Memory, row: Index, values: Sequence[Value]) -> None:
        """Write them."""
        for at, value in zip(self._places(row), values, strict=True):
            memory.store(at, value, is_aligned=True)

    def put_vector(self, memory: Memory, row: Index, v: int, value: Value) -> None:
        """Write one."""
        memory.store(self._places(row)[v], value, is_aligned=True)

    def clear(self, memory: Memory, rows: int) -> None:
        """Make so many rows 0."""
        with self.b.for_(0, rows) as loop:
            self.put(memory, loop.index, self.zeros)
            loop.yield_()

    def pack(
        self, memory: Memory, operand: Operand, places: Sequence[Value], size: int,
        factor: float = 1.0,
    ) -> None:  # fmt: skip
        """Write ``size`` columns of an operand to rows of private memory, times a factor.

        Lanes are its rows, of which the elements of column 0 lie at places.
        """
        step = operand.layout.strides[-1]
        with self.b.for_(0, size) as loop:
            values = [operand.load(place + loop.index * step) for place in places]
            scaled = values if factor == 1.0 else [value * factor for value in values]
            self.put(memory, loop.index, scaled)
            loop.yield_()

    def _places(self, row: Index) -> list[Index]:
        first = times(row, self.config.lanes)
        return [plus(first, v * self.config.width) for v in range(self.config.vectors)]
