"""PyTorch as evaluators of rules ask for it.

Wide unsigned integers are `Unsigned`, whose bits are moved as any other tensor's elements are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from pyrite.backend.torch.algebra import TorchAlgebra
from pyrite.backend.torch.contraction import exact_product
from pyrite.backend.torch.dtype import PYRITE, TORCH, WIDE_UNSIGNED
from pyrite.backend.torch.fault import Faults
from pyrite.backend.torch.unsigned import Unsigned
from pyrite.errors import IndexRangeError
from pyrite.op.index import IndexMap
from pyrite.types import Array, DType, Number, TensorType, dtype


class TorchArrays:
    """The functions of `pyrite.backend.evaluation.Arrays`."""

    algebra = TorchAlgebra()

    def __init__(self, faults: Faults | None = None) -> None:
        """Take faults: on a device that does not wait, what is to be raised at a read."""
        self._faults = faults

    def moved_to(self, x: Any, device: torch.device) -> Any:
        """Return the same elements on a device."""
        return _moved(x, lambda bits: bits.to(device))

    def permute_dims(self, x: Any, axes: Sequence[int]) -> Any:
        return _moved(x, lambda bits: bits.permute(tuple(axes)))

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return _moved(x, lambda bits: bits.reshape(tuple(shape)))

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        return _moved(x, lambda bits: bits.expand(tuple(shape)))

    def slice(self, x: Any, axis: int, start: int, stop: int) -> Any:
        return _moved(x, lambda bits: bits.narrow(axis, start, stop - start))

    def flip(self, x: Any, axis: int) -> Any:
        return _moved(x, lambda bits: bits.flip(axis))

    def concat(self, arrays: Sequence[Any], axis: int) -> Any:
        found = torch.cat([_bits(x) for x in arrays], axis)
        first = arrays[0]
        return Unsigned(found, first.width) if isinstance(first, Unsigned) else found

    def full(self, shape: Sequence[int], value: Number, dtype: DType, like: Any) -> Any:
        if TORCH[dtype] not in WIDE_UNSIGNED:
            return torch.full(tuple(shape), value, dtype=TORCH[dtype], device=_device(like))
        number = self.algebra.constant(value, dtype)
        return _moved(number, lambda bits: bits.to(_device(like)).expand(tuple(shape)))

    def arange(self, stop: int, dtype: DType, like: Any) -> torch.Tensor:
        return torch.arange(stop, dtype=TORCH[dtype], device=_device(like))

    # ---- reads and writes by place ----

    def type_of(self, x: Any) -> TensorType:
        if isinstance(x, Unsigned):
            return TensorType(tuple(x.bits.shape), dtype(f"uint{x.width}"))
        return TensorType(tuple(x.shape), PYRITE[x.dtype])

    def as_index(self, x: Any) -> torch.Tensor:
        if not isinstance(x, Unsigned):
            return x.to(torch.int64)  # type: ignore[no-any-return]
        # What is beyond int64 has its highest bit set, and would count from the end.
        return torch.where(x.bits < 0, torch.iinfo(torch.int64).max, x.bits)

    def take(self, x: Any, places: torch.Tensor) -> Any:
        if isinstance(x, Unsigned):
            return Unsigned(self.take(x.bits, places), x.width)
        return x.to(places.device)[places]

    def put(self, x: Any, places: torch.Tensor, values: Any) -> Any:
        if isinstance(x, Unsigned):
            return Unsigned(self.put(x.bits, places, values.bits), x.width)
        return x.to(places.device).index_put((places,), values.to(places.device))

    def compress(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x[mask]

    def argsort(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argsort(x, stable=True)

    def cumulative_sum(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 0)

    def zeros_like(self, x: Any, shape: Sequence[int]) -> Any:
        if isinstance(x, Unsigned):
            return Unsigned(x.bits.new_zeros(tuple(shape)), x.width)
        return x.new_zeros(tuple(shape))

    def fail(self, failed: torch.Tensor, message: str) -> None:
        if failed.device.type != "cpu" and self._faults is not None:
            self._faults.note(failed.any(), message)
        elif failed.any():
            raise IndexRangeError(message)

    # ---- sums of products ----

    def einsum(self, equation: str, *operands: Any) -> Any:
        first = operands[0]
        if isinstance(first, Unsigned):
            return Unsigned(self.einsum(equation, *(x.bits for x in operands)), first.width)
        if first.dtype is torch.bool:
            return self.einsum(equation, *(x.to(torch.int32) for x in operands)) != 0
        if first.device.type != "cpu" and not first.is_floating_point():
            # There PyTorch has no products of integers.
            x, y = operands
            return exact_product(partial(torch.einsum, equation), x, y, _terms(equation, operands))
        # PyTorch sums integers in int64.
        return torch.einsum(equation, *operands).to(first.dtype)

    def is_any(self, mask: torch.Tensor) -> bool:
        return bool(mask.any())

    # ---- maps of indices ----

    def asarray(self, values: Array, like: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(_device(like))

    def strided(self, x: Any, index: IndexMap) -> Any | None:
        if isinstance(x, Unsigned):
            bits = self.strided(x.bits, index)
            return None if bits is None else Unsigned(bits, x.width)
        found = index.strides(x.stride())
        if found is None or min(found[0], default=0) < 0:
            return None
        return torch.as_strided(x, index.shape, found[0], x.storage_offset() + found[1])


def _bits(x: Any) -> torch.Tensor:
    return x.bits if isinstance(x, Unsigned) else x


def _device(like: Any) -> torch.device:
    return _bits(like).device


def _moved(x: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the elements of a tensor at other places."""
    return Unsigned(move(x.bits), x.width) if isinstance(x, Unsigned) else move(x)


def _terms(equation: str, operands: Sequence[torch.Tensor]) -> int:
    """Return how many products are summed up in an element of an einsum."""
    given, kept = equation.split("->")
    sizes = {
        name: size
        for names, x in zip(given.split(","), operands, strict=True)
        for name, size in zip(names, x.shape, strict=True)
    }
    return math.prod(size for name, size in sizes.items() if name not in kept)
