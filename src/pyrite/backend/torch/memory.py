"""What PyTorch says where memory does not suffice, which has no class of its own on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pyrite.errors import DeviceError, PyriteError
from pyrite.types import TensorType, dtype

V = TypeVar("V")
R = TypeVar("R")

#: What PyTorch raises where memory does not suffice, and NumPy, also for sizes that are no 64-bit
#: integers.
_RAISED = (RuntimeError, MemoryError, ValueError)

#: Parts of their messages; a MemoryError needs none.
_SAID = ("allocate memory", "not enough memory", "out of memory", "overflow", "array is too big")


def memory_error(
    op: str, name: str, types: Iterable[TensorType], error: Exception
) -> DeviceError | None:
    """Return the DeviceError that an error of PyTorch's stands for, None for any other error."""
    is_of_memory = isinstance(error, MemoryError) or any(said in str(error) for said in _SAID)
    if isinstance(error, PyriteError) or not is_of_memory:
        return None
    made = ", ".join(map(str, types))
    return DeviceError(f"{op} requires memory that there is on {name}, got {made}; split it")


def within_memory(move: Callable[[Any, V], R]) -> Callable[[Any, V], R]:
    """Give a method that moves the values of a tensor or array the DeviceError of an op."""

    @functools.wraps(move)
    def moved(backend: Any, values: V) -> R:
        try:
            return move(backend, values)
        except _RAISED as error:
            beyond = memory_error(move.__name__, backend.name, [_type_of(values)], error)
            if beyond is None:
                raise
            raise beyond from None

    return moved


def _type_of(values: Any) -> TensorType:
    """Return the type of a torch.Tensor or of an array."""
    return TensorType(tuple(values.shape), dtype(str(values.dtype).removeprefix("torch.")))
