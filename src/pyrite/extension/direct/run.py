"""A kernel's function, run for a whole grid by Python."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyrite.extension.direct.memory import DirectArgument
from pyrite.extension.direct.scope import DirectScope, Group
from pyrite.extension.direct.workgroup import run_together
from pyrite.types import Shape, float32, float64


def run(
    function: Callable[..., None],
    name: str,
    tensors: Sequence[DirectArgument | None],
    attrs: dict[str, Any],
    *,
    sizes: Shape,
    grid: Shape | None,
    points: Shape,
) -> None:
    """Run a kernel: for each of some points, or for each invocation of a grid."""
    has_double = any(t is not None and t.dtype is float64 for t in tensors)
    number = float64 if has_double else float32
    with np.errstate(all="ignore"):
        if grid is None:
            group = Group((0,), (1,), (1,), number)
            for at in np.ndindex(points):
                function(DirectScope(group, (0,), at, None), *tensors, **attrs)
            return
        for position in _places(grid):
            group = Group(position, grid, sizes, number)
            run_together(
                name,
                [
                    functools.partial(_invoke, function, group, local, tensors, attrs)
                    for local in _places(sizes)
                ],
            )


def _invoke(
    function: Callable[..., None],
    group: Group,
    local: Shape,
    tensors: Sequence[DirectArgument | None],
    attrs: dict[str, Any],
    wait: Callable[[], None],
) -> None:
    with np.errstate(all="ignore"):  # of this thread
        function(DirectScope(group, local, (), wait), *tensors, **attrs)


def _places(sizes: Shape) -> Iterator[Shape]:
    """The places in a box, axis 0 fastest."""
    for place in itertools.product(*(range(n) for n in reversed(sizes))):
        yield place[::-1]
