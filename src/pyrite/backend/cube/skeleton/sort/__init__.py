"""Sorting by kernels: positions that sort an axis, stable, in the order of `pyrite.tensor.sorting`.

Elements become unsigned keys of the same order (`key`), so one comparison serves every dtype, NaN
and both directions.  `order` chooses how the keys of a row are sorted: by `rank`, in a `network`,
by digits in one invocation (`digits`), or by digits in blocks on all cores (`blocks`).  `first`
chooses how the first few are found: by `selection` in one invocation, or by `pruning` in many.
"""

from pyrite.backend.cube.skeleton.sort.order import argsort_axis as argsort_axis
from pyrite.backend.cube.skeleton.sort.topk import first_of_axis as first_of_axis

__all__ = ["argsort_axis", "first_of_axis"]
