"""The meaning of scatters in NumPy: the judge of their rules.

Writes go one after another, in row-major order of the indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.tensor.gathering import places_along, places_nd
from pyrite.types import Array, Shape


def _assign(out: Array, places: tuple[Array, ...], values: Array) -> None:
    out[places] = values


def _write_least(out: Array, places: tuple[Array, ...], values: Array) -> None:
    """Write minima, of which -0.0 is below 0.0: NumPy takes either."""
    has_minus = (out == 0) & np.signbit(out) if out.dtype.kind == "f" else None
    np.minimum.at(out, places, values)
    if has_minus is not None:
        np.logical_or.at(has_minus, places, (values == 0) & np.signbit(values))
        out[(out == 0) & has_minus] = -0.0


def _write_greatest(out: Array, places: tuple[Array, ...], values: Array) -> None:
    """Write maxima, of which 0.0 is above -0.0: NumPy takes either."""
    has_plus = (out == 0) & ~np.signbit(out) if out.dtype.kind == "f" else None
    np.maximum.at(out, places, values)
    if has_plus is not None:
        np.logical_or.at(has_plus, places, (values == 0) & ~np.signbit(values))
        out[(out == 0) & has_plus] = 0.0


_WRITE: dict[str, Callable[..., None]] = {
    "assign": _assign,
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": _write_least,
    "max": _write_greatest,
}


def _write(x: Any, places: tuple[Array, ...], updates: Any, shape: Shape, reduction: str) -> Array:
    out = np.array(np.broadcast_to(x, shape))
    values = np.broadcast_to(updates, out[places].shape)
    _WRITE[reduction](out, places, values)
    return out


def scattered(
    x: Any, indices: Any, updates: Any, *, shape: Shape, axis: int, reduction: str,
    asked: str = "scatter",
) -> Any:  # fmt: skip
    return _write(x, places_along(asked, shape, indices, axis), updates, shape, reduction)


def scattered_nd(x: Any, indices: Any, updates: Any, *, shape: Shape, reduction: str) -> Any:
    return _write(x, places_nd("scatter_nd", shape, indices), updates, shape, reduction)


def is_last_write(places: tuple[Array, ...], shape: Shape) -> Array:
    """Return, for each write, whether no later one goes to the same place."""
    order = np.arange(places[0].size).reshape(places[0].shape)
    latest = np.full(shape, -1)
    np.maximum.at(latest, places, order)
    return np.asarray(latest[places] == order)
