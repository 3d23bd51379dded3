"""Ops whose rule is a scan, or a recurrence, which is walked line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.scan import scan_results
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op, Recurrence, Scan, attributes_key, rules_key
from pyrite.types import Shape

Place = Callable[[Value], list[Value | int]]


@lowers_rule(Scan)
def scan_axis(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the states of all elements up to each along an axis."""
    assert isinstance(op.rule, Scan)
    x = as_tensor(launcher, inputs[0])
    bound = op.rule.fold.of(x.dtype.compute, [type.dtype for type in out], attrs, 0)
    fold = KernelFold(op.name, bound, rules_key(op))
    return scan_results(
        launcher, fold, out, x, attrs["axis"],
        has_initial=attrs.get("include_initial", False), is_reverse=attrs.get("reverse", False),
    )  # fmt: skip


@lowers_rule(Recurrence)
def recur_along(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return what follows from element to element along an axis."""
    rule = op.rule
    assert isinstance(rule, Recurrence)
    sources = [as_tensor(launcher, i) for i in inputs]
    axis, is_reverse = attrs["axis"], attrs.get("reverse", False)
    target = launcher.empty(out[0])
    dtype = out[0].dtype.compute

    def body(each: Each) -> None:
        b, k, (size,) = each.b, each.k, each.extents
        x, *links, result = each.operands
        place = _along(each, axis)
        start = place(b.index(size - 1 if is_reverse else 0))
        first = k.cast(rule.first(k, x[start]), dtype)
        result[start] = first
        with b.for_(1, size, carried=[first]) as loop:
            position = (size - 1) - loop.index if is_reverse else loop.index
            between = position if is_reverse else position - 1
            given = (x[place(position)], *(link[place(between)] for link in links))
            value = k.cast(rule.step(k, loop.carried[0], *given), dtype)
            result[place(position)] = value
            loop.yield_(value)

    if target.type.size:
        variant = (op, rules_key(op), attributes_key(op, attrs))
        for_each(
            launcher, op.name, variant, _lines(out[0].shape, axis), sources, target, body,
            extents=(sources[0].shape[axis],),
        )  # fmt: skip
    return [target]


def _lines(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _along(each: Each, axis: int) -> Place:
    """Return the coordinates of a position on the invocation's line."""

    def place(position: Value) -> list[Value | int]:
        return [*each.at[:axis], position, *each.at[axis + 1 :]]

    return place
