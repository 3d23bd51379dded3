"""Folds through maps on a device: by rows of windows that slide or cover, or by maps of any form.

One window that is the whole of its axes is a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.fold import KernelFold, reduce_results
from pyrite.backend.cube.skeleton.window.axis import Axes, Bounds, covering, is_whole
from pyrite.backend.cube.skeleton.window.pool import PoolFold, pool
from pyrite.backend.cube.skeleton.window.sliding import slide_of
from pyrite.backend.cube.skeleton.window.taps import fold_taps
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.index import Windows, covering_windows, number_of
from pyrite.op.rule.window import count_dtype
from pyrite.types import Number, TensorType


def fold_windows(
    launcher: Launcher,
    name: str,
    fold: KernelFold,
    in_order: KernelFold,
    windows: Windows,
    neutral: Number | None,
    x: CubeTensor,
    types: Sequence[TensorType],
) -> list[CubeTensor]:
    """Return the folds of windows of x, as dense tensors of types.

    ``in_order`` is the same fold, for elements that come in the order of their taps.
    """
    axes, bounds = axes_of(name, windows), bounds_of(windows)
    if axes is not None and bounds is not None and has_places(windows, len(axes)):
        if is_whole(axes):
            return _whole(launcher, fold, windows, x, types)
        targets = [launcher.empty(type) for type in types]
        pool(
            launcher,
            PoolFold(in_order, count_dtype(x.dtype.compute), bounds, neutral),
            axes,
            x,
            targets,
        )
        return targets
    targets = [launcher.empty(type) for type in types]
    fold_taps(launcher, in_order, windows, x, targets)
    return targets


def _whole(
    launcher: Launcher, fold: KernelFold, windows: Windows, x: CubeTensor,
    types: Sequence[TensorType],
) -> list[CubeTensor]:  # fmt: skip
    """Return the folds of windows that are all of the last axes."""
    count = windows.common_count
    assert count is not None, "there is one window"
    whole = replace(fold, bound=fold.bound.ending(count=float(count), first=0))
    axes = tuple(range(len(x.shape) - windows.taps, len(x.shape)))
    return reduce_results(launcher, whole, x, axes, types)


def axes_of(name: str, windows: Windows) -> Axes | None:
    """Return how windows slide over the last axes, or cover them; None where they do neither."""
    slide = slide_of(windows.index, windows.taps)
    if slide is not None:
        return slide.axes
    source, shape = windows.index.source, windows.shape
    lead = len(source) - windows.taps
    if len(shape) != len(source) or 0 in shape or lead < 0:
        return None
    if covering_windows(source, shape[lead:]).index != windows.index:
        return None
    return covering(name, source[lead:], shape[lead:])


def bounds_of(windows: Windows) -> Bounds | None:
    """Return which positions of each axis count, None where bounds are not of single positions."""
    index = windows.index
    lead = len(index.source) - windows.taps
    sizes, places = index.source[lead:], index.places[lead:]
    if windows.counted is None:
        return tuple((0, n) for n in sizes)
    found = {bound.form: (bound.low, bound.high) for bound in windows.counted}
    pairs = [found.pop(place, (None, None)) for place in places]
    known = [(low, high) for low, high in pairs if low is not None and high is not None]
    return tuple(known) if len(known) == len(places) and not found else None


def has_places(windows: Windows, rank: int) -> bool:
    """Whether the positions of elements are their places in an image."""
    index = windows.index
    lead = len(index.source) - rank
    return windows.place == number_of(index.places[lead:], index.source[lead:])
