"""What is applied to each sum of a product before it is stored: a stage, as templates take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrite.backend.cube.skeleton.finish import applied, spread
from pyrite.backend.cube.skeleton.protocol import Fused, Stage
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.template.operand import Axis, Operand, OperandMap
from pyrite.kernel.template.product import Apply, At, Fuse
from pyrite.types import DType


def fuse_of(stage: Stage | None, *, is_swapped: bool = False, aligns: bool = True) -> Fuse | None:
    """Return a stage as an epilogue of a product, which is run swapped or as it is.

    The stage's sources are numbers, and maps of matrices as large as the result; ``aligns`` is as
    of an `Operand`.
    """
    if stage is None:
        return None

    def declared(b: KernelBuilder, n: int, source: object) -> Operand | Value:
        if isinstance(source, DType):
            return b.scalar(f"source{n}", source)
        assert isinstance(source, OperandMap), "sources of a product's epilogue are matrices"
        map = _only_where_it_moves(source)
        map = map.transposed if is_swapped else map
        return Operand(b, f"source{n}", map, "read", aligns=aligns)

    def fuse(b: KernelBuilder) -> Apply:
        sources = [declared(b, n, source) for n, source in enumerate(stage.sources)]

        def apply(value: Value, at: At) -> Sequence[Value]:
            found = [
                spread(s, value.width) if isinstance(s, Value)
                else _at(s, value.width, at)
                for s in sources
            ]  # fmt: skip
            return applied(stage, value, found)

        return apply

    return fuse


def outputs_of(fused: Fused, *, is_swapped: bool = False) -> list[OperandMap]:
    """Return where a product's outputs lie that are not its own result, as it is run."""
    maps = [m for m in fused.outputs if isinstance(m, OperandMap)]
    assert len(maps) == len(fused.outputs), "outputs of a product are matrices"
    return [m.transposed for m in maps] if is_swapped else maps


def _at(source: Operand, width: int, at: At) -> Value:
    """Return the elements of a source beside a value, whose lanes lie along the columns.

    They are in the dtype in which is computed with them.
    """
    b, map = source.builder, source.map
    place = source.join(
        source.at(map.batch, at.batch),
        source.at(map.rows, at.row, limit=at.row_limit if map.rows else None),
    )
    if map.columns:
        along = source.lanes(map.columns, at.column, width, limit=at.column_limit)
        x = source.load(place, along)
    else:
        x = source.load(place)
    return spread(b.cast(x, x.dtype.compute), width)


def _only_where_it_moves(map: OperandMap) -> OperandMap:
    """Return a map without axes along which it stays where it is.

    A window may limit such an axis: what is beyond is never stored.
    """

    def axis(digits: Axis) -> Axis:
        steps = [s * map.windows[w].stride for d in digits for w, s in d.steps]
        return digits if any(d.stride for d in digits) or any(steps) else ()

    return replace(map, batch=axis(map.batch), rows=axis(map.rows), columns=axis(map.columns))
