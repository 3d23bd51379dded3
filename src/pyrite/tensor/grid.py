"""Tensors made of coordinates: masks and matrices by their diagonals, grids of points.

Arguments are as in `creation`.
"""

from __future__ import annotations

from typing import Literal

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import public
from pyrite.tensor.creation import ShapeLike, arange, float_or_default, full, zeros
from pyrite.tensor.joining import stack
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike, Shape, default_int, normalize_shape

# ---- matrices and masks ----


@public
def eye(
    rows: int,
    columns: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return ones on diagonal k and zeros elsewhere: (rows, columns), columns = rows by default.

    >>> eye(2, 3, k=1).numpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shape = normalize_shape("eye", (rows, rows if columns is None else columns))
    return _masked(shape, (k, k), device).astype(float_or_default(dtype))


@public
def tril_mask(shape: ShapeLike, *, offset: int = 0, device: DeviceLike = None) -> Tensor:
    """Return a bool mask that is True on and below a diagonal: where `tril` keeps.

    Burn's function of this name is the complement: True where ``mask_fill`` is to fill.
    """
    return _masked(normalize_shape("tril_mask", shape), (None, offset), device)


@public
def triu_mask(shape: ShapeLike, *, offset: int = 0, device: DeviceLike = None) -> Tensor:
    """Return a bool mask that is True on and above a diagonal: where `triu` keeps.

    Burn's function of this name is the complement: True where ``mask_fill`` is to fill.
    """
    return _masked(normalize_shape("triu_mask", shape), (offset, None), device)


@public
def diag_mask(shape: ShapeLike, *, offset: int = 0, device: DeviceLike = None) -> Tensor:
    """Return a bool mask that is True on a diagonal.  Burn's is the complement."""
    return _masked(normalize_shape("diag_mask", shape), (offset, offset), device)


def _masked(shape: Shape, band: tuple[int | None, int | None], where: DeviceLike) -> Tensor:
    return full(shape, True, device=where)._band(*band)


@public
def tri(
    rows: int,
    columns: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return ones on and below diagonal k and zeros above: (rows, columns)."""
    shape = (rows, rows if columns is None else columns)
    return tril_mask(shape, offset=k, device=device).astype(float_or_default(dtype))


# ---- grids ----


@public
def meshgrid(*axes: Tensor, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Return the coordinates of a grid, one tensor for each of n vectors.

    With "ij" all have shape (n0, n1, ...); with "xy", the default as in the standard, the first two
    axes are swapped.  Raises ShapeError unless each is a vector.

    >>> [g.shape for g in meshgrid(arange(2), arange(3), indexing="ij")]
    [(2, 3), (2, 3)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid requires indexing of 'xy' or 'ij', got {indexing!r}")
    if wrong := [x.shape for x in axes if x.ndim > 1]:
        raise ShapeError(f"meshgrid requires vectors, got shape {wrong[0]}")
    vectors = [x.flatten() for x in axes]
    shape = tuple(x.size for x in vectors)
    grids = [
        x.reshape(tuple(-1 if a == i else 1 for a in range(len(vectors)))).broadcast_to(shape)
        for i, x in enumerate(vectors)
    ]
    swap = indexing == "xy" and len(grids) > 1
    return [grid.swap_axes(0, 1) if swap else grid for grid in grids]


@public
def cartesian_grid(shape: ShapeLike, *, device: DeviceLike = None) -> Tensor:
    """Return the index of every element of a shape, int32 (*shape, rank).

    >>> cartesian_grid((2, 2)).numpy().tolist()
    [[[0, 0], [0, 1]], [[1, 0], [1, 1]]]
    """
    sizes = normalize_shape("cartesian_grid", shape)
    if not sizes:
        return zeros((0,), dtype=default_int, device=device)
    ranges = [arange(n, device=device) for n in sizes]
    return stack(meshgrid(*ranges, indexing="ij"), -1)
