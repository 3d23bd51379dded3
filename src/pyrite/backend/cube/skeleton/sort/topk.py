"""The first few of the order of an axis: the way that is quickest for a machine."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.order import argsort_axis
from pyrite.backend.cube.skeleton.sort.pruning import (
    PRUNING,
    PruningConfig,
    PruningRound,
    pruned,
)
from pyrite.backend.cube.skeleton.sort.row import Rows, rows_of
from pyrite.backend.cube.skeleton.sort.selection import (
    SELECTION,
    FirstOfRows,
    SelectionConfig,
    selected,
)
from pyrite.backend.cube.tensor import CubeTensor

TopkConfig = SelectionConfig | PruningConfig


def candidates(rows: Rows, key: Key, k: int, machine: Machine) -> list[TopkConfig]:
    """Return the configs that are right for the first k of rows, but for sorting all."""
    first, whole = FirstOfRows(rows, key, k), first_round(rows, key, k)
    return [*SELECTION.candidates(first, machine), *PRUNING.candidates(whole, machine)]


def select(rows: Rows, key: Key, k: int, machine: Machine) -> TopkConfig | None:
    """Return a config, or None where to sort whole rows takes less, or fits better."""
    first, whole = FirstOfRows(rows, key, k), first_round(rows, key, k)
    if SELECTION.is_better(first, machine):
        return SELECTION.select(first, machine)
    return PRUNING.select(whole, machine) if PRUNING.is_better(whole, machine) else None


def first_round(rows: Rows, key: Key, k: int) -> PruningRound:
    """Return the first round of pruning, which reads the rows themselves."""
    return PruningRound(rows, key, rows.count, rows.size, k)


def argtopk_axis(
    launcher: Launcher,
    x: CubeTensor,
    axis: int,
    k: int,
    *,
    descending: bool = False,
    config: TopkConfig | None = None,
) -> CubeTensor:
    """Return the first k of the positions that sort an axis of a tensor, int32."""
    others = tuple(a for a in range(len(x.shape)) if a != axis)
    order = (*others, axis)
    last = x.permuted(order)
    rows, key = rows_of(last), Key(x.dtype, descending)
    config = config or select(rows, key, k, launcher.machine)
    if config is None or rows.count * k == 0:
        found = argsort_axis(launcher, x, axis, descending=descending)
        sizes = tuple(k if a == axis else n for a, n in enumerate(x.shape))
        return found.sliced((0,) * len(sizes), sizes, (1,) * len(sizes))
    if isinstance(config, SelectionConfig):
        flat = selected(launcher, x, FirstOfRows(rows, key, k), config)
    else:
        flat = pruned(launcher, x, first_round(rows, key, k), config)
    target = flat.reshaped((*last.shape[:-1], k))
    assert target is not None, "a dense tensor takes any shape"
    return target.permuted(tuple(order.index(a) for a in range(len(order))))
