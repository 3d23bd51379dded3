"""Where a buffer came from, noted when it is made; and what a runtime has in use."""

from __future__ import annotations

from pyrite.backend.memory import DeviceMemory, Origin, TensorMemory
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Held, Runtime
from pyrite.types import TensorType


def note_origin(buffer: Buffer, type: TensorType, line: str | None = None) -> None:
    """Note the line at which a tensor was made, by default that of the call that runs."""
    buffer.owner.origin = Origin(type, user_location() if line is None else line)


def memory_of(runtime: Runtime) -> DeviceMemory:
    """Return what a runtime has in use."""
    report = runtime.memory_report()
    tensors = tuple([_tensor(held) for held in runtime.held()])
    return DeviceMemory(runtime.name, report.live, report.reserved, report.peak, tensors)


def _tensor(held: Held) -> TensorMemory:
    origin = held.origin
    if isinstance(origin, Origin):
        return TensorMemory(held.nbytes, origin.type, origin.line)
    return TensorMemory(held.nbytes, None, None if origin is None else str(origin))
