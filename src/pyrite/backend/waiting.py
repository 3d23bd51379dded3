"""How the values of a backend that runs asynchronously are waited for.

By default a read of one handle is all there is, and it waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyrite.op import Handle
from pyrite.synchronization import awaited
from pyrite.types import Array


class Waiting(ABC):
    """What a backend overrides whose ops return before they are computed."""

    @abstractmethod
    def download(self, handle: Handle) -> Array:
        """Return the values as a read-only array, waiting until they are there."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all work that was submitted is done."""

    def download_all(self, handles: Sequence[Handle]) -> list[Array]:
        """Return the values of several handles; where the device is far, by one wait."""
        return [self.download(handle) for handle in handles]

    async def download_all_async(self, handles: Sequence[Handle]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        return await awaited(lambda: self.download_all(handles))

    async def synchronize_async(self) -> None:
        """Wait until all work that was submitted is done, while the event loop runs on."""
        await awaited(self.synchronize)

    def is_ready(self, handle: Handle) -> bool:
        """Return whether a read of a handle would not wait for the device; never waits itself."""
        return True

    def wait(self, handle: Handle) -> None:
        """Wait until the values of a handle are computed; what is wrong with them reads say."""
