"""Python's collector of cycles, which looks at all that is young whenever 700 more objects exist.

A step of training makes ten thousand objects that live until its end, none of them in a cycle: the
collector takes a fifth of its time to find nothing, and all of them are old by then, so that it
also goes over the whole process again and again.
"""

from __future__ import annotations

import gc
from typing import Final

#: So many more objects than before there are in such a block until the collector runs.
PATIENCE: Final = 100_000


class patient_collector:
    """Have the collector wait for more objects in the block, as in a pass over a model.

    It is the process's: what another thread sets it to meanwhile stays, and the first of several
    such blocks to end ends it for all, which costs time and nothing else.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        before = gc.get_threshold()
        # Zero is never.
        self._before = before if 0 < before[0] < PATIENCE else None
        if self._before is not None:
            gc.set_threshold(PATIENCE, *before[1:])

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None and gc.get_threshold() == (PATIENCE, *before[1:]):
            gc.set_threshold(*before)
