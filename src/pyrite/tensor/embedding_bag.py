"""Bags of embeddings: rows of a table, reduced to one row for each bag of indices."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, composite, integers, public, sample
from pyrite.tensor.creation import arange
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

#: How the rows of a bag become one.
BagMode = Literal["sum", "mean", "max"]

_OP = "embedding_bag"


def _canonical(
    weight: TensorType, *rest: TensorType | None, mode: str, padding_idx: int | None
) -> Attributes:
    if mode not in get_args(BagMode):
        raise ArgumentError(f"{_OP} requires mode of {', '.join(get_args(BagMode))}, got {mode!r}")
    rows = weight.shape[0] if weight.ndim else 0
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ArgumentError(
            f"{_OP} requires {-rows} <= padding_idx < {rows}, the number of rows, got {padding_idx}"
        )
    padding_idx = None if padding_idx is None else padding_idx % rows
    return {"mode": mode, "padding_idx": padding_idx}


def _type(
    weight: TensorType,
    indices: TensorType,
    offsets: TensorType | None,
    weights: TensorType | None,
    *,
    mode: str,
    padding_idx: int | None,
) -> TensorType:
    if weight.ndim != 2:
        raise ShapeError(f"{_OP} requires a weight (rows, features), got {weight.shape}")
    for name, t in (("indices", indices), ("offsets", offsets)):
        if t is not None and not t.dtype.is_integer:
            raise DTypeError(f"{_OP} requires {name} of an integer dtype, got {t.dtype.name}")
    if indices.ndim != (2 if offsets is None else 1):
        raise ShapeError(
            f"{_OP} requires indices (bags, K), or (K,) with offsets (bags,), got {indices.shape}"
            + ("" if offsets is None else " with offsets")
        )
    if offsets is not None and offsets.ndim != 1:
        raise ShapeError(f"{_OP} requires offsets (bags,), got {offsets.shape}")
    if weights is not None and mode != "sum":
        raise ArgumentError(f"{_OP} requires mode='sum' with per_sample_weights, got {mode!r}")
    if weights is not None and weights.shape != indices.shape:
        raise ShapeError(
            f"{_OP} requires per_sample_weights of shape {indices.shape}, one for each index, got "
            f"{weights.shape}"
        )
    bags = indices.shape[0] if offsets is None else offsets.shape[0]
    return TensorType((bags, weight.shape[1]), weight.dtype)


@public
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None = None,
    *,
    per_sample_weights: Tensor | None = None,
    mode: BagMode = "mean",
    padding_idx: int | None = None,
) -> Tensor:
    """Return one row for each bag: the rows of a weight at its indices, summed, averaged or maxed.

    Weight (rows, features) and indices (bags, K) -> (bags, features).  With ``offsets`` (bags,) the
    indices are (K,), and a bag reaches from its offset to the next one; offsets ascend from 0.
    ``per_sample_weights``, of the shape of the indices, multiply the rows of a sum.  An index of
    ``padding_idx`` counts for nothing; a bag in which nothing counts is a row of zeros.  Rows that
    attain a maximum share its gradient, where PyTorch gives it to the first.

    Raises ShapeError, DTypeError, and IndexRangeError for an index without a row and for indices
    before the first offset.

    >>> import pyrite
    >>> table = pyrite.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> words, offsets = pyrite.tensor([0, 1, 2]), pyrite.tensor([0, 1, 3])
    >>> pyrite.embedding_bag(table, words, offsets, mode="sum").tolist()
    [[1.0, 2.0], [8.0, 10.0], [0.0, 0.0]]
    """
    return _embedding_bag(
        weight, indices, offsets, per_sample_weights, mode=mode, padding_idx=padding_idx
    )


@composite(
    infer=_type,
    canonical=_canonical,
    accepts="float",
    promotes=(0, 3),
    samples=(
        sample((4, 3), integers((2, 2), 0, 4), None, None, mode="mean", padding_idx=None),
        sample((4, 3), integers((3, 2), 0, 2), None, (3, 2), mode="sum", padding_idx=1),
        sample((4, 3), integers((5,), 0, 4), integers((1,), 0, 1), (5,), mode="sum",
               padding_idx=None),
        sample((4, 3), integers((5,), 0, 4), integers((2,), 0, 1), None, mode="mean",
               padding_idx=0),
    ),
)  # fmt: skip
def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None,
    per_sample_weights: Tensor | None,
    /,
    *,
    mode: str,
    padding_idx: int | None,
) -> Tensor:
    """A row for each bag of indices."""
    rows = widened(weight.embedding(indices))
    if per_sample_weights is not None:
        rows = rows * widened(per_sample_weights).expand_dims(-1)
    # Without padding all count, also what is no number: an integer equals itself.
    counts = indices.equal(indices) if padding_idx is None else indices.not_equal(padding_idx)
    bags = _Listed(indices) if offsets is None else _Offset(indices, offsets)
    found: Tensor = _reduced(rows, counts.expand_dims(-1), bags, mode)
    return in_dtype(found, weight.dtype)


def _reduced(rows: Any, counts: Any, bags: Any, mode: str) -> Any:
    """Return the rows that count, reduced by bag; 0 where none does."""
    if mode == "sum":
        return bags.sum(counts._where(rows, 0.0))
    number = bags.sum(counts.astype(rows.dtype))
    if mode == "mean":
        return bags.sum(counts._where(rows, 0.0)) / number.maximum(1.0)
    return number.equal(0.0)._where(0.0, bags.max(counts._where(rows, -math.inf)))


class _Listed:
    """Bags of one length: (bags, K)."""

    def __init__(self, indices: Any) -> None:
        self.is_empty = indices.shape[1] == 0

    def sum(self, rows: Any) -> Any:
        """Return sums by bag: (bags, K, F) -> (bags, F)."""
        return rows.sum(1)

    def max(self, rows: Any) -> Any:
        """Return maxima by bag, -inf of none: (bags, K, F) -> (bags, F)."""
        return rows.sum(1) - math.inf if self.is_empty else rows.max(1)


class _Offset:
    """Bags from offset to offset: (K,), and where each begins."""

    def __init__(self, indices: Any, offsets: Any) -> None:
        (self.count,) = offsets.shape
        places = arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
        bag = offsets._searchsorted(places, side="right") - 1
        # An index before the first offset is in no bag: its number is made one that there is not.
        self.of = bag.less(0)._where(self.count, bag).expand_dims(-1)

    def sum(self, rows: Any) -> Any:
        """Return sums by bag: (K, F) -> (bags, F)."""
        shape = (self.count, rows.shape[-1])
        return type(rows)._scatter(
            0.0, self.of, rows, shape=shape, axis=0, reduction="add", asked=_OP
        )

    def max(self, rows: Any) -> Any:
        """Return maxima by bag, -inf of none: (K, F) -> (bags, F)."""
        shape = (self.count, rows.shape[-1])
        return type(rows)._scatter_reduce(
            -math.inf, self.of, rows, shape=shape, axis=0, reduction="max"
        )
