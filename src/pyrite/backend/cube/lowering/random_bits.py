"""Random words: the four of a counter at once, which the rule makes for each of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.template.lanes import interleaved
from pyrite.op import Attributes, Constant, Op
from pyrite.philox import WORDS, philox_words
from pyrite.types import uint32


@lowers("random_bits", why="the four words of a counter at once, of which its rule keeps one")
def random_bits(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the words of Philox 4x32-10, four for each counter: those of `philox.philox4x32`.

    Those of the draw are numbers, or tensors of one element, as a key of attention's dropout is.
    On processors an invocation has as many counters as a vector has lanes.
    """
    target = launcher.empty(out[0])
    is_tensor = tuple(isinstance(word, CubeTensor) for word in inputs)
    sources = [word for word in inputs if isinstance(word, CubeTensor)]
    numbers = [(launcher.number(w, uint32), uint32) for w in inputs if isinstance(w, Constant)]
    width = launcher.machine.vector if launcher.machine.kind == "cpu" else 1

    def body(each: Each) -> None:
        b, (count,) = each.b, each.extents
        *given, result = each.operands
        loaded, told = (operand[[]] for operand in given), iter(each.numbers)
        words = [b.cast(next(loaded if x else told), uint32) for x in is_tensor]
        words = [_spread(b, word, width) for word in words]
        index = _spread(b, b.cast(each.index, uint32), width)
        if width > 1:
            index = index * width + b.cast(iota(b, width), uint32)
        drawn = philox_words(each.k, [index, *words[2:]], words[:2])
        first, ordered = each.index * (WORDS * width), _in_order(drawn)
        is_whole = first + (WORDS * width - 1) < count
        with b.if_(is_whole):  # masked ones take several times as long
            for i, vector in enumerate(ordered):
                result.store_along(first + i * width, vector)
        with b.if_(~is_whole):
            for i, vector in enumerate(ordered):
                place = first + i * width
                places = place if width == 1 else b.splat(place, width) + iota(b, width)
                result.store_along(place, vector, mask=places < _spread(b, b.index(count), width))

    count = target.type.size
    # A single word has no axis along which vectors would be written.
    along = target if target.shape else target.reshaped((1,))
    assert along is not None, "it is dense"
    for_each(
        launcher, op.name, (is_tensor, width), (-(-count // (WORDS * width)),), sources, along,
        body, extents=(count,), numbers=numbers,
    )  # fmt: skip
    return [target]


def _spread(b: KernelBuilder, x: Any, width: int) -> Any:
    return x if width == 1 else b.splat(x, width)


def _in_order(drawn: Sequence[Value]) -> list[Value]:
    """Return vectors of the words of counters side by side, counter by counter."""
    x0, x1, x2, x3 = drawn
    even, odd = interleaved([x0, x2]), interleaved([x1, x3])
    return [vector for pair in zip(even, odd, strict=True) for vector in interleaved(pair)]
