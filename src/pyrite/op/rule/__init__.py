"""Classes of rules: the forms in which ops that are not elementwise say what they compute.

An elementwise op has a ``scalar`` rule.  Every other primitive that has a form has a ``rule``: a
value of one of the classes here, and beside it an independent ``reference`` in NumPy that judges
it.  Whoever executes ops looks at the class and never at the name of the op:

    fold      a state for each output takes in elements, in any order
    scan      a fold that keeps the state at each element (`Scan`), or what follows from element to
              element (`Recurrence`)
    contract  a sum of products of two operands, whose elements stand at places of their own
    gather    an element of the source for each of the result, at coordinates of which some are read
    scatter   updates meet elements at coordinates of which some are read, in row-major order
    map       each output is an element of an input, or a fill, by maps of indices
    view      a map of one input in which every output is an element of it
    window    a fold of what lies under a window, through a map
    adjoint   what was read through a map or view, added up where it was read
"""

from pyrite.op.rule.contract import Contract as Contract
from pyrite.op.rule.contract import Products as Products
from pyrite.op.rule.contract import Terms as Terms
from pyrite.op.rule.coordinate import Coordinate as Coordinate
from pyrite.op.rule.coordinate import IndexRange as IndexRange
from pyrite.op.rule.coordinate import IndexRead as IndexRead
from pyrite.op.rule.coordinate import Place as Place
from pyrite.op.rule.coordinate import merged as merged
from pyrite.op.rule.coordinate import outside as outside
from pyrite.op.rule.coordinate import ranges as ranges
from pyrite.op.rule.fold import Fold as Fold
from pyrite.op.rule.gather import Gather as Gather
from pyrite.op.rule.gather import named as named
from pyrite.op.rule.map import Map as Map
from pyrite.op.rule.map import Piece as Piece
from pyrite.op.rule.map import View as View
from pyrite.op.rule.map_adjoint import Adjoint as Adjoint
from pyrite.op.rule.rule import Rule as Rule
from pyrite.op.rule.scan import Recurrence as Recurrence
from pyrite.op.rule.scan import Scan as Scan
from pyrite.op.rule.scatter import ADD as ADD
from pyrite.op.rule.scatter import ASSIGN as ASSIGN
from pyrite.op.rule.scatter import COLLISIONS as COLLISIONS
from pyrite.op.rule.scatter import Collision as Collision
from pyrite.op.rule.scatter import LastWrite as LastWrite
from pyrite.op.rule.scatter import Scatter as Scatter
from pyrite.op.rule.scatter import Writes as Writes
from pyrite.op.rule.window import AVERAGE as AVERAGE
from pyrite.op.rule.window import WindowFold as WindowFold
from pyrite.op.rule.window import zero as zero

__all__ = [
    "ADD",
    "ASSIGN",
    "AVERAGE",
    "COLLISIONS",
    "Adjoint",
    "Collision",
    "Contract",
    "Coordinate",
    "Fold",
    "Gather",
    "IndexRange",
    "IndexRead",
    "LastWrite",
    "Map",
    "Piece",
    "Place",
    "Products",
    "Recurrence",
    "Rule",
    "Scan",
    "Scatter",
    "Terms",
    "View",
    "WindowFold",
    "Writes",
    "merged",
    "named",
    "outside",
    "ranges",
    "zero",
]
