"""Einstein summation: any sum of products, written with one letter for each axis.

opt_einsum chooses the order of pairs; each pair is one matrix product between rearrangements.
"""

from __future__ import annotations

import functools
import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, public, sample
from pyrite.tensor.contraction import Contraction
from pyrite.tensor.gradient import in_dtype
from pyrite.types import Shape, TensorType

T = TypeVar("T", bound=Contraction)


@public
def einsum(equation: str, *operands: T) -> T:
    """Return the sum of products that an equation says: ``einsum("ij,jk->ik", x, y)`` is ``x @ y``.

    Each letter is an axis; letters that the right side lacks are summed over, and a letter twice in
    one term means its diagonal.  "..." stands for further axes, which broadcast; so do axes of
    size 1.  Without "->" the result has the letters that occur once, in alphabetic order.

    Raises ArgumentError for a malformed equation, ShapeError where it does not fit the shapes.

    >>> import pyrite
    >>> einsum("ii->", pyrite.tensor([[1, 2], [3, 4]])).item()
    5
    """
    return _einsum(*operands, equation=equation)  # type: ignore[no-any-return]


# ---- the equation ----


def _explicit(*types: TensorType, equation: str) -> Attributes:
    """Write the equation with letters only: no blanks, no "...", and with its right side."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(types):
        raise ArgumentError(
            f"einsum requires one term per operand, got {equation!r} with {len(terms)} terms for "
            f"{len(types)} operands"
        )
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ArgumentError(f"einsum requires terms of letters and one '...', got {equation!r}")
    ranks = [_ellipsis_rank(term, t, equation) for term, t in zip(terms, types, strict=True)]
    unused = [letter for letter in string.ascii_letters if letter not in equation]
    ellipsis = "".join(unused[: max(ranks)])
    terms = [
        term.replace("...", ellipsis[len(ellipsis) - rank :])
        for term, rank in zip(terms, ranks, strict=True)
    ]
    right = right.replace("...", ellipsis) if arrow else ellipsis + _implied(left)
    if len(set(right)) != len(right) or not set(right) <= set("".join(terms)):
        raise ArgumentError(
            f"einsum requires each letter of the result once and in a term, got {equation!r}"
        )
    return {"equation": f"{','.join(terms)}->{right}"}


def _ellipsis_rank(term: str, type: TensorType, equation: str) -> int:
    rank = type.ndim - len(term.replace("...", ""))
    if rank < 0 or (rank > 0 and "..." not in term):
        raise ShapeError(
            f"einsum requires one letter per axis, got {term!r} of {equation!r} for {type.shape}"
        )
    return rank


def _implied(left: str) -> str:
    counts = Counter(left)
    return "".join(sorted(c for c in counts if c.isalpha() and counts[c] == 1))


def _parse(equation: str) -> tuple[list[str], str]:
    left, _, right = equation.partition("->")
    return left.split(","), right


def _sizes(terms: Sequence[str], shapes: Sequence[Shape], equation: str) -> dict[str, int]:
    """Return the size of each letter, the broadcast of all axes that bear it."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            known = sizes.get(letter, 1)
            if 1 not in (known, size) and known != size:
                got = " and ".join(map(str, shapes))
                raise ShapeError(
                    f"einsum requires one size for {letter!r} of {equation!r}, got {got}"
                )
            sizes[letter] = size if known == 1 else known
    return sizes


def _einsum_type(*types: TensorType, equation: str) -> TensorType:
    terms, right = _parse(equation)
    sizes = _sizes(terms, [t.shape for t in types], equation)
    return TensorType(tuple(sizes[letter] for letter in right), types[0].dtype)


@functools.lru_cache(maxsize=256)
def _order(equation: str, shapes: tuple[Shape, ...]) -> list[tuple[int, int]]:
    """Return which two factors to multiply, step by step; products go to the end."""
    if len(shapes) == 1:
        return []
    import opt_einsum  # 10 ms that an import of Pyrite need not pay

    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True)
    return [(i, j) for i, j in path]


# ---- its meaning ----


@composite(
    infer=_einsum_type,
    canonical=_explicit,
    accepts="number",
    promotes="all",
    samples=(
        sample((2, 3), (3, 4), equation="ij,jk->ik"),
        sample((2, 3, 3), equation="bii->b"),
        sample((2, 3), (3, 4), (4, 2), equation="ij,jk,ki->"),
        sample((2, 1, 3), (4, 3), equation="...i,...i->..."),
        sample((2, 3), equation="ji"),
    ),
)
def _einsum(*operands: Any, equation: str) -> Any:
    """The sum of products that the equation says."""
    terms, right = _parse(equation)
    sizes = _sizes(terms, [x.shape for x in operands], equation)
    factors = [_plain(x, term, sizes) for x, term in zip(operands, terms, strict=True)]
    left = ",".join(term for _, term in factors)
    for i, j in _order(f"{left}->{right}", tuple(x.shape for x, _ in factors)):
        y, x = factors.pop(max(i, j)), factors.pop(min(i, j))
        factors.append(_product(x, y, set(right).union(*(term for _, term in factors))))
    ((x, term),) = factors
    x, term = _summed(x, term, set(right))
    x = x.permute_dims(tuple(term.index(letter) for letter in right))
    return in_dtype(x, operands[0].dtype)


def _plain(x: Any, term: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """Return the factor without axes that broadcast, and with each letter once."""
    pairs = [
        (letter, n) for letter, n in zip(term, x.shape, strict=True) if n != 1 or sizes[letter] == 1
    ]
    term = "".join(letter for letter, _ in pairs)
    x = x.reshape(tuple(n for _, n in pairs))
    for letter in sorted({c for c in term if term.count(c) > 1}):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = x.diagonal(0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


def _summed(x: Any, term: str, kept: set[str]) -> tuple[Any, str]:
    """Return the factor summed over the letters that nobody else has."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in kept)
    if not axes:
        return x, term
    return x.sum(axes), "".join(letter for letter in term if letter in kept)


def _product(left: tuple[Any, str], right: tuple[Any, str], kept: set[str]) -> tuple[Any, str]:
    """Return two factors multiplied, summed over the letters that are not kept."""
    x, of_x = _summed(*left, kept | set(right[1]))
    y, of_y = _summed(*right, kept | set(left[1]))
    batch = [c for c in of_x if c in of_y and c in kept]
    inner = [c for c in of_x if c in of_y and c not in kept]
    rows = [c for c in of_x if c not in of_y]
    columns = [c for c in of_y if c not in of_x]
    sizes = dict(zip(of_x, x.shape, strict=True)) | dict(zip(of_y, y.shape, strict=True))

    def count(letters: list[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    x = x.permute_dims(tuple(of_x.index(c) for c in batch + rows + inner))
    y = y.permute_dims(tuple(of_y.index(c) for c in batch + inner + columns))
    x = x.reshape((count(batch), count(rows), count(inner)))
    y = y.reshape((count(batch), count(inner), count(columns)))
    # Nothing to sum: a product of elements, which is not a matrix product with one column.
    product = x @ y if inner else x * y
    term = "".join(batch + rows + columns)
    return product.reshape(tuple(sizes[c] for c in term)), term
