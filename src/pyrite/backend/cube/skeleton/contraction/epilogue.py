"""What is applied to each sum of a product before it is stored: a stage, as templates take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.operand import Operand as TensorOperand
from pyrite.backend.cube.skeleton.protocol import Stage
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.template.index import Index
from pyrite.kernel.template.operand import Axis, Operand, OperandMap
from pyrite.kernel.template.product import Apply, Fuse, Product
from pyrite.kernel.trace import RecordingAlgebra


def fuse_of(
    stage: Stage | None, product: Product, *, is_swapped: bool = False, aligns: bool = True
) -> Fuse | None:
    """Return a stage as an epilogue of a product, which is run swapped or as it is.

    The stage's sources are maps of matrices as large as the result, in the accumulator's dtype;
    ``aligns`` is as of an `Operand`.
    """
    if stage is None:
        return None
    rule = stage.rule
    maps = [_only_where_it_moves(m) for m in stage.sources if isinstance(m, OperandMap)]
    assert len(maps) == len(stage.sources), "sources of a product's epilogue are matrices"

    def fuse(b: KernelBuilder) -> Apply:
        k = RecordingAlgebra(b)
        sources = [
            Operand(b, f"source{n}", m.transposed if is_swapped else m, "read", aligns=aligns)
            for n, m in enumerate(maps)
        ]

        def apply(value: Value, batch: Index, row: Index, column: Index) -> Value:
            found = [_at(source, product, value, batch, row, column) for source in sources]
            result: Value = rule(k, value, *found)
            return result

        return apply

    return fuse


def add(_: RecordingAlgebra, value: Value, bias: Value) -> Value:
    """Return a sum with a bias."""
    return value + bias


class Finish:
    """A stage inside a kernel that knows the coordinates of what it makes.

    The stage's sources are layouts by these coordinates.
    """

    def __init__(self, b: KernelBuilder, stage: Stage | None) -> None:
        self.builder = b
        self.stage = stage
        layouts = [s for s in stage.sources if isinstance(s, Layout)] if stage else []
        self.sources = [
            TensorOperand(b, f"source{n}", layout, "read") for n, layout in enumerate(layouts)
        ]

    def __call__(self, value: Value, at: Sequence[Index], mask: Value | None = None) -> Value:
        """Return what is made of a value, whose lanes lie along the last axis."""
        if self.stage is None:
            return value
        b = self.builder
        found = [
            b.cast(s.load_along(s.at(at), value.width, mask=mask), value.dtype)
            for s in self.sources
        ]
        result: Value = self.stage.rule(RecordingAlgebra(b), value, *found)
        return result


def _at(
    source: Operand, product: Product, value: Value, batch: Index, row: Index, column: Index
) -> Value:
    """Return the elements of a source beside a value, whose lanes lie along the columns."""
    b, map, width = source.builder, source.map, value.width
    place = source.join(
        source.at(map.batch, batch), source.at(map.rows, row, limit=product.m if map.rows else None)
    )
    if map.columns:
        along = source.lanes(map.columns, column, width, limit=product.n)
        x = source.load(place, along)
    else:
        x = source.load(place)
    x = b.cast(x, value.dtype)
    return x if x.width == width else b.splat(x, width)


def _only_where_it_moves(map: OperandMap) -> OperandMap:
    """Return a map without axes along which it stays where it is."""

    def axis(digits: Axis) -> Axis:
        return digits if any(d.stride or d.steps for d in digits) else ()

    return replace(map, batch=axis(map.batch), rows=axis(map.rows), columns=axis(map.columns))
