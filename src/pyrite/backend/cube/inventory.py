"""Where a buffer came from, noted when it is made; and what a runtime has in use."""

from __future__ import annotations

from pyrite.backend.memory import DeviceMemory, Origin, Origins, TensorMemory
from pyrite.op import user_site
from pyrite.runtime.protocol import Buffer, Held, Runtime
from pyrite.types import TensorType


def note_origin(buffer: Buffer, type: TensorType, line: str | None = None, known: int = 1) -> None:
    """Note the line at which a tensor was made, by default that of the call that runs.

    So many callers are ``known`` to be Pyrite's: see `user_site`.
    """
    owner = buffer.owner
    made = Origin(type, user_site(known + 1) if line is None else line)
    if owner.origin is None:
        owner.origin = made
    else:
        before = owner.origin if isinstance(owner.origin, Origins) else (owner.origin,)
        owner.origin = Origins((*before, made))


def memory_of(runtime: Runtime) -> DeviceMemory:
    """Return what a runtime has in use."""
    report = runtime.memory_report()
    found = [tensor for held in runtime.held() for tensor in _tensors(held)]
    tensors = tuple(sorted(found, key=lambda tensor: -tensor.nbytes))
    return DeviceMemory(runtime.name, report.live, report.reserved, report.peak, tensors)


def _tensors(held: Held) -> list[TensorMemory]:
    origin = held.origin
    made = Origins((origin,)) if isinstance(origin, Origin) else origin
    if not isinstance(made, Origins):
        return [TensorMemory(held.nbytes, None, None if made is None else str(made))]
    own = [TensorMemory(of.type.nbytes, of.type, of.line) for of in made]
    left = held.nbytes - sum(tensor.nbytes for tensor in own)
    return [*own, TensorMemory(left, None, None)] if left > 0 else own
