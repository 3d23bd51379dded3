"""Sorting by kernels: positions that sort an axis, stable, in the order of `pyrite.tensor.sorting`.

Elements become unsigned keys of the same order (`key`), so one comparison serves every dtype, NaN
and both directions.  `order` chooses how the keys of a row are sorted: by `rank`, in a `network`,
by digits in one invocation (`digits`), or by digits in blocks on all cores (`blocks`).
"""

from pyrite.backend.cube.lowering.sorting.order import argsort_axis as argsort_axis

__all__ = ["argsort_axis"]
