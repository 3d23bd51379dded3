"""A call as sizes, and what is around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.tensor import CubeTensor, without_memory
from pyrite.op import Attributes, Op
from pyrite.symbol import LEAST
from pyrite.types import TensorType

Types = tuple[TensorType, ...]


class SizedCall:
    """A call as sizes and what is around them: types, strides, offsets, and sizes of attributes."""

    def __init__(self, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Types) -> None:
        # Without memory, for it may be looked at long after the call.
        self.inputs = [without_memory(x) for x in inputs]
        self.attrs, self.out = attrs, out
        sizes: list[int] = []
        for x in inputs:
            if isinstance(x, CubeTensor):
                sizes += (*x.type.shape, *x.strides, x.offset)
        for type in out:
            sizes += type.shape
        #: Of attributes that are sizes the places of those that are no part of the kind.
        self._resized = {
            name: [n for n, x in enumerate(attrs[name]) if x.__class__ is int and x >= LEAST]
            for name in sorted(op.sizes)
            if attrs[name].__class__ is tuple
        }
        for name, places in self._resized.items():
            sizes += [attrs[name][n] for n in places]
        self.sizes = sizes
        #: The sizes below 2, which calls of one class agree in.
        self.small = tuple([n if n < LEAST else LEAST for n in sizes])
        #: What the types of results have in common with those of other calls, beside the kind.
        self.results = tuple([(t.ndim, t.dtype) for t in out])

    def with_sizes(self, sizes: Sequence[Any]) -> tuple[list[Any], Attributes, Types]:
        """Return inputs, attributes and types of results with others in place of the sizes."""
        left = iter(sizes)

        def some(count: int) -> tuple[Any, ...]:
            return tuple([next(left) for _ in range(count)])

        inputs: list[Any] = []
        for x in self.inputs:
            if isinstance(x, CubeTensor):
                type = TensorType(some(x.type.ndim), x.dtype)
                inputs.append(CubeTensor(x.buffer, type, some(x.type.ndim), next(left)))
            else:
                inputs.append(x)
        out = tuple([TensorType(some(t.ndim), t.dtype) for t in self.out])
        attrs = dict(self.attrs)
        for name, places in self._resized.items():
            value = [*attrs[name]]
            for n in places:
                value[n] = next(left)
            attrs[name] = tuple(value)
        return inputs, attrs, out
