"""Embeddings: a vector for each of a set of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.nn.init import Initializer, Normal, Words, positive
from pyrite.nn.layer import Layer
from pyrite.tensor.embedding_bag import BagMode, embedding_bag
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DTypeLike, Shape


class _Table(Layer):
    """A row for each of a number of integers; the row of ``padding_idx`` starts from 0."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        initializer: Initializer | None,
        dtype: DTypeLike | None,
        device: DeviceLike,
    ) -> None:
        name = type(self).__name__
        positive(name, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(
                f"{name} requires -{num_embeddings} <= padding_idx < {num_embeddings}, "
                f"got {padding_idx}"
            )
        draw: Initializer = initializer or Normal()
        if padding_idx is not None:
            padding_idx %= num_embeddings
            draw = _WithZeroRow(draw, padding_idx)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight: Parameter = draw.parameter(
            (num_embeddings, embedding_dim), dtype=dtype, device=device
        )


class Embedding(_Table):
    """Rows of a table by integer: (...) -> (..., embedding_dim).

    weight: (num_embeddings, embedding_dim), normal with standard deviation 1.  The row at
    ``padding_idx`` starts from 0 and gets no gradient from here.

    Raises DTypeError for indices that are not integers, IndexRangeError for those without a row.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Embedding(10, 4)(pyrite.tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, initializer, dtype, device)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the rows."""
        table: Tensor = self.weight
        rows = table.embedding(indices)
        if self.padding_idx is None:
            return rows
        is_padding = (indices == self.padding_idx).expand_dims(-1)
        return rows.detach().where(is_padding, rows)


class EmbeddingBag(_Table):
    """One row for each bag of integers: (bags, K) -> (bags, embedding_dim).

    With offsets (bags,) the integers are (K,), and a bag reaches from its offset to the next one.
    ``mode`` is "sum", "mean" or "max"; integers of ``padding_idx`` count for nothing, and a bag in
    which nothing counts gives zeros.  weight: as of `Embedding`.

    >>> import pyrite
    >>> from pyrite import nn
    >>> words, offsets = pyrite.tensor([1, 2, 3, 1]), pyrite.tensor([0, 3])
    >>> nn.EmbeddingBag(10, 4)(words, offsets).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        mode: BagMode = "mean",
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, initializer, dtype, device)
        if mode not in get_args(BagMode):
            raise ArgumentError(
                f"EmbeddingBag requires mode of {', '.join(get_args(BagMode))}, got {mode!r}"
            )
        self.mode: BagMode = mode

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return a row for each bag; per_sample_weights multiply the rows of a sum."""
        return embedding_bag(
            self.weight, indices, offsets, per_sample_weights=per_sample_weights, mode=self.mode,
            padding_idx=self.padding_idx,
        )  # fmt: skip


@dataclass(frozen=True)
class _WithZeroRow(Initializer):
    """The values of another initialiser, with one row of zeros."""

    inner: Initializer
    row: int

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        found = self.inner.values(shape, fan_in, fan_out, words)
        found[self.row] = 0
        return found
