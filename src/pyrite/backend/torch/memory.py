"""What PyTorch says where memory does not suffice, which has no class of its own on the host."""

from __future__ import annotations

from collections.abc import Iterable

from pyrite.errors import DeviceError, PyriteError
from pyrite.types import TensorType

#: Parts of its messages, of allocators and of sizes that are no 64-bit integers.
_SAID = ("allocate memory", "not enough memory", "out of memory", "overflow")


def memory_error(
    op: str, name: str, types: Iterable[TensorType], error: RuntimeError
) -> DeviceError | None:
    """Return the DeviceError that an error of PyTorch's stands for, None for any other error."""
    if isinstance(error, PyriteError) or not any(said in str(error) for said in _SAID):
        return None
    made = ", ".join(map(str, types))
    return DeviceError(f"{op} requires memory that there is on {name}, got {made}; split it")
