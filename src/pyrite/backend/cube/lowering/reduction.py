"""Ops whose rule is a fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyrite.backend.cube.body.rows import run_fold
from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import layout_of
from pyrite.backend.cube.registry import finishes, lowers_rule
from pyrite.backend.cube.skeleton.copy import as_tensor, contiguous
from pyrite.backend.cube.skeleton.finish import Around
from pyrite.backend.cube.skeleton.fold import (
    KernelFold,
    fold_across,
    fold_columns,
    fold_order,
    join_cost,
    lies_across,
    problem_of,
    reduce_results,
    write_fold,
)
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.op import Attributes, Fold, Op, rules_key
from pyrite.op.rule.fold import axes_of
from pyrite.types import DType, TensorType

#: Instructions of a join that take longer than to read neighbours once more from a cache: on `cpu`
#: a variance of rows (about 20) by its body, in two passes, takes 0.15 to 0.9 of the time.
_DEAR = 8


def _is_better_than_a_body(
    machine: Machine, op: Op, inputs: Sequence[Any], attrs: Attributes
) -> bool:
    """Whether one pass over memory is better than the passes of a body over its rows.

    Along rows of a CPU only if the join is cheap; what is no neighbour would be read from afar.  A
    body that looks for a position joins the same states, and then reads what lies there.
    """
    x = inputs[0]
    assert isinstance(op.rule, Fold)
    if op.rule.reads_position or machine.kind != "cpu":
        return True
    if not isinstance(x, CubeTensor) or x.type.size == 0:
        return True
    return _is_along_columns(x, attrs) or join_cost(_bound(machine, op, x, attrs)) <= _DEAR


def _is_along_columns(x: CubeTensor, attrs: Attributes) -> bool:
    """Whether what is folded are columns, if x is dense: then its layout is of no matter."""
    axes = axes_of(attrs.get("axis"), len(x.shape))
    last = [n for n, size in enumerate(x.shape) if size > 1][-1:]
    return bool(last) and last[0] not in axes


@lowers_rule(Fold, over_body=_is_better_than_a_body)
def fold_axes(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the elements over axes, or along one, joined to one state for each result."""
    x = as_tensor(launcher, inputs[0])
    axes = axes_of(attrs.get("axis"), len(x.shape))
    fold = _bound(launcher.machine, op, x, attrs, [type.dtype for type in out])
    order = fold_order(fold, x.shape, axes, launcher.machine) if x.type.size else None
    if order is None or order.along == "columns":
        run = reduce_results if order is None else fold_columns
        if launcher.machine.kind == "cpu" and (near := _nearest_last(x, axes)) is not None:
            return _folded_as_it_lies(launcher, partial(run, launcher, fold), x, axes, near, out)
        return run(launcher, fold, x, axes, out)
    across = None
    if lies_across(x, axes):
        across = fold_across(launcher, fold, x, axes, order, out)
    return across or run_fold(launcher, op, x, attrs, out)


#: Folds a tensor over axes, to results of some types.
Run = Callable[[CubeTensor, tuple[int, ...], Sequence[TensorType]], list[CubeTensor]]
#: Of fewer elements for each result the results themselves count.
_MANY = 4


def _nearest_last(x: CubeTensor, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the kept axes with the one last whose elements are neighbours in memory.

    None where it is the last already, and where such are among those that are folded.
    """
    kept = [n for n in range(len(x.shape)) if n not in axes]
    wide = [n for n in kept if x.shape[n] > 1]
    near = [n for n in wide if x.strides[n] == 1]
    if not near or x.strides[wide[-1]] in (0, 1):
        return None
    if math.prod(x.shape[a] for a in axes) < _MANY:
        return None
    return (*(n for n in kept if n != near[0]), near[0])


def _folded_as_it_lies(
    launcher: Launcher, run: Run, x: CubeTensor, axes: tuple[int, ...], kept: tuple[int, ...],
    out: Sequence[TensorType],
) -> list[CubeTensor]:  # fmt: skip
    """Return the results of a fold whose kept axes are gone over in another order."""
    moved = x.permuted((*kept, *axes))
    shape = tuple(x.shape[n] for n in kept)
    folded = tuple(range(len(kept), len(x.shape)))
    found = run(moved, folded, [TensorType(shape, type.dtype) for type in out])
    back = tuple(map(kept.index, sorted(kept)))
    results = []
    for r, type in zip(found, out, strict=True):
        whole = contiguous(launcher, r.permuted(back)).reshaped(type.shape)
        assert whole is not None, "a dense tensor takes any shape"
        results.append(whole)
    return results


@finishes(fold_axes)
def fold_axes_and_finish(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of each result, in the kernel that joins the last states."""
    x, axes = as_tensor(launcher, inputs[0]), axes_of(attrs.get("axis"), len(inputs[0].shape))
    (type,) = out
    flat = epilogue.seen(lambda t: t.reshaped((type.size,)))
    if flat is None or not x.type.size:
        return False
    fold = _bound(launcher.machine, op, x, attrs, [type.dtype])
    if fold_order(fold, x.shape, axes, launcher.machine) is not None:
        return False
    around = Around.of(launcher, (), flat, layout_of)
    write_fold(launcher, fold, x, axes, [unstored(type)], around=around)
    return True


def _bound(
    machine: Machine, op: Op, x: CubeTensor, attrs: Attributes, results: Sequence[DType] = ()
) -> KernelFold:
    """Return the fold of an op over axes of a tensor."""
    assert isinstance(op.rule, Fold)
    axes = axes_of(attrs.get("axis"), len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    rule = _suited(machine, op.rule, x, axes)
    bound = rule.of(x.dtype.compute, results, attrs, count)
    return KernelFold(op.name, bound, rules_key(op))


def _suited(machine: Machine, rule: Fold, x: CubeTensor, axes: tuple[int, ...]) -> Fold:
    """Return the form of a fold with fewer instructions, where a device has what it takes.

    The one with the larger state needs registers, which columns need for more neighbours.  Many
    invocations of a GPU join the states of a row, in one instruction each by the simpler form: max
    over rows of 4,096 took an H200 1.2 of a sum's time without.  It may have no integers of 64.
    """
    dtype = x.dtype.compute
    if machine.kind == "gpu":
        form = rule.simpler if dtype.itemsize == 4 else None
    else:
        form = None if problem_of(x, axes).is_columns else rule.larger
    return (form and form(dtype)) or rule
