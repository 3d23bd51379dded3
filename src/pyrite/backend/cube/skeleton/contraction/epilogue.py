"""What is applied to each sum of a product before it is stored: a stage, as templates take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout, bindings_of
from pyrite.backend.cube.operand import Operand as TensorOperand
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, Stage
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.template.index import Index
from pyrite.kernel.template.operand import Axis, Operand, OperandMap
from pyrite.kernel.template.product import Apply, At, Fuse
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number


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


def applied(stage: Stage, value: Value, sources: Sequence[Value]) -> Sequence[Value]:
    """Return what a stage makes of a value: as many as there are outputs."""
    found: Any = stage.rule(RecordingAlgebra(value.builder), value, *sources)
    return [found] if isinstance(found, Value) else found


#: What a stage reads: a tensor, or a number in the dtype that it says.
Source = CubeTensor | Number


def bindings_around(
    sources: Sequence[Source], outputs: Sequence[CubeTensor]
) -> list[Buffer | Number]:
    """Return what binds the parameters of a stage and the outputs."""
    of = [bindings_of(s) if isinstance(s, CubeTensor) else [s] for s in (*sources, *outputs)]
    return [b for bindings in of for b in bindings]


@dataclass(frozen=True, slots=True)
class Around:
    """What is fused onto a contraction, and the tensors and numbers that it reads and writes."""

    fused: Fused = NOTHING
    sources: tuple[Source, ...] = ()
    outputs: tuple[CubeTensor, ...] = ()

    @classmethod
    def of(
        cls, launcher: Launcher, biases: Sequence[CubeTensor], epilogue: Epilogue | None,
        layout: Callable[[CubeTensor], Any],
    ) -> Around:  # fmt: skip
        """Return sums with biases, which are rounded after that, and an epilogue of the result.

        ``layout`` says where the elements of a tensor are that has the result's axes.
        """
        if epilogue is None:
            stage = Stage(Biased(len(biases)), tuple([layout(x) for x in biases]))
            return cls(Fused(epilogue=stage if biases else None), tuple(biases))
        read = (*biases, *epilogue.sources)
        seen = [
            layout(x) if isinstance(x, CubeTensor) else x.type.dtype.compute for x in read
        ]  # fmt: skip
        outputs = tuple([layout(t) for t in epilogue.targets])
        stage = Stage(Biased(len(biases), epilogue.rule), tuple(seen))
        sources = [
            x if isinstance(x, CubeTensor) else launcher.number(x, x.type.dtype.compute)
            for x in read
        ]  # fmt: skip
        return cls(Fused(epilogue=stage, outputs=outputs), tuple(sources), epilogue.targets)


#: Nothing: sums are written as they are.
ALONE: Final = Around()


@dataclass(frozen=True, slots=True)
class Biased:
    """The rule that adds the first sources to a sum, and then applies another one, if any."""

    count: int
    rule: Callable[..., Sequence[Value]] | None = None

    def __call__(self, k: RecordingAlgebra, value: Value, *sources: Value) -> Any:
        """Return what is made of a sum."""
        for bias in sources[: self.count]:
            value = value + k.builder.cast(bias, value.dtype)
        return value if self.rule is None else self.rule(k, value, *sources[self.count :])


def outputs_of(fused: Fused, *, is_swapped: bool = False) -> list[OperandMap]:
    """Return where a product's outputs lie that are not its own result, as it is run."""
    maps = [m for m in fused.outputs if isinstance(m, OperandMap)]
    assert len(maps) == len(fused.outputs), "outputs of a product are matrices"
    return [m.transposed for m in maps] if is_swapped else maps


class Finish:
    """A stage inside a kernel that knows the coordinates of what it makes.

    The stage's sources are numbers, and layouts by these coordinates.
    """

    def __init__(self, b: KernelBuilder, stage: Stage | None) -> None:
        self.builder = b
        self.stage = stage
        self.sources = [self._declared(n, s) for n, s in enumerate(stage.sources if stage else ())]

    def _declared(self, n: int, source: object) -> TensorOperand | Value:
        if isinstance(source, DType):
            return self.builder.scalar(f"source{n}", source)
        assert isinstance(source, Layout), "sources lie by the coordinates of the result"
        return TensorOperand(self.builder, f"source{n}", source, "read")

    def __call__(
        self, value: Value, at: Sequence[Index], mask: Value | None = None
    ) -> Sequence[Value]:
        """Return what is made of a value, whose lanes lie along the last axis."""
        if self.stage is None:
            return [value]
        found = [
            spread(s, value.width) if isinstance(s, Value)
            else s.load_along(s.at(at), value.width, mask=mask)
            for s in self.sources
        ]  # fmt: skip
        return applied(self.stage, value, found)


def spread(x: Value, width: int) -> Value:
    """Return a value in all of so many lanes."""
    return x if x.width == width else x.builder.splat(x, width)


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
