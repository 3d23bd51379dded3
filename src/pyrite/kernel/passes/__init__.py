"""Passes: functions from a kernel to an equal kernel, legal in, legal out.

Each file holds one and states its contract.  In the order in which targets use them:
`simplify_index`, `fold_constants`, `eliminate_common`, `eliminate_dead` for all; `legalize` for
devices that lack dtypes; `vectorize`, then `split_barriers` for processors.
"""

from pyrite.kernel.passes.eliminate_common import eliminate_common as eliminate_common
from pyrite.kernel.passes.eliminate_dead import eliminate_dead as eliminate_dead
from pyrite.kernel.passes.fold_constants import fold_constants as fold_constants
from pyrite.kernel.passes.split_barriers import split_barriers as split_barriers
from pyrite.kernel.passes.vectorize import vectorize as vectorize

__all__ = [
    "eliminate_common", "eliminate_dead", "fold_constants", "split_barriers", "vectorize",
]  # fmt: skip
