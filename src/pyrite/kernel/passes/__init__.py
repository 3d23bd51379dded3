"""Passes: functions from a kernel to an equal kernel, legal in, legal out.

A pass has a file of its own, which states its contract; parts of `vectorize` are `vector_values`,
`vector_near`, `vector_memory`, `vector_control` and `vector_subgroups`, and `vector_strips` runs
it; `far_rounds` is a part of `split_barriers`.  Which run, and in which order, says the
``pipeline`` of a target: `simplify_index`, `fold_constants`, `eliminate_common`, `eliminate_dead`
in all; `expand_ldexp` and `expand_exp2` in those without an instruction; `legalize` in WGSL's, for
devices that lack dtypes; `align_rounds`, `vectorize_in_strips` and `split_barriers` in LLVM's.
`split_buffers` runs at a launch, where a buffer turns out to be larger than a binding, and
`report_rounds` before all others, for devices that end long loops.
"""

from pyrite.kernel.passes.align_rounds import align_rounds as align_rounds
from pyrite.kernel.passes.eliminate_common import eliminate_common as eliminate_common
from pyrite.kernel.passes.eliminate_dead import eliminate_dead as eliminate_dead
from pyrite.kernel.passes.expand_exp2 import expand_exp2 as expand_exp2
from pyrite.kernel.passes.expand_ldexp import expand_ldexp as expand_ldexp
from pyrite.kernel.passes.fold_constants import fold_constants as fold_constants
from pyrite.kernel.passes.join_kernels import join_kernels as join_kernels
from pyrite.kernel.passes.legalize import WEBGPU as WEBGPU
from pyrite.kernel.passes.legalize import Capabilities as Capabilities
from pyrite.kernel.passes.legalize import legalize as legalize
from pyrite.kernel.passes.report_rounds import most_rounds as most_rounds
from pyrite.kernel.passes.report_rounds import report_rounds as report_rounds
from pyrite.kernel.passes.simplify_index import Known as Known
from pyrite.kernel.passes.simplify_index import simplify_index as simplify_index
from pyrite.kernel.passes.split_barriers import split_barriers as split_barriers
from pyrite.kernel.passes.split_buffers import split_buffers as split_buffers
from pyrite.kernel.passes.vector_strips import vectorize_in_strips as vectorize_in_strips
from pyrite.kernel.passes.vector_subgroups import SUBGROUP as SUBGROUP
from pyrite.kernel.passes.vectorize import joins_subgroups as joins_subgroups
from pyrite.kernel.passes.vectorize import vectorize as vectorize

__all__ = [
    "SUBGROUP", "WEBGPU", "Capabilities", "Known", "align_rounds", "eliminate_common",
    "eliminate_dead", "expand_exp2", "expand_ldexp", "fold_constants", "join_kernels",
    "joins_subgroups", "legalize", "most_rounds", "report_rounds", "simplify_index",
    "split_barriers", "split_buffers", "vectorize", "vectorize_in_strips",
]  # fmt: skip
