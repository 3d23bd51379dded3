"""Grids that the device counts: a tensor has the workgroups of a kernel, and nobody waits for it.

A kernel of one invocation tests the numbers and writes them as a runtime wants them
(`pyrite.runtime.protocol.Runtime.launch_counted`).  Where one of them is none, nothing runs, and
what is read of the outputs raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pyrite.errors import KernelError
from pyrite.extension.outputs import type_of
from pyrite.runtime.protocol import MOST_COUNTED
from pyrite.types import Array, Shape, TensorType, element_count, int32, uint32

#: What a runtime gets.
AXES: Final = 3
COUNTS: Final = TensorType((AXES,), uint32)


class Counting:
    """The tensor of a kernel that counts its workgroups."""

    def __init__(self, kernel: str, tensor: str) -> None:
        self._kernel = kernel
        #: Its name in the kernel.
        self.tensor = tensor

    def axes(self, names: Sequence[str], types: Sequence[TensorType | None]) -> int:
        """Return the number of axes of the grid.  Raises KernelError for what is no counts."""
        found = dict(zip(names, types, strict=True)).get(self.tensor)
        if found is None:
            raise KernelError(
                f"kernel '{self._kernel}' requires grid= to be a function, or the name of one of "
                f"its tensors ({', '.join(names)}), got {self.tensor!r}"
            )
        count = element_count(found.shape)
        if found.dtype not in (int32, uint32) or len(found.shape) > 1 or not 1 <= count <= 3:
            raise KernelError(
                f"kernel '{self._kernel}' requires counts of workgroups of int32 or uint32, one to "
                f"three in a row, got {self.tensor!r} of {found}"
            )
        return count

    def of_arrays(self, names: Sequence[str], arrays: Sequence[Array | None]) -> Shape:
        """Return the grid that arrays say.  Raises KernelError for numbers that are none."""
        given = dict(zip(names, arrays, strict=True))
        self.axes(names, [None if a is None else type_of(a) for a in arrays])
        array = given[self.tensor]
        assert array is not None, "as `axes` has seen"
        found = tuple(int(n) for n in array.reshape(-1))
        if not all(0 <= n <= MOST_COUNTED for n in found):
            raise KernelError(f"{self._message}, got {found}")
        return found

    def function(self) -> Callable[..., None]:
        """Return what tests the numbers and writes them, as the function of a kernel."""
        message = self._message

        def counts_kernel(k: Any, given: Any, counts: Any) -> None:
            found = [given[at] for at in np.ndindex(given.shape)]
            inside = k.const(True, "bool")
            for count in found:
                inside = inside & (count >= 0) & (count <= MOST_COUNTED)
            k.check(inside, message)
            for axis in k.static(range(AXES)):
                count = found[axis] if axis < len(found) else k.const(1, "int32")
                counts[axis] = k.select(inside, k.cast(count, "uint32"), 0)

        counts_kernel.__name__ = self._kernel  # whose error it is
        return counts_kernel

    @property
    def _message(self) -> str:
        return (
            f"kernel '{self._kernel}' requires each count of workgroups in {self.tensor!r} to be 0 "
            f"to {MOST_COUNTED}"
        )
