"""Attention in one kernel, and its gradients in two: no scores in memory.

Formulas are those of the composites, in `pyrite.tensor.attention`, whose bodies serve what has no
such kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.body import run_body
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, layout_of
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.attention.forward import FORWARD
from pyrite.backend.cube.skeleton.attention.problem import Attention, Scoring
from pyrite.backend.cube.skeleton.protocol import launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op


def _has_scores(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether a CPU has scores to compute."""
    tensors = [i for i in inputs if i is not None]
    return machine.kind == "cpu" and all(
        isinstance(i, CubeTensor) and i.type.size > 0 for i in tensors
    )


@lowers("scaled_dot_product_attention", when=_has_scores)
def attention(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The output, and logsumexp of the scores."""
    query, key, value, mask, bias, bits = inputs
    of_out, of_log_sum = out
    heads = Heads(query, key)
    results = [launcher.empty(of_out), launcher.empty(of_log_sum)]
    operands = {
        "query": heads.rows(query), "key": heads.columns(key), "value": heads.columns(value),
        **heads.scores(mask=mask, bias=bias, dropout_bits=bits if attrs["dropout_p"] else None),
        "out": heads.rows(results[0]), "log_sum": heads.row_numbers(results[1]),
    }  # fmt: skip
    problem = heads.problem(attrs, operands)
    if not FORWARD.candidates(problem, launcher.machine):
        return run_body(launcher, op, inputs, attrs, out)
    bindings = [b for x in operands.values() for b in bindings_of(x)]
    launch(launcher, FORWARD, problem, bindings)
    return results


class Heads:
    """The axes of heads of attention: those of keys, and the query heads that share one.

    A group's queries are rows together where they alone do not fill a tile, and else each query
    head is one of its own, for which the keys' are repeated by a stride of 0.
    """

    def __init__(self, query: CubeTensor, key: CubeTensor) -> None:
        *batch, self.keys, _ = key.shape
        *_, self.queries, self.size = query.shape
        self.shape = (*query.shape[:-1], self.keys)
        self.ratio = query.shape[-3] // key.shape[-3] if query.type.ndim > 2 else 1
        self.is_stacked = self.ratio > 1 and self.queries < _FULL
        self.axes = (*batch, self.ratio) if self.ratio > 1 and not self.is_stacked else (*batch,)
        self.group = self.ratio if self.is_stacked else 1

    def rows(self, x: CubeTensor) -> CubeTensor:
        """Return (..., H, T, D) as (*heads, group, T, D)."""
        return self._split(x, 2)

    def row_numbers(self, x: CubeTensor) -> CubeTensor:
        """Return (..., H, T) as (*heads, group, T)."""
        return self._split(x, 1)

    def columns(self, x: CubeTensor) -> CubeTensor:
        """Return (..., K, S, D) as (*heads, S, D)."""
        if len(self.axes) == len(x.shape) - 2:
            return x
        strides = (*x.strides[:-2], 0, *x.strides[-2:])
        return x.strided((*self.axes, *x.shape[-2:]), strides)

    def scores(self, **said: CubeTensor | None) -> dict[str, CubeTensor]:
        """Return what is said of scores, and broadcasts to them, as (*heads, group, T, S)."""
        return {
            name: self._split(x.broadcast_to(self.shape), 2)
            for name, x in said.items() if x is not None
        }  # fmt: skip

    def _split(self, x: CubeTensor, behind: int) -> CubeTensor:
        """Cut the axis of query heads, which stands before so many others."""
        rest = len(x.shape) - behind
        if rest == 0:
            return x.strided((1, *x.shape), (0, *x.strides))
        shape, strides = x.shape[:rest], x.strides[:rest]
        if self.ratio > 1:
            shape = (*shape[:-1], shape[-1] // self.ratio, self.ratio)
            strides = (*strides[:-1], strides[-1] * self.ratio, strides[-1])
        if not self.is_stacked:
            shape, strides = (*shape, 1), (*strides, 0)
        return x.strided((*shape, *x.shape[rest:]), (*strides, *x.strides[rest:]))

    def problem(self, attrs: Attributes, operands: dict[str, CubeTensor]) -> Attention:
        """Return the problem of these operands."""
        scoring = Scoring(attrs["is_causal"], attrs["scale"], attrs["softcap"], attrs["dropout_p"])
        return Attention(
            scoring, operands["query"].dtype, self.size, operands["value"].shape[-1],
            tuple((name, layout_of(_of_axes(x))) for name, x in operands.items()),
            self.axes, self.group, self.queries, self.keys,
        )  # fmt: skip


def _of_axes(x: CubeTensor) -> CubeTensor:
    """Return it with no strides where there is one element, so that layouts are the same."""
    strides = (step if n > 1 else 0 for n, step in zip(x.shape, x.strides, strict=True))
    return x.strided(x.shape, tuple(strides))


#: Queries that fill the lanes of a tile.
_FULL = 64
