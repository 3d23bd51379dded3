"""Augmentation: a random change of an image, and of the mask and the boxes that belong to it.

An augmentation draws its numbers first and gives a Change: functions of pixels, of masks and of
points.  All that belongs to one image is changed by one Change, so mask and boxes stay in place.

Invariant: an augmentation has no state; what it does depends on its settings, the shape of the
pixels and the draws only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite.data.augment.host_array import HostArray, host_array
from pyrite.data.collate import item_fields
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor.tensor import Tensor

Pixels = NDArray[Any]
"""An image: (C, H, W), float in [0, 1] or uint8."""


IGNORED = 255
"""What a mask is filled with where it lies outside of the image: no class."""


def unchanged(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself: what a change of colours does to masks and points."""
    return array


class Change(NamedTuple):
    """What an augmentation does to one item, its numbers being drawn.

    pixels maps (C, H, W) -> (C, H', W'), mask (H, W) -> (H', W'), and points (n, 2) -> (n, 2) maps
    x and y, which count from the image's upper left corner: pixel i reaches from i to i + 1.
    """

    pixels: Callable[[Pixels], Pixels]
    mask: Callable[[NDArray[Any]], NDArray[Any]] = unchanged
    points: Callable[[NDArray[Any]], NDArray[Any]] = unchanged


NO_CHANGE = Change(unchanged)
"""What a flip that was not drawn does."""


class Transform(Protocol):
    """What changes an item by draws: an augmentation, several of them, or a function."""

    def __call__(self, item: Any, draws: Draws, /) -> Any:
        """Return the changed item."""
        ...


class Augmentation(ABC):
    """A random change of an image: `augmentation(item, draws)`.

    The item is an array or a tensor of pixels (C, H, W); or a tuple, NamedTuple, dataclass or dict
    whose field `pixels` (of a plain tuple the first) is one.  Its fields `mask` (H, W) and `boxes`
    (n, 4: left, top, right, bottom, in pixels) change alike; boxes are cut to the image, and those
    of which nothing is left are dropped, with their `labels`.  A field that does not change is
    kept; a tensor stays one of its dtype on its device, but is changed on the host.

    A subclass defines `change`.
    """

    @abstractmethod
    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return what happens to an image of shape (C, H, W), by the next numbers of draws."""

    def __call__(self, item: Any, draws: Draws, /) -> Any:
        """Return the item, changed.

        Raises ShapeError or DTypeError if the item has no pixels (C, H, W), or a mask or boxes that
        do not fit them; GradientError for tensors that are tracked.
        """
        name = type(self).__name__
        if isinstance(item, np.ndarray | Tensor):
            pixels = _checked_pixels(item, name)
            changed = self.change(pixels.array.shape, draws).pixels(pixels.array)
            return pixels.restore(changed)
        if not isinstance(item, tuple | dict) and not hasattr(item, "pixels"):
            raise DTypeError(
                f"{name} requires pixels (C, H, W) or an item with them, got {type(item).__name__}"
            )
        return _changed_record(self, item, draws, name)


class Compose:
    """Steps one after another: `Compose(RandomCrop(28, padding=2), RandomHorizontalFlip())`."""

    def __init__(self, *steps: Transform) -> None:
        self.steps = steps

    def __call__(self, item: Any, draws: Draws, /) -> Any:
        """Return the item after all steps."""
        for step in self.steps:
            item = step(item, draws)
        return item

    def __repr__(self) -> str:
        """Return the steps."""
        return f"Compose({', '.join(map(repr, self.steps))})"


class OneOf:
    """One of the steps, each as likely: `OneOf(Mixup(0.2, 10), CutMix(1.0, 10))`."""

    def __init__(self, *steps: Transform) -> None:
        if not steps:
            raise ArgumentError("OneOf requires at least one step, got none")
        self.steps = steps

    def __call__(self, item: Any, draws: Draws, /) -> Any:
        """Return the item after the step that is drawn."""
        return self.steps[draws.integer(len(self.steps))](item, draws)

    def __repr__(self) -> str:
        """Return the steps."""
        return f"OneOf({', '.join(map(repr, self.steps))})"


def require_probability(name: str, p: float) -> None:
    """Raise ArgumentError unless 0 <= p <= 1."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"{name} requires 0 <= p <= 1, got p={p}")


def _changed_record(augmentation: Augmentation, item: Any, draws: Draws, name: str) -> Any:
    keys, values, rebuild = item_fields(item)
    names = getattr(item, "_fields", keys)
    found = {field: values[key] for field, key in zip(names, keys, strict=True)}
    pixels_name = "pixels" if "pixels" in found else next(iter(found), None)
    if pixels_name not in ("pixels", 0):
        raise DTypeError(f"{name} requires an item with a field pixels, got fields {list(names)}")
    pixels = _checked_pixels(found[pixels_name], name)
    change = augmentation.change(pixels.array.shape, draws)
    changed = change.pixels(pixels.array)
    found[pixels_name] = pixels.restore(changed)
    if "mask" in found:
        mask = _checked_mask(found["mask"], pixels.array.shape[-2:], name)
        found["mask"] = mask.restore(change.mask(mask.array))
    if "boxes" in found:
        boxes = _checked_boxes(found["boxes"], name)
        moved, kept = moved_boxes(boxes.array, change.points, changed.shape[-2:])
        found["boxes"] = boxes.restore(moved)
        if "labels" in found:
            labels = host_array(found["labels"], name)
            found["labels"] = labels.restore(labels.array[kept])
    return rebuild([found[field] for field in names])


def moved_boxes(
    boxes: NDArray[Any],
    points: Callable[[NDArray[Any]], NDArray[Any]],
    size: tuple[int, ...],
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the boxes around the moved corners, cut to size (H, W), and which of them are left.

    (n, 4) -> (k, 4) and bool (n,).
    """
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)
    moved = points(corners).reshape(-1, 4, 2) if len(boxes) else np.empty((0, 4, 2), boxes.dtype)
    limit = np.array(size[::-1], boxes.dtype)
    low = np.clip(moved.min(axis=1), 0, limit)
    high = np.clip(moved.max(axis=1), 0, limit)
    kept = (high > low).all(axis=1)
    return np.concatenate([low, high], axis=1)[kept].astype(boxes.dtype), kept


def _checked_pixels(pixels: Any, name: str) -> HostArray:
    if not isinstance(pixels, np.ndarray | Tensor):
        raise DTypeError(
            f"{name} requires pixels as an array or a tensor, got {type(pixels).__name__}"
        )
    if pixels.ndim != 3:
        raise ShapeError(
            f"{name} requires pixels (C, H, W), got shape {pixels.shape}; "
            "augment items, not batches: DataLoader(..., augment=...)"
        )
    return host_array(pixels, name)


def _checked_mask(mask: Any, size: tuple[int, ...], name: str) -> HostArray:
    found = host_array(mask, name)
    shape, dtype = found.array.shape, found.array.dtype
    if shape != size:
        raise ShapeError(f"{name} requires a mask {size}, got shape {shape}")
    if dtype.kind not in "iu" or np.iinfo(dtype).max < IGNORED:
        raise DTypeError(
            f"{name} requires a mask of integers that hold {IGNORED}, got {dtype}; "
            "cast it: mask.astype(np.uint8)"
        )
    return found


def _checked_boxes(boxes: Any, name: str) -> HostArray:
    found = host_array(boxes, name)
    shape, dtype = found.array.shape, found.array.dtype
    if len(shape) != 2 or shape[1] != 4 or dtype.kind != "f":
        raise ShapeError(f"{name} requires float boxes (n, 4), got {dtype} {shape}")
    return found
