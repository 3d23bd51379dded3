"""Proofs that the accesses of a launch stay inside of their memories.

An abstract interpretation: each integer has an interval, from the grid, the arguments and the
extents of one launch.  At an access, the conditions under which it is made (its mask, the branches
and loops around it) bound the values in them, and as inequalities of sums they bound its index.  A
value that was loaded, or that a loop carries in a way that is not seen through, may be anything:
then only a condition proves something.

What is not proved may still be right: the proof is sound, and not complete.

- `interval`, `linear`: intervals of integers, and integers as sums;
- `values`: what is known of the values of a launch, everywhere and under conditions;
- `analysis`: the walk over a kernel, and what is proved of its accesses.
"""

from pyrite.kernel.bounds.analysis import Unproved as Unproved
from pyrite.kernel.bounds.analysis import accesses as accesses
from pyrite.kernel.bounds.analysis import addresses as addresses
from pyrite.kernel.bounds.analysis import unproved as unproved

__all__ = ["Unproved", "accesses", "addresses", "unproved"]
