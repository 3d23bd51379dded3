"""Other spellings of ops: what Burn, PyTorch and NumPy call what stands here under another name.

A spelling is the method itself, or says in one line which method it calls.  It is no op, and few
have a function of their name in `pyrite` (scripts/functions.py).  `torch_names` says what to
write for the names that tensors lack, docs/burn-coverage.md goes through all of Burn's, of which
these are more than one spelling here:

========================================  ===================================================
Burn                                      here
========================================  ===================================================
add_scalar, div_scalar, equal_scalar, …   add, divide, equal: a number is as good as a tensor
powf_scalar, powi_scalar                  pow
max_pair, min_pair                        maximum, minimum
lower, lower_equal, lower_elem            less, less_equal
bool_not, bool_and, bool_or, bool_xor     logical_not, logical_and, …, or ``~ & | ^``
mask_fill(mask, number)                   mask_where(mask, number)
bitwise_and_scalar                        bitwise_and
cast                                      astype
========================================  ===================================================
"""

from __future__ import annotations

import math
from typing import Any, Self

from pyrite.op import public
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import Axis
from pyrite.tensor.bitwise import Bitwise
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.cumulative import Cumulative
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.indexing import Indexing
from pyrite.tensor.joining import Joining
from pyrite.tensor.linalg import LinearAlgebra
from pyrite.tensor.rearrangement import Rearrangement
from pyrite.tensor.sets import Sets
from pyrite.tensor.sorting import Sorting
from pyrite.tensor.statistics import Statistics
from pyrite.tensor.truth import Truth
from pyrite.tensor.view import View
from pyrite.types import Number


class Spellings(LinearAlgebra, Sets, Statistics, Indexing, Bitwise):
    """Other libraries' names of ops."""

    __slots__ = ()

    # ---- arithmetic and comparisons ----

    sub = Arithmetic.subtract
    mul = Arithmetic.multiply
    div = Arithmetic.divide
    neg = Arithmetic.negative
    recip = Arithmetic.reciprocal
    powf = powi = Arithmetic.pow
    clamp = Arithmetic.clip
    bitwise_not = Bitwise.bitwise_invert
    is_close = Comparison.isclose
    is_nan = Comparison.isnan
    is_inf = Comparison.isinf
    is_finite = Comparison.isfinite
    all_close = Truth.allclose

    # ---- reductions, orders and running folds ----

    amax = Extremum.max
    amin = Extremum.min
    max_dim_with_indices = Extremum.max_with_indices
    min_dim_with_indices = Extremum.min_with_indices
    topk_with_indices = Sorting.topk
    cumsum = Cumulative.cumulative_sum
    cumprod = Cumulative.cumulative_prod
    logcumsumexp = Cumulative.cumulative_logsumexp

    # ---- axes ----

    unsqueeze = View.expand_dims
    movedim = View.moveaxis
    swapaxes = swap_dims = View.swap_axes
    iter_dim = Joining.unstack
    unfold = Rearrangement.sliding_window

    # ---- with other arguments ----

    @public
    def clamp_min(self, min: Self | Number, /) -> Self:
        """Return `clip` with no upper bound."""
        return self._clip(min, None)

    @public
    def clamp_max(self, max: Self | Number, /) -> Self:
        """Return `clip` with no lower bound."""
        return self._clip(None, max)

    @public
    def mask_where(self, mask: Self, value: Self | Number, /) -> Self:
        """Return the value, a tensor or a number, where the mask holds, else x; see `where`."""
        return mask._where(value, self)

    @public
    def gather(self, axis: int, indices: Self) -> Self:
        """Return `take_along_axis` with PyTorch's and Burn's order of arguments."""
        return self.take_along_axis(indices, axis)

    @public
    def index_select(self, axis: int, indices: Self) -> Self:
        """Return `take` with PyTorch's order of arguments; Burn's select."""
        return self._take(indices, axis)

    @public
    def slice_assign(self, key: Any, values: Self | Number) -> Self:
        """Return ``x.at[key].set(values)``."""
        return self.at[key].set(values)

    @public
    def slice_fill(self, key: Any, value: Number) -> Self:
        """Return ``x.at[key].set(value)``."""
        return self.at[key].set(value)

    @public
    def var_bias(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return `var` with ``correction=0``."""
        return self.var(axis, keepdims=keepdims)

    @public
    def var_mean_bias(self, axis: Axis = None, *, keepdims: bool = False) -> tuple[Self, Self]:
        """Return `var_mean` with ``correction=0``."""
        return self.var_mean(axis, keepdims=keepdims)

    @public
    def lp_norm(self, p: Number, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return `vector_norm` of order p."""
        return self.vector_norm(axis, keepdims=keepdims, ord=p)

    @public
    def l0_norm(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return the number of elements that are not 0."""
        return self.vector_norm(axis, keepdims=keepdims, ord=0)

    @public
    def l1_norm(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return the sum of magnitudes."""
        return self.vector_norm(axis, keepdims=keepdims, ord=1)

    @public
    def l2_norm(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return the Euclidean length."""
        return self.vector_norm(axis, keepdims=keepdims, ord=2)

    @public
    def max_abs_norm(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return the greatest magnitude."""
        return self.vector_norm(axis, keepdims=keepdims, ord=math.inf)

    @public
    def min_abs_norm(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return the least magnitude."""
        return self.vector_norm(axis, keepdims=keepdims, ord=-math.inf)
