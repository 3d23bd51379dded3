"""Memory that a backend has in common with the application: NumPy's, PyTorch's, a GPU buffer.

By default there is none, and all values are copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pyrite.errors import DeviceError
from pyrite.op import Handle, Op, Plan
from pyrite.types import Array


class Sharing(ABC):
    """What a backend overrides whose memory others may see."""

    name: str
    #: Whether it takes NumPy's memory without a copy, and gives it its own.
    shares_with_numpy: ClassVar[bool] = False
    #: Whether no one may write to memory of it, so that what was made of numbers alone may be kept
    #: and given out again.
    keeps_constants: ClassVar[bool] = False

    def adopt(self, array: Any) -> Handle | None:
        """Return a handle that shares the array's memory, or None where that is not possible."""
        return None

    def export(self, handle: Handle) -> Any:
        """Return a torch.Tensor with the memory of a handle of `primitive`, or None without one."""
        return None

    @abstractmethod
    def download(self, handle: Handle) -> Array:
        """Return the values as a read-only array, waiting until they are there."""

    def host_view(self, handle: Handle) -> Array:
        """Return the memory itself as a read-only array, when it is computed; else a copy."""
        return self.download(handle)

    def primitive(self, handle: Handle) -> Any:
        """Return what lies under all decorators: the array or buffer itself."""
        return handle

    def execute_into(
        self, op: Op, inputs: Sequence[Handle], plan: Plan, targets: Sequence[Handle]
    ) -> Sequence[Handle]:
        """Execute one op into memory of the application; return handles of what is there then.

        The handles before, and what shares their memory, are not to be used any more.
        """
        raise DeviceError(
            f"out requires a device that runs kernels, got {self.name}; take what {op.name} returns"
        )

    def renew(self, handle: Handle) -> Handle:
        """Return a handle of the application's memory as it is after the application wrote to it.

        The handle before, and what shares its memory, is not to be used any more.
        """
        raise DeviceError(
            "invalidate requires a tensor of pyrite.wgpu.from_buffer, on its own device, got one "
            f"of {self.name}"
        )
