"""PyTorch as evaluators of rules ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pyrite.backend.torch.algebra import TorchAlgebra
from pyrite.backend.torch.dtype import PYRITE, TORCH, WIDE_UNSIGNED, carried_number
from pyrite.backend.torch.fault import Faults
from pyrite.backend.torch.unsigned import Unsigned
from pyrite.errors import IndexRangeError
from pyrite.op.index import IndexMap
from pyrite.types import Array, DType, Number, TensorType, dtype


class TorchArrays:
    """The functions of `pyrite.backend.evaluation.Arrays`."""

    algebra = TorchAlgebra()

    def __init__(self, faults: Faults | None = None) -> None:
        """Of a device that does not wait, ``faults`` takes what is to be raised at a read."""
        self._faults = faults

    def permute_dims(self, x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        return x.permute(*axes)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        if isinstance(x, Unsigned):
            return Unsigned(x.bits.reshape(tuple(shape)), x.width)
        return x.reshape(tuple(shape))

    def concat(self, arrays: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
        return torch.cat(list(arrays), axis)

    def full(self, shape: Sequence[int], value: Number, dtype: DType, like: Any) -> Any:
        if TORCH[dtype] in WIDE_UNSIGNED:
            number = carried_number(value, dtype, "bits", False).to(torch.int64)
            return Unsigned(number.to(_device(like)).expand(tuple(shape)), dtype.bits)
        return torch.full(tuple(shape), value, dtype=TORCH[dtype], device=_device(like))

    def arange(self, stop: int, dtype: DType, like: Any) -> torch.Tensor:
        return torch.arange(stop, dtype=TORCH[dtype], device=_device(like))

    # ---- reads and writes by place ----

    def type_of(self, x: Any) -> TensorType:
        if isinstance(x, Unsigned):
            return TensorType(tuple(x.bits.shape), dtype(f"uint{x.width}"))
        return TensorType(tuple(x.shape), PYRITE[x.dtype])

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        if isinstance(x, Unsigned):
            return Unsigned(x.bits.expand(tuple(shape)), x.width)
        return x.expand(tuple(shape))

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


def _device(like: Any) -> torch.device:
    return (like.bits if isinstance(like, Unsigned) else like).device
