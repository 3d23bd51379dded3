"""Room for native code, asked for before LLVM needs it."""

from __future__ import annotations

import psutil

from pyrite.errors import OutOfMemoryError
from pyrite.runtime.cpu.pages import has_room, mappings


def require_room_for_code(nbytes: int) -> None:
    """Raise OutOfMemoryError where the system gives no memory now, or no mappings.

    LLVM does not say so: it ends the process.
    """
    if has_room(nbytes):
        return
    free = psutil.virtual_memory().available
    counts = mappings()
    taken = f", and this process {counts[0]:,} mappings of {counts[1]:,}" if counts else ""
    raise OutOfMemoryError(
        f"cpu requires room for the code of a kernel, got none: the system has {free:,} bytes free"
        f"{taken}; hold fewer tensors and compiled functions, or raise the limits (ulimit -v, "
        "vm.max_map_count)"
    )
