"""Scatters whose updates stay in windows: each element looks for those that are its own.

A scatter goes through its updates and writes each to the place that its index says.  Where the op
promises that update number i lies in window number i, an element looks at the few windows over it
instead, and adds up those whose index it is: it is written once, and nobody waits for who wrote
before.  The gradient of a maximum over windows is such a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.skeleton.window.axis import Sliding, flat, is_whole
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.cube.skeleton.window.sum import of_one_window
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.types import TensorType


def is_better_than_writing(
    axes: tuple[Sliding, ...], operands: Sequence[CubeTensor], machine: Machine
) -> bool:
    """Return whether elements look for their updates.

    On a CPU only where neighbours look at neighbours: what is gathered one by one takes 4 to 8
    times as long as to write the updates one by one.
    """
    if machine.kind == "gpu":
        return True
    has_neighbours = all(x.strides[-1] == 1 for x in operands)
    return is_whole(axes) or (has_neighbours and (axes[-1].stride == 1 or axes[-1].is_near))


def add_in_windows(
    launcher: Launcher, name: str, updates: CubeTensor, indices: CubeTensor, type: TensorType,
    axes: tuple[Sliding, ...],
) -> CubeTensor:  # fmt: skip
    """Return the sums of the updates whose index each element is, as a dense tensor of a type.

    Updates and indices are along the leading axes and the windows; an index outside of its window
    is as none.
    """
    target = launcher.empty(type)
    if is_whole(axes):
        of_one_window(
            launcher, name, [updates, indices], target, len(type.shape) - len(axes),
            lambda g, index, position, _: chosen(g, index, position), 0,
        )  # fmt: skip
        return target

    def held(folding: Folding, cells: Cells) -> Value:
        update, index = (folding.load(x, cells, has_taps=False) for x in folding.along.sources)
        sizes = [axis.size for axis in folding.axes]
        return chosen(update, index, flat(folding.positions, sizes))

    fold(launcher, name, None, axes, [updates, indices], target, held)
    return target


def chosen(update: Value, index: Value, position: Value) -> Value:
    """Return the update where the index is that position, else 0."""
    b = update.builder
    return b.select(index == b.cast(position, index.dtype), update, 0)
