"""Launches on views, on a runtime that guards: each operand is there as far as it reaches.

A kernel is bound to the whole buffer of a view, so that what it reads beside it is memory that
exists.  Here an input's buffer is replaced, for the launches of one op, by what has the view's own
elements and nothing else: see `pyrite.runtime.poison.Guarding`.  An input of which a buffer has
nothing else is bound as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.runtime.poison import Guarding, Reach, reach_of
from pyrite.runtime.protocol import Buffer, Bundle, Runtime

Lowered = Callable[[Sequence[Any]], Sequence[CubeTensor]]


def guarding(runtime: Runtime) -> Guarding | None:
    """Return the runtime if it keeps launches inside of their operands' reach."""
    found: Any = runtime
    return found if hasattr(runtime, "within") else None


class GuardedBundle:
    """Launches whose first operands are the inputs of an op, of these layouts."""

    def __init__(self, runtime: Guarding, bundle: Bundle, inputs: Sequence[Any]) -> None:
        self._runtime = runtime
        self._bundle = bundle
        self._inputs = [i for i in inputs if isinstance(i, CubeTensor)]

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        count = len(self._inputs)
        pairs = zip(self._inputs, operands[:count], strict=True)
        inputs = [_within(self._runtime, x, buffer) for x, buffer in pairs]
        self._bundle.launch([*inputs, *operands[count:]])


def guarded(runtime: Guarding, inputs: Sequence[Any], lowering: Lowered) -> Sequence[CubeTensor]:
    """Return what a lowering gives for inputs that are there as far as they reach."""
    whole: dict[int, Buffer] = {}
    given: list[Any] = []
    for i in inputs:
        if isinstance(i, CubeTensor):
            part = _within(runtime, i, i.buffer)
            whole[id(part)] = i.buffer
            i = replace(i, buffer=part)
        given.append(i)
    # A result may be a view of an input.
    return [replace(r, buffer=whole.get(id(r.buffer), r.buffer)) for r in lowering(given)]


def _within(runtime: Guarding, x: CubeTensor, buffer: Buffer) -> Buffer:
    if x.type.size == 0:
        return buffer
    reach = reach_of(x.dtype.itemsize, x.offset, x.shape, x.strides)
    return buffer if _fills(reach, buffer) else runtime.within(buffer, reach)


def _fills(reach: Reach, buffer: Buffer) -> bool:
    return reach.begin == 0 and reach.end == buffer.nbytes and bool(reach.mask.all())
