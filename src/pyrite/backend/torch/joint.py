"""One op on many lists of inputs, as an optimiser steps its parameters: by one call of PyTorch's.

Lists may be joined that differ in their tensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from pyrite.op import Attributes, Constant

#: How many elements of each operand the kernels of a joined call pass over at a time on the host:
#: four operands and as many results of 64 K float32 are 2 MiB.
_CACHED = 1 << 16

Inputs = Sequence[Any]


def alike(lists: Iterable[tuple[int, Inputs]]) -> list[list[tuple[int, Inputs]]]:
    """Return the lists, each with its place, by what may be joined: one dtype, the same numbers."""
    groups: dict[Any, list[tuple[int, Inputs]]] = {}
    for place, inputs in lists:
        rest = [i.value if i.__class__ is Constant else i is None for i in inputs]
        groups.setdefault((inputs[0].dtype, *rest), []).append((place, inputs))
    return list(groups.values())


def cached(lists: list[tuple[int, Inputs]]) -> Iterator[list[tuple[int, Inputs]]]:
    """Cut lists where kernels pass over them one after the other.

    On the host what one kernel has read should be in the cache when the next one reads it.
    """
    part: list[tuple[int, Inputs]] = []
    size = 0
    for place, inputs in lists:
        size += inputs[0].numel()
        if part and size > _CACHED:
            yield part
            part, size = [], inputs[0].numel()
        part.append((place, inputs))
    yield part


def joined(
    method: Callable[..., Any], lists: Sequence[Inputs], attrs: Attributes
) -> Sequence[Sequence[torch.Tensor]]:
    """Return the results of an implementation of columns for each of several lists."""
    columns = [
        column if isinstance(column[0], torch.Tensor) else _number(column[0])
        for column in zip(*lists, strict=True)
    ]
    return list(zip(*method(*columns, **attrs), strict=True))


def _number(value: Any) -> Any:
    return value.value if isinstance(value, Constant) else value
