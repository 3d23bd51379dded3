"""What is scanned: the lines of a tensor along one of its axes."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.extent import extent
from pyrite.types import Shape, element_count


@dataclass(frozen=True, slots=True)
class Lines:
    """What is scanned: the lines, merged to as few axes as they have, and the axis along them.

    Strides are of the source and of the target; the last of each is that of the axis.  The result
    is ``extra`` = 1 longer where it holds the state of no elements too.
    """

    shape: Shape = extent()
    size: int = extent()
    source: tuple[int, ...] = extent()
    target: tuple[int, ...] = extent()
    extra: int = 0
    is_reverse: bool = False

    @property
    def count(self) -> int:
        """The number of lines."""
        return element_count(self.shape)

    @property
    def are_neighbours(self) -> bool:
        """Whether the elements of several lines lie side by side."""
        return bool(self.shape) and self.source[-2:-1] == self.target[-2:-1] == (1,)


def lines_of(
    x: CubeTensor, target: CubeTensor, axis: int, *, has_initial: bool, is_reverse: bool
) -> Lines:
    """Return the lines of a tensor along an axis, and of the target that they are written to."""
    others = [a for a in range(len(x.shape)) if a != axis]
    (shape, source), (_, written) = merged(
        tuple(x.shape[a] for a in others),
        [tuple(t.strides[a] for a in others) for t in (x, target)],
    )
    return Lines(
        shape, x.shape[axis], (*source, x.strides[axis]), (*written, target.strides[axis]),
        int(has_initial), is_reverse,
    )  # fmt: skip
