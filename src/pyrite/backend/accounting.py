"""What a backend says of its memory; what it says it with is imported when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyrite.backend.memory import DeviceMemory


class Accounting:
    """What a backend overrides that knows how much memory it has in use."""

    def memory(self) -> DeviceMemory | None:
        """Return how much memory is in use; None where that is not known."""
        return None
