"""What stands for buffers, numbers and error words while a lowering is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyrite.op import Constant
from pyrite.types import DType, TensorType


class Slot:
    """A buffer that there will be, by its number; an input's may have any size, and says 0."""

    __slots__ = ("nbytes", "number", "type")

    def __init__(self, number: int, nbytes: int) -> None:
        self.number = number
        self.nbytes = nbytes
        #: What it holds, where that is a tensor's elements.
        self.type: TensorType | None = None


class Unknown(Constant):
    """A number of an op that only a call knows: the input of that position."""

    __slots__ = ("position",)

    position: int

    def __init__(self, position: int, type: TensorType) -> None:
        super().__init__(0, type)
        self.position = position

    def numpy(self, dtype: DType | None = None) -> Any:
        """Raise AssertionError: a lowering has numbers from its launcher."""
        raise AssertionError("a lowering asks its launcher for the number of a constant")


@dataclass(frozen=True, slots=True)
class NumberOperand:
    """A number of an op in a dtype, as a kernel gets it."""

    position: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class FaultOperand:
    """The error word of that checked launch, or else the number that goes there."""

    launch: int
    is_word: bool


@dataclass(frozen=True, slots=True)
class GivenOperand:
    """A number that a kernel of an application is given by each call, counted through them."""

    number: int
