"""Index maps: where the elements of a result are read, as values that compose and invert.

What a view, a window or a padding is, without arrays and without a device: integers made of
coordinates (`form`), maps of them with bounds (`index_map`), the way back (`inverse`), the maps of
views (`views`), and what lies under windows (`windows`).
"""

from pyrite.op.index.form import Form as Form
from pyrite.op.index.form import coordinate as coordinate
from pyrite.op.index.form import coordinates as coordinates
from pyrite.op.index.form import number_of as number_of
from pyrite.op.index.index_map import Bound as Bound
from pyrite.op.index.index_map import IndexMap as IndexMap
from pyrite.op.index.inverse import fibers as fibers
from pyrite.op.index.inverse import inverse as inverse
from pyrite.op.index.views import broadcast as broadcast
from pyrite.op.index.views import identity as identity
from pyrite.op.index.views import permuted as permuted
from pyrite.op.index.views import reshaped as reshaped
from pyrite.op.index.views import sliced as sliced
from pyrite.op.index.views import windowed as windowed
from pyrite.op.index.windows import Windows as Windows
from pyrite.op.index.windows import covering_windows as covering_windows
from pyrite.op.index.windows import sliding_windows as sliding_windows

__all__ = [
    "Bound",
    "Form",
    "IndexMap",
    "Windows",
    "broadcast",
    "coordinate",
    "coordinates",
    "covering_windows",
    "fibers",
    "identity",
    "inverse",
    "number_of",
    "permuted",
    "reshaped",
    "sliced",
    "sliding_windows",
    "windowed",
]
