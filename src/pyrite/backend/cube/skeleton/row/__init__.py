"""Kernels that go over rows several times: totals of a row first, then what depends on them.

    row = Row("share", rows, length, [of_x], [of_out], [], config, grid)
    (x,), (out,) = row.sources, row.targets

    def body(row: Row) -> None:
        total = row.sum(x)
        row.write(lambda at: out(at, x(at) / row.spread(total, at)))

    row.run(body)

A row is read from memory once and found in a cache after that.  On a CPU an invocation has a row to
itself, on a GPU a workgroup shares one and joins its totals in shared memory.  Who joins whom is
fixed by the config, so a result has the same bits in every run.
"""

from pyrite.backend.cube.skeleton.row.config import LANES as LANES
from pyrite.backend.cube.skeleton.row.config import MOST_KEPT as MOST_KEPT
from pyrite.backend.cube.skeleton.row.config import MOST_TURNS as MOST_TURNS
from pyrite.backend.cube.skeleton.row.config import Rows as Rows
from pyrite.backend.cube.skeleton.row.config import RowsConfig as RowsConfig
from pyrite.backend.cube.skeleton.row.config import best as best
from pyrite.backend.cube.skeleton.row.config import candidates as candidates
from pyrite.backend.cube.skeleton.row.config import groups_of as groups_of
from pyrite.backend.cube.skeleton.row.config import padded as padded
from pyrite.backend.cube.skeleton.row.config import select as select
from pyrite.backend.cube.skeleton.row.config import select_abreast as select_abreast
from pyrite.backend.cube.skeleton.row.config import select_in_pieces as select_in_pieces
from pyrite.backend.cube.skeleton.row.config import turns_of as turns_of
from pyrite.backend.cube.skeleton.row.config import workgroups_of as workgroups_of
from pyrite.backend.cube.skeleton.row.operands import as_rows as as_rows
from pyrite.backend.cube.skeleton.row.operands import from_rows as from_rows
from pyrite.backend.cube.skeleton.row.operands import row_layout as row_layout
from pyrite.backend.cube.skeleton.row.passes import Line as Line
from pyrite.backend.cube.skeleton.row.row import Row as Row
from pyrite.backend.cube.skeleton.row.skeleton import ROWS as ROWS
from pyrite.backend.cube.skeleton.row.skeleton import RowProblem as RowProblem
from pyrite.backend.cube.skeleton.row.vectors import At as At
from pyrite.backend.cube.skeleton.row.vectors import Make as Make
from pyrite.backend.cube.skeleton.row.vectors import Store as Store
from pyrite.backend.cube.skeleton.row.vectors import Values as Values

__all__ = [
    "LANES",
    "MOST_KEPT",
    "MOST_TURNS",
    "ROWS",
    "At",
    "Line",
    "Make",
    "Row",
    "RowProblem",
    "Rows",
    "RowsConfig",
    "Store",
    "Values",
    "as_rows",
    "best",
    "candidates",
    "from_rows",
    "groups_of",
    "padded",
    "row_layout",
    "select",
    "select_abreast",
    "select_in_pieces",
    "turns_of",
    "workgroups_of",
]
