"""One read of several tensors, and of the error word of the kernels before them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering import filling
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.runtime.protocol import Wanted
from pyrite.types import Array


class Read:
    """What is asked of a runtime for the values of some tensors, and what its answer means."""

    def __init__(self, launcher: Launcher, handles: Sequence[CubeTensor]) -> None:
        self._handles = handles
        self._faults = launcher.faults
        wholes = [filling(launcher, handle) for handle in handles if handle.type.size]
        self._suspicion = self._faults.suspicion()
        #: What `Runtime.read_all` is to read.
        self.wanted: Wanted = [
            *((whole.buffer, whole.dtype, whole.shape) for whole in wholes),
            *(self._suspicion.wanted if self._suspicion else ()),
        ]

    def arrays(self, found: Sequence[Array]) -> list[Array]:
        """Return the values of each tensor, read-only.  Raises IndexRangeError: see `Faults`."""
        if self._suspicion is not None:
            *found, word = found
            self._faults.settle(self._suspicion, word)
        values = iter(found)
        arrays = [
            next(values) if h.type.size else np.empty(h.shape, h.dtype.numpy) for h in self._handles
        ]
        for array in arrays:
            array.flags.writeable = False
        return arrays
