"""Maps of indices on a device: views by strides, boxes of a result by copies, the rest by masks.

`view` makes no kernel where strides say the map.  A move whose pieces are boxes, as joined and
updated slices are, is one copy for each (`boxes`).  Any other is one kernel that tests bounds
(`masked`).
"""

from pyrite.backend.cube.skeleton.map.move import move as move
from pyrite.backend.cube.skeleton.map.view import read_view as read_view

__all__ = ["move", "read_view"]
