"""What is made of each element of a result inside of a kernel, and what that reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout, Operand, bindings_of
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, Stage
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.template.index import Index
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number


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


class Finish:
    """A stage inside a kernel that knows the coordinates of what it makes.

    The stage's sources are numbers, and layouts by these coordinates.
    """

    def __init__(self, b: KernelBuilder, stage: Stage | None) -> None:
        self.builder = b
        self.stage = stage
        self.sources = [self._declared(n, s) for n, s in enumerate(stage.sources if stage else ())]

    def _declared(self, n: int, source: object) -> Operand | Value:
        if isinstance(source, DType):
            return self.builder.scalar(f"source{n}", source)
        assert isinstance(source, Layout), "sources lie by the coordinates of the result"
        return Operand(self.builder, f"source{n}", source, "read")

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
