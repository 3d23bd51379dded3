"""How products become scores, and what is done with weights; lanes are queries or keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import Access, Type
from pyrite.kernel.polyfill.exponential import exp_of_difference
from pyrite.kernel.trace import RecordingAlgebra, trace
from pyrite.op import OPS
from pyrite.types import float32, int32

#: What an operand of a name says of the scores of lanes.
Said = Callable[[str], Value]

#: How operands that are not only read are used.
_ACCESS: Mapping[str, Access] = {
    "out": "write", "log_sum": "write", "of_query": "read_write", "of_key": "write",
    "of_value": "write", "shared": "write", "slopes": "write", "weights": "write",
}  # fmt: skip

#: Weights over 1 - p, and 0 where a word is low.
_DROPOUT = OPS["dropout"].scalar


def operands_of(b: KernelBuilder, problem: Attention) -> dict[str, Operand]:
    """Return the operands of a kernel by their names, in order."""
    return {
        name: Operand(b, name, layout, "read" if is_read else _ACCESS[name])
        for name, layout, is_read in problem.operands
    }


class Scores:
    """Scores of the lanes of vectors of a type.

    With ``has_exp2`` powers are those of the device.  On an H200 they take one instruction of a
    unit beside that of multiply-adds, where 17 of these are 0.10 of the time of the gradients.
    """

    def __init__(
        self, b: KernelBuilder, problem: Attention, type: Type, *, has_exp2: bool = False
    ) -> None:
        self.b = b
        self.k = RecordingAlgebra(b)
        self.type = type
        self.problem, self.scoring = problem, problem.scoring
        self.has_exp2 = has_exp2
        self._names = {name for name, _, _ in problem.operands}

    @property
    def zero(self) -> Value:
        """Zeros."""
        return self.b.const(0, self.type)

    @property
    def nothing(self) -> Value:
        """The scores of no key."""
        return self.b.const(-math.inf, self.type)

    def or_zero(self, x: Value) -> Value:
        """Return x, and 0 where it is -inf: the extremum, or the logarithm, of nothing."""
        b = self.b
        return b.select(b.alu("eq", x, -math.inf), 0.0, x)

    def greater(self, x: Value, y: Value) -> Value:
        """Return the greater of two scores; either where one is NaN, for then the row's sum is."""
        return self.b.select(x > y, x, y)

    def exp(self, x: Value) -> Value:
        """Return e ** x of a score less the greatest."""
        if self.has_exp2 and x.dtype is float32:
            return self.b.exp2(x * (1.0 / math.log(2.0)))
        return exp_of_difference(self.b, x)

    def capped(self, product: Value) -> tuple[Value, Value | None]:
        """Return softcap * tanh(product / softcap), and its slope, None where that is 1."""
        cap = self.scoring.softcap
        if cap is None:
            return product, None
        tanh = self.k.tanh(product / cap)
        return tanh * cap, 1.0 - tanh * tanh

    def blocked(self, score: Value, said: Said, query: Value, key: Value) -> Value:
        """Return a capped score with its bias, -inf where a query may not attend to a key."""
        b = self.b
        if "bias" in self._names:
            score = score + said("bias")
        if "mask" in self._names:
            score = b.select(said("mask"), score, -math.inf)
        if self.scoring.is_causal:
            key, query = (x if x.dtype is int32 else b.cast(x, int32) for x in (key, query))
            score = b.select(key <= query, score, -math.inf)
        return score

    def dropped(self, weight: Value, words: Value | None) -> Value:
        """Return weights over 1 - p, and 0 where their random words are low; no words drop none."""
        if words is None:
            return weight
        assert _DROPOUT is not None
        return trace(self.b, _DROPOUT, [weight, words], weight.dtype, p=self.scoring.dropout_p)

    def draws(self, operands: Mapping[str, Operand]) -> Draws | None:
        """Return what gives random words, None where there is no dropout."""
        key = operands.get("dropout_key")
        return None if key is None else Draws(self.b, self.problem, key)
