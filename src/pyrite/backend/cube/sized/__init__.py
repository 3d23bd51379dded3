"""Recordings that serve many sizes: a lowering is run once on symbols, and holds for all like it.

What a lowering asks for at a new size is mostly what it asked for before, with other numbers.  So
it is run with a symbol in place of each size and stride (`pyrite.sized`); what it launches, and
what is bound, are then expressions, and what it asked of the symbols are guards.  A call of other
sizes for which the guards hold gets its recording from these, in less than half of the time.

No kernel is built on the way: where one is missing, or code keeps something by a size, there is no
such recording, and calls are recorded one by one.  Design: docs/design/0040-recordings-of-sizes.md.
"""

from pyrite.backend.cube.sized.call import SizedCall as SizedCall
from pyrite.backend.cube.sized.recordings import MOST_REHEARSED as MOST_REHEARSED
from pyrite.backend.cube.sized.recordings import SizedRecordings as SizedRecordings

__all__ = ["MOST_REHEARSED", "SizedCall", "SizedRecordings"]
