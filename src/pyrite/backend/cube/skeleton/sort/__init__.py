"""Sorting by kernels: positions that sort an axis, stable, in the order of `pyrite.tensor.sorting`.

Elements become unsigned keys of the same order (`key`), so one comparison serves every dtype, NaN
and both directions.  `order` chooses how the keys of a row are sorted: by `rank`, in a `bitonic`
network, by digits in one invocation (`radix_sort`), or by digits in blocks on all cores
(`radix_blocks`).  `topk` chooses how the first few are found: by `selection` in one invocation, or
by `pruning` in many.

Sorting, like a search among sorted values, is no class of rules: where an element goes depends on
all others, and not on coordinates that a rule could state.
"""

from pyrite.backend.cube.skeleton.sort.order import argsort_axis as argsort_axis
from pyrite.backend.cube.skeleton.sort.topk import argtopk_axis as argtopk_axis

__all__ = ["argsort_axis", "argtopk_axis"]
