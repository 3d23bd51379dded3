"""Attention in one kernel, and its gradients in two, with no more of the scores than a bound.

Formulas are those of the composites, in `pyrite.tensor.attention`, whose bodies serve what has no
such kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

from pyrite.backend.cube.body import run_body
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Layout, bindings_of, layout_of, word_of
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.attention import config as choice
from pyrite.backend.cube.skeleton.attention.config import GradientConfig
from pyrite.backend.cube.skeleton.attention.forward import FORWARD
from pyrite.backend.cube.skeleton.attention.gradient import GRADIENT
from pyrite.backend.cube.skeleton.attention.of_keys import OF_KEYS
from pyrite.backend.cube.skeleton.attention.of_queries import OF_QUERIES
from pyrite.backend.cube.skeleton.attention.of_scores import OF_SCORES
from pyrite.backend.cube.skeleton.attention.problem import Attention, Scoring
from pyrite.backend.cube.skeleton.attention.row_sums import ROW_SUMS, Rows
from pyrite.backend.cube.skeleton.attention.tiled_forward import TILED_FORWARD
from pyrite.backend.cube.skeleton.contraction.matrix_product import multiply_into
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.protocol import Skeleton, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.types import Shape, TensorType, element_count


def _has_scores(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether there are scores to compute."""
    return all(isinstance(i, CubeTensor) and i.type.size > 0 for i in inputs if i is not None)


@lowers("scaled_dot_product_attention", why="no scores in memory", when=_has_scores)
def attention(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The output, and logsumexp of the scores."""
    query, key, value, mask, bias, dropout_key = inputs
    of_out, of_log_sum = out
    launcher.keep_sizes(query.shape[-1], value.shape[-1])
    if dropout_key is not None:
        launcher.keep_shape(dropout_key)
    heads = Heads(query, key, launcher.machine)
    results = [_room(launcher, of_out, query), launcher.empty(of_log_sum)]
    operands = {
        "query": heads.rows(query), "key": heads.columns(key), "value": heads.columns(value),
        **heads.scores(mask=mask, bias=bias), **_draw(dropout_key, attrs),
        "out": heads.rows(results[0]), "log_sum": heads.row_numbers(results[1]),
    }  # fmt: skip
    problem = heads.problem(attrs, operands, ("out", "log_sum"))
    is_gpu = launcher.machine.kind == "gpu"
    skeleton: Skeleton[Attention, Any] = TILED_FORWARD if is_gpu else FORWARD
    is_for_tiles = choice.is_for_tiles(problem.rows, problem.keys, launcher.machine)
    if not is_for_tiles or not skeleton.candidates(problem, launcher.machine):
        return run_body(launcher, op, inputs, attrs, out)
    bindings = [b for x in operands.values() for b in bindings_of(x)]
    launch(launcher, skeleton, problem, bindings)
    return results


@lowers("scaled_dot_product_attention_backward", why="no scores in memory", when=_has_scores)
def attention_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradients of query, key and value; that of a bias has the body's scores in memory."""
    g, g_log_sum, output, log_sum, query, key, value, mask, bias, dropout_key = inputs
    launcher.keep_sizes(query.shape[-1], value.shape[-1])
    if dropout_key is not None:
        launcher.keep_shape(dropout_key)
    is_gpu = launcher.machine.kind == "gpu"
    heads = Heads(query, key, launcher.machine, stacks=True)
    operands = {
        "query": heads.rows(query), "key": heads.columns(key), "value": heads.columns(value),
        **heads.scores(mask=mask, bias=bias), **_draw(dropout_key, attrs),
        "g": heads.rows(g), "log_sum": heads.row_numbers(log_sum),
    }  # fmt: skip
    problem = heads.problem(attrs, operands, ())
    skeleton: Skeleton[Attention, Any] = OF_KEYS if is_gpu else GRADIENT
    is_for_tiles = _BIAS not in attrs["argnums"] and choice.is_for_tiles(
        problem.queries, problem.keys, launcher.machine
    )
    #: With the shared sums, and one result.
    is_bound = len(operands) + 2 <= launcher.machine.buffers
    if not is_bound or not is_for_tiles or not skeleton.candidates(problem, launcher.machine):
        return run_body(launcher, op, inputs, attrs, out)
    less = heads.row_numbers(g_log_sum)
    operands["shared"] = row_sums(launcher, operands["g"], heads.rows(output), less)
    # To those of queries each tile of a CPU adds: rows that are neighbours stay in the first cache.
    results = {
        n: _room(launcher, t, (query, key, value)[n]) if n or is_gpu else launcher.empty(t)
        for n, t in zip(attrs["argnums"], out, strict=True)
    }
    backward = _Backward(launcher, heads, attrs, operands, results)
    if is_gpu:
        backward.by_sides()
    else:
        backward.at_once()
    return [results[n] for n in attrs["argnums"]]


def _room(launcher: Launcher, type: TensorType, like: CubeTensor) -> CubeTensor:
    """Return room for (..., H, T, D); where heads of an input lie side by side, these do too.

    So heads that were cut from features are joined again without a copy.
    """
    *batch, heads, length, size = (1, *type.shape)
    is_split = type.ndim > 2 and like.strides[-3] < like.strides[-2]
    if not is_split:
        return launcher.empty(type)
    found = launcher.empty(TensorType((*batch[1:], length, heads, size), type.dtype))
    last = type.ndim - 3
    return found.permuted((*range(last), last + 1, last, last + 2))


def _draw(key: CubeTensor | None, attrs: Attributes) -> dict[str, CubeTensor]:
    """Return the operand of dropout, if there is any."""
    return {"dropout_key": key} if key is not None and attrs["dropout_p"] else {}


@dataclass(frozen=True, slots=True)
class _Backward:
    """How the kernels of gradients are launched; ``results`` are those wanted, by their input."""

    launcher: Launcher
    heads: Heads
    attrs: Attributes
    operands: dict[str, CubeTensor]
    results: dict[int, CubeTensor]

    def at_once(self) -> None:
        """Write all gradients by one kernel, and add up the parts of those of queries."""
        launcher, heads, results = self.launcher, self.heads, self.results
        config = GRADIENT.select(heads.problem(self.attrs, self.operands, ()), launcher.machine)
        written = self.of_keys()
        partial: CubeTensor | None = None
        if 0 in results:
            type, compute = results[0].type, results[0].dtype.compute
            if config.parts > 1 or compute is not type.dtype:
                partial = launcher.empty(TensorType((config.parts, *type.shape), compute))
                written["of_query"] = heads.rows(partial)
            else:
                target = heads.rows(results[0])
                written["of_query"] = target.strided((1, *target.shape), (0, *target.strides))
        self.launch(GRADIENT, written, config)
        if partial is not None:
            results[0] = reduce_axes(launcher, sum_of(compute), partial, (0,), type)

    def by_sides(self) -> None:
        """Write the gradients of queries by one kernel, and those of keys and values by another."""
        most = self.most_heads()
        if most:
            for part in _parts(self.heads.axes, most):
                self.by_product(part)
            return
        if 0 in self.results:
            self.launch(OF_QUERIES, {"of_query": self.heads.rows(self.results[0])})
        written = self.of_keys()
        if len(self.operands) + len(written) <= self.launcher.machine.buffers:
            alone = [written] if written else []
        else:
            alone = [{name: target} for name, target in written.items()]
        for targets in alone:
            self.launch(OF_KEYS, targets)

    def most_heads(self) -> int:
        """Return of how many heads may be kept what makes gradients products; 0 if of none."""
        heads, written, machine = self.heads, self.of_keys(), self.launcher.machine
        *_, queries, keys = heads.shape
        kept = self.kept()
        # Few workgroups leave room for those of another kernel at the same time.
        is_full = element_count(heads.axes) * keys >= machine.workgroups * _TILE
        if 0 not in self.results or not written or not kept or not is_full:
            return 0
        itemsize = self.results[0].dtype.compute.itemsize
        nbytes = min(_KEPT, machine.bound_bytes)
        return nbytes // (heads.group * queries * keys * itemsize)

    def kept(self) -> tuple[str, ...]:
        """Return what is kept of scores, which kernels have buffers for.

        With the probabilities all gradients are products: where heads are long, so that these take
        longer than to write and read scores.  Of causal ones a product of keys would have half, and
        to draw takes a kernel that also sums no longer than it takes one that does not.
        """
        operands, written = self.operands, self.of_keys()
        buffers = self.launcher.machine.buffers - len(operands)
        is_plain = not self.attrs["is_causal"] and "dropout_key" not in operands
        is_long = min(operands[name].shape[-1] for name in ("query", "value")) >= _LONG
        is_alone = self.heads.group == 1 and "of_value" in written
        if is_plain and is_long and is_alone and buffers >= 2:
            return "weights", "slopes"
        return ("slopes",) if buffers > len(written) else ()

    def by_product(self, part: Part) -> None:
        """Write all gradients of some heads, those of queries by a product."""
        heads, operands = self.heads, {
            name: x if name == "dropout_key" else _part(x, part)
            for name, x in self.operands.items()
        }  # fmt: skip
        *_, queries, keys = heads.shape
        compute = self.results[0].dtype.compute
        key, of_query = operands["key"], _part(heads.rows(self.results[0]), part)
        axes = (*key.shape[:-2], heads.group)
        kept = {
            name: self.launcher.empty(TensorType((*axes, keys, queries), compute))
            for name in self.kept()
        }
        written = {name: _part(x, part) for name, x in self.of_keys().items()}
        smaller = replace(self, operands=operands, heads=heads.of_part(part))
        if "weights" in kept:
            smaller.launch(OF_SCORES, kept)
            for name, of, by in (("of_value", "weights", "g"), ("of_key", "slopes", "query")):
                if name in written:
                    target = _of_one_head(written[name])
                    multiply_into(self.launcher, kept[of], operands[by], target)
        else:
            smaller.launch(OF_KEYS, {**written, **kept})
        last = len(axes)
        turned = kept["slopes"].permuted((*range(last), last + 1, last))
        shared = _of_one_head(key, heads.group)
        # The kernel of keys leaves out what is above the diagonal of causal scores.
        multiply_into(self.launcher, turned, shared, of_query, is_lower=self.attrs["is_causal"])

    def of_keys(self) -> dict[str, CubeTensor]:
        """Return the gradients of keys and values that are wanted."""
        names = {1: "of_key", 2: "of_value"}
        return {
            name: self.heads.columns(self.results[n])
            for n, name in names.items() if n in self.results
        }  # fmt: skip

    def launch(
        self, skeleton: Skeleton[Attention, Any], written: dict[str, CubeTensor],
        config: GradientConfig | None = None,
    ) -> None:  # fmt: skip
        """Run a kernel that writes these operands."""
        operands = {**self.operands, **written}
        problem = self.heads.problem(self.attrs, operands, tuple(written))
        bindings = [b for x in operands.values() for b in bindings_of(x)]
        launch(self.launcher, skeleton, problem, bindings, config=config)


#: A part of the first axes: where it begins and its size, of each.
Part = tuple[tuple[int, int], ...]


def _parts(axes: Shape, most: int) -> Iterator[Part]:
    """Return parts of axes of at most so many elements each, which lie together."""
    if not axes:
        yield ()
        return
    inner = element_count(axes[1:])
    if inner <= most:
        count = -(-axes[0] // (most // inner))
        size = -(-axes[0] // count)
        for first in range(0, axes[0], size):
            yield ((first, min(size, axes[0] - first)), *((0, n) for n in axes[1:]))
        return
    for first in range(axes[0]):
        for rest in _parts(axes[1:], most):
            yield ((first, 1), *rest)


def _part(x: CubeTensor, part: Part) -> CubeTensor:
    """Return a part of the first axes."""
    sizes = tuple(size for _, size in part)
    begin = sum(first * step for (first, _), step in zip(part, x.strides, strict=False))
    return x.strided((*sizes, *x.shape[len(part) :]), x.strides, x.offset + begin)


def _of_one_head(x: CubeTensor, group: int = 1) -> CubeTensor:
    """Return (*heads, S, D) with an axis of the heads of a group, which share it."""
    *axes, keys, size = x.shape
    return x.strided((*axes, group, keys, size), (*x.strides[:-2], 0, *x.strides[-2:]))


#: Keys of a tile.
_TILE: Final = 64
#: Bytes of cotangents of scores that are in memory at once, and as many of probabilities.
_KEPT: Final = 1 << 29

#: Elements of a head from which on all gradients are products.
_LONG: Final = 64

#: The position of the bias among the inputs of attention.
_BIAS = 4


def row_sums(launcher: Launcher, x: CubeTensor, y: CubeTensor, less: CubeTensor) -> CubeTensor:
    """Return the sums of x * y along the last axis, less numbers of the rows."""
    *rows, size = x.shape
    target = launcher.empty(TensorType(tuple(rows), x.dtype.compute))
    operands = (x, y, less, target)
    layouts = tuple(_layout(t, launcher.machine) for t in operands)
    bindings = [b for t in operands for b in bindings_of(t)]
    launch(launcher, ROW_SUMS, Rows(size, layouts, tuple(rows)), bindings)
    return target


class Heads:
    """The axes of heads of attention: those of keys, and the query heads that share one.

    A group's queries are rows together where they alone do not fill a tile, and else each query
    head is one of its own, for which the keys' are repeated by a stride of 0.
    """

    def __init__(
        self, query: CubeTensor, key: CubeTensor, machine: Machine, *, stacks: bool = False
    ) -> None:
        self.machine = machine
        *batch, self.keys, _ = key.shape
        *_, self.queries, self.size = query.shape
        self.shape = (*query.shape[:-1], self.keys)
        self.ratio = query.shape[-3] // key.shape[-3] if query.type.ndim > 2 else 1
        self.is_stacked = self.ratio > 1 and (stacks or self.queries < _FULL)
        self.axes = (*batch, self.ratio) if self.ratio > 1 and not self.is_stacked else (*batch,)
        self.group = self.ratio if self.is_stacked else 1
        #: The number of the first head, of which those of draws follow.
        self.first = 0

    def of_part(self, part: Part) -> Heads:
        """Return those of a part of the heads."""
        found, number = copy(self), 0
        for size, (first, _) in zip(self.axes, part, strict=True):
            number = number * size + first
        found.first, found.axes = number, tuple([size for _, size in part])
        return found

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
        first = self.first if "dropout_key" in operands else 0
        scoring = Scoring(attrs["is_causal"], attrs["scale"], attrs["softcap"], attrs["dropout_p"])
        return Attention(
            scoring, operands["query"].dtype, self.size, operands["value"].shape[-1],
            tuple(
                (name, _layout(x, self.machine), name not in written)
                for name, x in operands.items()
            ),
            self.axes, self.group, self.queries, self.keys, first,
        )  # fmt: skip


def _layout(x: CubeTensor, machine: Machine) -> Layout:
    """Return a layout that others share: of one element no stride."""
    last = len(x.shape) - 1
    strides = (
        step if n > 1 else int(axis == last)
        for axis, (n, step) in enumerate(zip(x.shape, x.strides, strict=True))
    )
    return layout_of(x.strided(x.shape, tuple(strides)), word_of(machine.vector, machine))


#: Queries that fill the lanes of a tile.
_FULL = 64
