"""The ops that write by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.place import types_of
from pyrite.backend.cube.skeleton.scatter import last_write, scatter
from pyrite.backend.cube.skeleton.window.sliding import slide_of
from pyrite.backend.cube.skeleton.window.windowed_scatter import (
    add_in_windows,
    is_better_than_writing,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.op.rule import LastWrite, Scatter
from pyrite.types import TensorType


@lowers_rule(Scatter)
def by_rule(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run a scatter as the rule of the op says."""
    assert isinstance(op.rule, Scatter)
    found = _within_windows(launcher, op.name, op.rule, inputs, attrs, out[0])
    return [scatter(launcher, op.rule, inputs, attrs, out[0]) if found is None else found]


def _within_windows(
    launcher: Launcher, name: str, rule: Scatter, inputs: Sequence[Any], attrs: Attributes,
    out: TensorType,
) -> CubeTensor | None:  # fmt: skip
    """Return the sums of updates that stay in windows; None where they are better written."""
    windows = rule.stays_in(types_of(inputs), attrs)
    if windows is None:
        return None
    slide = slide_of(windows.index, windows.taps)
    assert rule.updates is not None, "what stays in windows is an input"
    updates = inputs[rule.updates]
    (indices,) = (x for n, x in enumerate(inputs) if n != rule.updates)
    if slide is None or not isinstance(updates, CubeTensor):
        return None
    if not is_better_than_writing(slide.axes, (updates, indices), launcher.machine):
        return None
    return add_in_windows(launcher, name, updates, indices, out, slide.axes)


@lowers_rule(LastWrite)
def last_by_rule(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Say which writes are last, as the rule of the op says."""
    assert isinstance(op.rule, LastWrite)
    return [last_write(launcher, op.name, op.rule, inputs, attrs, out[0])]
