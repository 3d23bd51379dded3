"""Scans: along each line of an axis, the fold of all elements up to each; by one scheme.

A unit walks along its line, carrying a state.  The config says who is a unit:

- with ``lanes`` = 1 an invocation (`alone`), on ``width`` * ``strips`` lines at once, which are
  best neighbours in memory, ``items`` elements at a time: of one line they are joined among
  themselves before they meet the carried state, so that the next ones wait for one join only; of
  several that are no neighbours they are read and written as they lie, and turned in registers;
- with more a workgroup (`together`), on one line, tile by tile in shared memory: each lane joins
  ``items`` neighbours, the lanes' totals are scanned by doubling, and both are joined to the
  carried state.

With ``parts`` > 1 a line is cut.  A first launch folds each part; in the second the unit of a part
begins with the fold of the parts before it.  Who joins whom is fixed by the config, so a sum has
the same bits in every run; with one part and one item at a time they are the reference's.
"""

from pyrite.backend.cube.skeleton.scan.config import ScanConfig as ScanConfig
from pyrite.backend.cube.skeleton.scan.config import candidates as candidates
from pyrite.backend.cube.skeleton.scan.config import select as select
from pyrite.backend.cube.skeleton.scan.lanes import scanned_lanes as scanned_lanes
from pyrite.backend.cube.skeleton.scan.launch import scan_axis as scan_axis
from pyrite.backend.cube.skeleton.scan.launch import scan_results as scan_results
from pyrite.backend.cube.skeleton.scan.lines import Lines as Lines
from pyrite.backend.cube.skeleton.scan.lines import lines_of as lines_of

__all__ = [
    "Lines", "ScanConfig", "candidates", "lines_of", "scan_axis", "scan_results", "scanned_lanes",
    "select",
]  # fmt: skip
