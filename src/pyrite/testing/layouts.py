"""Tensors of given values in every memory layout that views can make.

A layout is made as a user makes it: a larger tensor is uploaded, and views of it have the values.
What lies around them is poison, NaN or the greatest integer, so that whoever reads it is found out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, dtype


@dataclass(frozen=True)
class Layout:
    """A way in which the elements of a tensor lie in memory.

    ``lay`` makes a tensor of values on a device.  Where elements share a place, `settled` makes
    the values such that they can.
    """

    name: str
    lay: Callable[[Array, DeviceLike], Tensor]
    settle: Callable[[Array], Array] = np.asarray
    #: Whether it differs from a dense one, for values of a shape.
    applies: Callable[[tuple[int, ...]], bool] = lambda shape: True

    def settled(self, values: Array) -> Array:
        """Return values of the same shape that such a tensor can have."""
        return np.ascontiguousarray(self.settle(values)).reshape(values.shape)

    def __call__(self, values: Array, device: DeviceLike = None) -> Tensor:
        """Return a tensor of settled values on a device."""
        return self.lay(values, device)

    def __repr__(self) -> str:
        return self.name


def poison_of(values: Array) -> Array:
    """Return what lies around values of a dtype: NaN, the greatest integer, or True."""
    kind = dtype(values.dtype)
    return np.asarray(np.nan if kind.is_float else kind.highest).astype(values.dtype)


# ---- dense values in a larger tensor ----


def _apart(values: Array, device: DeviceLike, steps: tuple[int, ...], around: int) -> Tensor:
    """Return values that lie so many steps apart in a larger tensor, on each axis."""
    pairs = list(zip(values.shape, steps, strict=True))
    sizes = [max(n - 1, 0) * abs(step) + min(n, 1) + 2 * around for n, step in pairs]
    whole = np.full(sizes, poison_of(values), values.dtype)
    index = tuple(slice(around, around + n * step, step) for n, step in pairs)
    whole[index] = values
    return tensor(whole, device=device)[index]


def _sliced(values: Array, device: DeviceLike) -> Tensor:
    return _apart(values, device, (1,) * values.ndim, 1)


def _every_second(values: Array, device: DeviceLike) -> Tensor:
    return _apart(values, device, (*(1,) * (values.ndim - 1), 2), 0)


def _sparse(values: Array, device: DeviceLike) -> Tensor:
    return _apart(values, device, (2,) * (values.ndim - 1) + (3,), 1)


def _reversed(values: Array, device: DeviceLike) -> Tensor:
    axes = tuple(range(values.ndim))
    return _sliced(np.flip(values), device).flip(axes)


def _transposed(values: Array, device: DeviceLike) -> Tensor:
    axes = tuple(reversed(range(values.ndim)))
    return tensor(np.ascontiguousarray(values.T), device=device).permute_dims(axes)


def _channels_last(values: Array, device: DeviceLike) -> Tensor:
    """The second axis lies innermost, as images of other libraries have it."""
    moved = np.ascontiguousarray(np.moveaxis(values, 1, -1))
    order = (0, values.ndim - 1, *range(1, values.ndim - 1))
    return tensor(moved, device=device).permute_dims(order)


#: Elements before those of `offset`: no multiple of any vector's width.
OFFSET = 3


def _offset(values: Array, device: DeviceLike) -> Tensor:
    whole = np.full(values.size + 2 * OFFSET, poison_of(values), values.dtype)
    whole[OFFSET : OFFSET + values.size] = values.ravel()
    return tensor(whole, device=device)[OFFSET : OFFSET + values.size].reshape(values.shape)


def drawn_order(rng: random.Random, ndim: int) -> Layout:
    """Return a layout whose axes lie in a drawn order, each in drawn steps in a larger tensor.

    Half of the time all steps are 1, with nothing around: a dense tensor turned.
    """
    order = rng.sample(range(ndim), ndim)
    is_dense = rng.random() < 0.5
    steps = tuple(1 if is_dense else rng.choice((1, 1, 1, -1, 2, -2, 3)) for _ in range(ndim))
    around = 0 if is_dense else rng.choice((0, 1))
    back = tuple(map(order.index, range(ndim)))
    reversed_axes = tuple(axis for axis, step in enumerate(steps) if step < 0)

    def lay(values: Array, device: DeviceLike) -> Tensor:
        moved = np.flip(values.transpose(order), reversed_axes)
        found = _apart(moved, device, tuple(map(abs, steps)), around)
        return found.flip(reversed_axes).permute_dims(back)

    name = f"axes {order} in memory, steps {steps}" + (", in a larger tensor" if around else "")
    return Layout(name, lay)


# ---- elements that share a place ----


def _first(values: Array, axes: tuple[int, ...]) -> Array:
    """Return the first elements on axes, each of size 1."""
    index = [slice(None)] * values.ndim
    for axis in axes:
        index[axis] = slice(0, 1)
    return values[tuple(index)]


def _stretched(name: str, axes_of: Callable[[int], tuple[int, ...]]) -> Layout:
    def settle(values: Array) -> Array:
        return np.broadcast_to(_first(values, axes_of(values.ndim)), values.shape)

    def lay(values: Array, device: DeviceLike) -> Tensor:
        return _sliced(_first(values, axes_of(values.ndim)), device).broadcast_to(values.shape)

    def applies(shape: tuple[int, ...]) -> bool:
        return any(shape[axis] > 1 for axis in axes_of(len(shape)))

    return Layout(name, lay, settle, applies)


def _first_axis(ndim: int) -> tuple[int, ...]:
    return (0,) if ndim > 1 else ()


def _last_axis(ndim: int) -> tuple[int, ...]:
    return (ndim - 1,) if ndim > 1 else ()


def _all_but_two(ndim: int) -> tuple[int, ...]:
    """The axes behind the second, of which the cotangent of a global pool has one value."""
    return tuple(range(2, ndim)) if ndim > 3 else ()


def _has(least: int) -> Callable[[tuple[int, ...]], bool]:
    return lambda shape: len(shape) >= least


#: Every layout, by name.
LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("dense", lambda values, device: tensor(values, device=device)),
        Layout("offset", _offset),
        Layout("sliced", _sliced, applies=_has(1)),
        Layout("every second", _every_second, applies=_has(1)),
        Layout("sparse", _sparse, applies=_has(1)),
        Layout("reversed", _reversed, applies=_has(1)),
        Layout("transposed", _transposed, applies=_has(2)),
        Layout("channels last", _channels_last, applies=_has(3)),
        _stretched("broadcast on the first axis", _first_axis),
        _stretched("broadcast on the last axis", _last_axis),
        _stretched("broadcast on the axes behind the second", _all_but_two),
        _stretched("broadcast on all axes", lambda ndim: tuple(range(ndim))),
    )
}
