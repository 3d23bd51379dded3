"""One read of several tensors, and of the error word where one is in doubt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import filling
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.runtime.protocol import Wanted
from pyrite.types import Array


class Read:
    """What is asked of a runtime for the values of some tensors, and what its answer means.

    Raises IndexRangeError for a tensor that is known to come of an index outside.
    """

    def __init__(self, launcher: Launcher, handles: Sequence[CubeTensor]) -> None:
        self._handles = handles
        self._look = launcher.faults.look(handle.doubt for handle in handles)
        wholes = [filling(launcher, handle) for handle in handles if handle.type.size]
        #: What `Runtime.read_all` is to read.
        self.wanted: Wanted = [
            *((whole.buffer, whole.dtype, whole.shape) for whole in wholes),
            *self._look.wanted,
        ]

    def arrays(self, found: Sequence[Array]) -> list[Array]:
        """Return the values of each tensor, read-only.  Raises IndexRangeError as `Read` does."""
        values = iter(self._look.take(found))
        arrays = [
            next(values) if h.type.size else np.empty(h.shape, h.dtype.numpy) for h in self._handles
        ]
        for array in arrays:
            array.flags.writeable = False
        return arrays
