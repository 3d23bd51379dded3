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
from pyrite.backend.cube.skeleton.attention.gradient import GRADIENT
from pyrite.backend.cube.skeleton.attention.problem import Attention, Scoring
from pyrite.backend.cube.skeleton.attention.row_sums import ROW_SUMS, Rows
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.protocol import launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


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
    problem = heads.problem(attrs, operands, ("out", "log_sum"))
    if not FORWARD.candidates(problem, launcher.machine):
        return run_body(launcher, op, inputs, attrs, out)
    bindings = [b for x in operands.values() for b in bindings_of(x)]
    launch(launcher, FORWARD, problem, bindings)
    return results


@lowers("scaled_dot_product_attention_backward", when=_has_scores)
def attention_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradients of query, key and value; that of a bias has the body's scores in memory."""
    g, g_log_sum, output, log_sum, query, key, value, mask, bias, bits = inputs
    heads = Heads(query, key, stacks=True)
    operands = {
        "query": heads.rows(query), "key": heads.columns(key), "value": heads.columns(value),
        **heads.scores(mask=mask, bias=bias, dropout_bits=bits if attrs["dropout_p"] else None),
        "g": heads.rows(g), "g_log_sum": heads.row_numbers(g_log_sum),
        "log_sum": heads.row_numbers(log_sum),
    }  # fmt: skip
    problem = heads.problem(attrs, operands, ())
    if _BIAS in attrs["argnums"] or not GRADIENT.candidates(problem, launcher.machine):
        return run_body(launcher, op, inputs, attrs, out)
    config = GRADIENT.select(problem, launcher.machine)
    operands["shared"] = row_sums(launcher, operands["g"], heads.rows(output))
    compute = query.dtype.compute
    results = {n: launcher.empty(t) for n, t in zip(attrs["argnums"], out, strict=True)}
    partial: CubeTensor | None = None
    if 0 in results:
        if config.parts > 1 or compute is not query.dtype:
            partial = launcher.empty(TensorType((config.parts, *query.shape), compute))
            operands["of_query"] = heads.rows(partial)
        else:
            target = heads.rows(results[0])
            operands["of_query"] = target.strided((1, *target.shape), (0, *target.strides))
    for n, name in ((1, "of_key"), (2, "of_value")):
        if n in results:
            operands[name] = heads.columns(results[n])
    written = ("of_query", "of_key", "of_value")
    bindings = [b for x in operands.values() for b in bindings_of(x)]
    launch(launcher, GRADIENT, heads.problem(attrs, operands, written), bindings, config=config)
    if partial is not None:
        results[0] = reduce_axes(launcher, sum_of(compute), partial, (0,), results[0].type)
    return [results[n] for n in attrs["argnums"]]


#: The position of the bias among the inputs of attention.
_BIAS = 4


def row_sums(launcher: Launcher, x: CubeTensor, y: CubeTensor) -> CubeTensor:
    """Return the sums of x * y along the last axis."""
    *rows, size = x.shape
    target = launcher.empty(TensorType(tuple(rows), x.dtype.compute))
    operands = [_of_axes(t) for t in (x, y, target)]
    problem = Rows(size, tuple(layout_of(t) for t in operands), tuple(rows))
    launch(launcher, ROW_SUMS, problem, [b for t in operands for b in bindings_of(t)])
    return target


class Heads:
    """The axes of heads of attention: those of keys, and the query heads that share one.

    A group's queries are rows together where they alone do not fill a tile, and else each query
    head is one of its own, for which the keys' are repeated by a stride of 0.
    """

    def __init__(self, query: CubeTensor, key: CubeTensor, *, stacks: bool = False) -> None:
        *batch, self.keys, _ = key.shape
        *_, self.queries, self.size = query.shape
        self.shape = (*query.shape[:-1], self.keys)
        self.ratio = query.shape[-3] // key.shape[-3] if query.type.ndim > 2 else 1
        self.is_stacked = self.ratio > 1 and (stacks or self.queries < _FULL)
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

    def problem(
        self, attrs: Attributes, operands: dict[str, CubeTensor], written: Sequence[str]
    ) -> Attention:
        """Return the problem of these operands."""
        scoring = Scoring(attrs["is_causal"], attrs["scale"], attrs["softcap"], attrs["dropout_p"])
        return Attention(
            scoring, operands["query"].dtype, self.size, operands["value"].shape[-1],
            tuple(
                (name, layout_of(_of_axes(x)), name not in written)
                for name, x in operands.items()
            ),
            self.axes, self.group, self.queries, self.keys,
        )  # fmt: skip


def _of_axes(x: CubeTensor) -> CubeTensor:
    """Return it with no strides where there is one element, so that layouts are the same."""
    strides = (step if n > 1 else 0 for n, step in zip(x.shape, x.strides, strict=True))
    return x.strided(x.shape, tuple(strides))


#: Queries that fill the lanes of a tile.
_FULL = 64
