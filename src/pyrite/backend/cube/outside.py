"""Memory of the application that a kernel is to write to, and the inputs that lie in it too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import is_row_major
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.errors import DeviceError, ShapeError
from pyrite.runtime.protocol import Runtime

#: Frames are the same few, at each call.
_is_row_major = lru_cache(maxsize=1024)(is_row_major)


def require_separate(runtime: Runtime, op: str, targets: Sequence[CubeTensor]) -> None:
    """Raise ShapeError for a target that is a view, DeviceError for two in the same memory."""
    for target in targets:
        is_whole = target.offset == 0 and target.buffer.nbytes == target.type.nbytes
        if not is_whole or not _is_row_major(target.shape, target.strides):
            raise ShapeError(
                f"{op} requires out in row-major order that is no view, got strides "
                f"{target.strides} from element {target.offset} on of {target.buffer.nbytes} "
                "bytes; make a tensor of that part of the memory (from_buffer has an offset)"
            )
    for x, y in combinations(targets, 2) if len(targets) > 1 else ():
        if runtime.is_shared(x.buffer, y.buffer):
            raise DeviceError(f"{op} requires out to have memory for each result, got one for two")


def apart(launcher: Launcher, inputs: Sequence[Any], targets: Sequence[CubeTensor]) -> list[Any]:
    """Return inputs, with copies of those that lie in the memory of a target."""
    is_shared = launcher.runtime.is_shared
    return [
        dense(launcher, i, i.type)
        if isinstance(i, CubeTensor) and any(is_shared(i.buffer, t.buffer) for t in targets)
        else i
        for i in inputs
    ]
