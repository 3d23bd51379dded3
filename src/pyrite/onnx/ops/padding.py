"""Padding: more elements at the ends of axes, or fewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import ArgumentError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Host, Scalar, converts
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


@converts("Pad", since=11)
def pad(
    data: Tensor,
    pads: Host,
    value: Scalar | None = None,
    axes: Host | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Return the tensor with more elements at both ends of its axes, or with fewer."""
    at = range(data.ndim) if axes is None else [int(a) % data.ndim for a in axes]
    return _padded(data, pads.reshape(-1).tolist(), list(at), mode, value)


@converts("Pad", since=2)
def pad_2(
    data: Tensor, *, mode: str = "constant", pads: Sequence[int], value: float = 0.0
) -> Tensor:
    """Return the tensor with more elements at both ends of its axes."""
    return _padded(data, pads, list(range(data.ndim)), mode, value)


@converts("Pad", since=1)
def pad_1(
    data: Tensor, *, mode: str = "constant", paddings: Sequence[int], value: float = 0.0
) -> Tensor:
    """Return the tensor with more elements at both ends of its axes."""
    return _padded(data, paddings, list(range(data.ndim)), mode, value)


def _padded(
    data: Tensor, pads: Sequence[int], axes: Sequence[int], mode: str, value: Any
) -> Tensor:
    widths = [(0, 0)] * data.ndim
    for position, axis in enumerate(axes):
        widths[axis] = (pads[position], pads[position + len(axes)])
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            start, end = max(-before, 0), data.shape[axis] - max(-after, 0)
            data = data.narrow(axis, start, max(end - start, 0))
    widths = [(max(before, 0), max(after, 0)) for before, after in widths]
    sizes = (n + sum(width) for n, width in zip(data.shape, widths, strict=True))
    require_bounded("Pad", tuple(sizes), data.size)
    if mode == "constant":
        return _padded_with(data, widths, 0 if value is None else value)
    for axis, width in enumerate(widths):
        if any(width):
            data = _extended(data, axis, width, mode)
    return data


def _padded_with(data: Tensor, widths: list[tuple[int, int]], value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        return data.pad(widths, value=value) if data.ndim else data
    # A value that is only known on the device: pad where the data is, and choose.
    inside = functions.ones_like(data, dtype=types.bool_).pad(widths, value=False)
    return functions.where(inside, data.pad(widths), value.reshape(()))


def _extended(data: Tensor, axis: int, width: tuple[int, int], mode: str) -> Tensor:
    """Return an axis made longer by its own elements, of which it may need several rounds."""
    if mode not in _SOURCES:
        modes = ", ".join(["constant", *_SOURCES])
        raise ArgumentError(f"Pad requires a mode of {modes}, got {mode!r}")
    size = data.shape[axis]
    where = _SOURCES[mode](np.arange(-width[0], size + width[1]), size)
    index = functions.tensor(where.astype(np.int32), device=data.device)
    return data.take(index, axis)


def _reflected(where: Array, size: int) -> Array:
    """Return positions that go back at both ends, and meet each end once."""
    period = max(2 * size - 2, 1)
    return np.abs((where + size - 1) % period - size + 1) if size > 1 else where * 0


#: By mode: which element of an axis of some size stands at each position, ends included.
_SOURCES: Mapping[str, Callable[[Array, int], Array]] = {
    "reflect": _reflected,
    "edge": lambda where, size: where.clip(0, size - 1),
    "wrap": lambda where, size: where % size,
}
