"""Scatters: writes by index tensors, in the order that the rule states, on any number of cores.

All forms are one: K writes, each with an index for each leading axis of the target, along lines
that do not touch each other (`writes`).  The config says who keeps the order:

- by "line" an invocation owns a line and does its K writes one after the other;
- by "element" an invocation owns an element and looks through all K for those that are its own:
  more work, for small results with few lines;
- by "segment" the writes are sorted by their place, and an invocation does those that go to one
  place: see `segmented`;
- by "tile" workgroups add floats to copies of few places, in an order of their own that does not
  change: see `in_tiles`;
- by "atomic" nobody has to: integers come to the same in every order, see `atomic`;
- by "part" nobody has to either: threads of a processor divide the writes, see `in_parts`.
"""

from pyrite.backend.cube.skeleton.scatter.scatter import last_write as last_write
from pyrite.backend.cube.skeleton.scatter.scatter import scatter as scatter
from pyrite.backend.cube.skeleton.scatter.write import write as write
from pyrite.backend.cube.skeleton.scatter.writes import Writes as Writes

__all__ = ["Writes", "last_write", "scatter", "write"]
