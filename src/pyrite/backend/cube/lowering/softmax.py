"""Softmax and its kin by hand: the one maximum that may miss a NaN, for the sum has it then.

As a body, whose maximum minds NaN and the sign of zero, softmax takes 1.07 of the time on `cpu` for
rows of 1024, and 1.20 for rows of 16 (in turns of one process).  All else that goes over rows is
made of bodies: see `pyrite.backend.cube.body`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.row import At, Row, as_rows, for_rows, from_rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


@lowers("softmax", "log_softmax", "quiet_softmax")
def softmax(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The row's maximum, the sum of the powers of what lies below it, and the result."""
    bodies = {"softmax": _softmax, "log_softmax": _log_softmax, "quiet_softmax": _quiet_softmax}
    (x,), axes = inputs, (attrs["axis"],)
    if x.type.size == 0:
        return [launcher.empty(x.type)]
    source = as_rows(launcher, x, axes)
    target = launcher.empty(TensorType(source.shape, x.dtype))
    for_rows(launcher, op.name, "", [source], [target], bodies[op.name])
    return [from_rows(target, x.shape, axes)]


def _softmax(row: Row) -> None:
    _write_shares(row, row.largest(row.sources[0]), lambda total, _: total)


def _quiet_softmax(row: Row) -> None:
    shift = row.k.maximum(row.largest(row.sources[0]), 0)
    _write_shares(row, shift, lambda total, shift: row.k.exp(-shift) + total)


def _write_shares(row: Row, shift: Value, whole: Callable[[Value, Value], Value]) -> None:
    (x,), (out,) = row.sources, row.targets
    power, again = row.kept(lambda at: row.k.exp(x(at) - row.spread(shift, at)))
    rate = 1.0 / whole(row.sum(power), shift)
    row.write(lambda at: out(at, again(at) * row.spread(rate, at)))


def _log_softmax(row: Row) -> None:
    (x,), (out,), k = row.sources, row.targets, row.k
    shift = row.largest(x)
    total = row.sum(lambda at: k.exp(x(at) - row.spread(shift, at)))
    logarithm = k.log(total)

    def write(at: At) -> None:
        out(at, x(at) - row.spread(shift, at) - row.spread(logarithm, at))

    row.write(write)
