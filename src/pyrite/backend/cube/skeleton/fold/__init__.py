"""Reductions: a fold over axes, by one scheme for all layouts.

The input is seen as [outputs, reduced], each side merged to as few axes as it has.  Then

- along "columns" an invocation folds ``vectors`` of ``width`` neighbouring outputs at once: the
  layout of a sum over the first axis;
- along "rows" an invocation folds one output, ``vectors`` of ``width`` reduced elements at a time,
  each into a state of its own, so that no addition waits for the one before it;
- ``lanes`` invocations of a workgroup share the work and join in shared memory;
- with ``parts`` > 1 the reduced side is cut, and a second fold of the same kind joins the states
  of the parts, whose values lie in a tensor each;
- of many long lines a processor goes along these, and has the states of blocks of lines (`blocks`).

Who joins whom is fixed by the config, so a sum has the same bits in every run.
"""

from pyrite.backend.cube.skeleton.fold.across import fold_across as fold_across
from pyrite.backend.cube.skeleton.fold.across import lies_across as lies_across
from pyrite.backend.cube.skeleton.fold.config import Problem as Problem
from pyrite.backend.cube.skeleton.fold.config import ReductionConfig as ReductionConfig
from pyrite.backend.cube.skeleton.fold.config import candidates as candidates
from pyrite.backend.cube.skeleton.fold.config import select as select
from pyrite.backend.cube.skeleton.fold.fold import KernelFold as KernelFold
from pyrite.backend.cube.skeleton.fold.fold import State as State
from pyrite.backend.cube.skeleton.fold.fold import extremum_of as extremum_of
from pyrite.backend.cube.skeleton.fold.fold import join_cost as join_cost
from pyrite.backend.cube.skeleton.fold.fold import kernel_fold as kernel_fold
from pyrite.backend.cube.skeleton.fold.fold import position_of as position_of
from pyrite.backend.cube.skeleton.fold.fold import product_of as product_of
from pyrite.backend.cube.skeleton.fold.fold import sum_of as sum_of
from pyrite.backend.cube.skeleton.fold.launch import fold_columns as fold_columns
from pyrite.backend.cube.skeleton.fold.launch import join_segments as join_segments
from pyrite.backend.cube.skeleton.fold.launch import problem_of as problem_of
from pyrite.backend.cube.skeleton.fold.launch import reduce_axes as reduce_axes
from pyrite.backend.cube.skeleton.fold.launch import reduce_results as reduce_results
from pyrite.backend.cube.skeleton.fold.launch import write_fold as write_fold
from pyrite.backend.cube.skeleton.fold.mean import mean_over as mean_over
from pyrite.backend.cube.skeleton.fold.order import FoldOrder as FoldOrder
from pyrite.backend.cube.skeleton.fold.order import fold_order as fold_order
from pyrite.backend.cube.skeleton.fold.order import has_order as has_order

__all__ = [
    "FoldOrder",
    "KernelFold",
    "Problem",
    "ReductionConfig",
    "State",
    "candidates",
    "extremum_of",
    "fold_across",
    "fold_columns",
    "fold_order",
    "has_order",
    "join_cost",
    "join_segments",
    "kernel_fold",
    "lies_across",
    "mean_over",
    "position_of",
    "problem_of",
    "product_of",
    "reduce_axes",
    "reduce_results",
    "select",
    "sum_of",
    "write_fold",
]
