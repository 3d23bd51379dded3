"""What the families of native implementations share: the decorator, and the test of indices.

An implementation gets tensors in the dtype in which they are computed (float16 and bfloat16 as
float32), numbers as zero-d tensors, and attributes by keyword.  It may return float32 for the
narrow floats: `Candle.run` rounds once.  Where Candle cannot do it for such inputs, it raises
`Lacking` before it has done much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

from pyrite.backend.candle.algebra import CandleAlgebra
from pyrite.backend.candle.tensor import CandleTensor, downloaded, where
from pyrite.backend.protocol import Backend, implements
from pyrite.errors import IndexRangeError
from pyrite.types import Array, int64

F = TypeVar("F", bound=Callable[..., Any])

ALGEBRA = CandleAlgebra()

#: How inputs come: in the dtype of computation, in their own, or as they came to `run`.
Given = Literal["computed", "stored", "untouched"]


def native(*names: str, given: Given = "computed") -> Callable[[F], F]:
    """Mark a method as the native implementation of ops, as `implements` does."""

    def mark(method: F) -> F:
        method._given = given  # type: ignore[attr-defined]
        return implements(*names)(method)

    return mark


class Native(Backend):
    """Candle, as the families of implementations see it."""

    #: How each implementation wants its inputs, by the name of its method.
    _given: ClassVar[dict[str, Given]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._given = {
            name: getattr(getattr(cls, name), "_given", "computed")
            for name in cls._implementations.values()
        }

    def inside(
        self, op: str, indices: CandleTensor, size: int, axis: int, *, negative: bool = True
    ) -> CandleTensor:
        """Return indices as 0 <= index < size, int64.  Raises IndexRangeError for one outside."""
        whole = indices.store(int64)
        if whole.size == 0:
            return whole
        lowest = -size if negative else 0
        flat = whole.reshape((whole.size,))
        least, greatest = (int(v.values()[0]) for v in _ends(flat))
        if least < lowest or greatest >= size:
            where_ = f"on axis {axis}" if negative else "the number of classes"
            first = _first_outside(downloaded(flat), lowest, size)
            raise IndexRangeError(
                f"{op} requires {lowest} <= index < {size} {where_}, got index {first}"
            )
        return where(whole < 0, whole + size, whole) if least < 0 else whole


def _ends(flat: CandleTensor) -> tuple[Any, Any]:
    return flat.data.min_keepdim(0), flat.data.max_keepdim(0)


def _first_outside(indices: Array, lowest: int, size: int) -> int:
    return int(indices[(indices < lowest) | (indices >= size)][0])
