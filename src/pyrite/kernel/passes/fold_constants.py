"""Computes at compile time what has constant inputs, and drops operations that change nothing.

Requires a legal kernel.  Guarantees an equal one: bit for bit, -0.0 and NaN included (x + 0.0
stays, x * 1.0 goes).  A branch with a constant condition becomes the part that is taken, and a loop
that never runs its initial values.  A fence goes, unless the target needs it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyrite.kernel.arithmetic import ALU, cast
from pyrite.kernel.ir import Kernel, Node, Type
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.types import Array, Number


def fold_constants(kernel: Kernel, *, keeps_fences: bool = False) -> Kernel:
    """Return the kernel with constants computed, for a target that rewrites arithmetic with fences.

    To one that computes what is written a fence is nothing.
    """
    return _Folder(kernel, keeps_fences).run()


_FOLDED = frozenset(("alu", "cast", "bitcast", "select", "splat", "make", "extract"))


class _Folder(Rewriter):
    def __init__(self, kernel: Kernel, keeps_fences: bool) -> None:
        super().__init__(kernel)
        self.keeps_fences = keeps_fences
        #: What control nodes that are gone yielded.
        self.results: dict[Node, tuple[Node, ...]] = {}

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind in _FOLDED:
            return self.value(node, inputs)
        if node.kind == "result" and node.inputs[0] in self.results:
            return self.results[node.inputs[0]][int(node.attr)]
        if node.kind == "if" and inputs[0].kind == "const":
            region = node.regions[0 if inputs[0].attr else 1]
            self.copy(region.body)
            self.results[node] = self.of(region.yields)
            return node
        if node.kind == "for" and _never_runs(inputs):
            self.results[node] = inputs[2:]
            return node
        return self.keep(node, inputs)

    def value(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if all(i.kind == "const" for i in inputs):
            folded = _evaluate(node, inputs)
            if folded is not None:
                return self.make("const", node.type, (), folded)
        if node.attr == "fence" and node.kind == "alu" and not self.keeps_fences:
            return inputs[0]
        if (same := _unchanged(node, inputs)) is not None:
            return same
        return self.keep(node, inputs)


def _never_runs(inputs: tuple[Node, ...]) -> bool:
    start, stop = inputs[:2]
    return start.kind == stop.kind == "const" and start.attr >= stop.attr


def array_of(node: Node) -> Array:
    """Return a constant as an array of its width."""
    type = node.value_type
    numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,) * type.width
    return np.array(numbers, dtype=type.dtype.numpy)


def _evaluate(node: Node, inputs: tuple[Node, ...]) -> Number | tuple[Number, ...] | None:
    """Return the attribute of the constant that the node is, or None where it cannot be said."""
    values = [array_of(i) for i in inputs]
    with np.errstate(all="ignore"):
        result = _apply(node, values)
    return None if result is None else _attribute(result, node.value_type)


def _apply(node: Node, values: list[Array]) -> Array | None:
    kind = node.kind
    if kind == "alu":
        is_integer_division = node.attr in ("div", "rem") and values[0].dtype.kind in "iu"
        if is_integer_division and not _divides(*values):
            return None
        return ALU[node.attr](*values)
    if kind == "cast":
        return cast(values[0], node.value_type.dtype)
    if kind == "bitcast":
        return _bitcast(values[0], node.value_type)
    if kind == "select":
        return np.where(*values)
    if kind == "extract":
        return values[0][node.attr : node.attr + 1]
    return np.concatenate(values) if kind == "make" else values[0].repeat(node.value_type.width)


def _divides(x: Array, y: Array) -> bool:
    overflows = (y == -1) & (x == np.iinfo(x.dtype).min) if x.dtype.kind == "i" else y != y
    return bool((y != 0).all() and not overflows.any())


def _bitcast(x: Array, to: Type) -> Array | None:
    """A constant knows one NaN only: the bits of another would be lost."""
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    result = x.view(to.dtype.numpy)
    return None if to.dtype.is_float and np.isnan(result.astype(float)).any() else result


def _attribute(result: Array, type: Type) -> Number | tuple[Number, ...]:
    if type.dtype.is_float:
        numbers: list[Any] = [math.nan if v != v else v for v in result.astype(float).tolist()]
    else:
        numbers = result.tolist()
    first = numbers[0]
    if all(repr(n) == repr(first) for n in numbers):
        return first  # type: ignore[no-any-return]
    return tuple(np.broadcast_to(numbers, type.width).tolist())


#: Opcodes for which a constant on the right, and on the left if they commute, changes nothing.
_NEUTRAL: dict[str, int] = {
    "add": 0, "sub": 0, "mul": 1, "div": 1, "or": 0, "xor": 0, "shl": 0, "shr": 0,
}  # fmt: skip
_COMMUTE = ("add", "mul", "or", "xor")


def _unchanged(node: Node, inputs: tuple[Node, ...]) -> Node | None:
    """Return the input that the node equals, if there is one."""
    if node.kind == "select":
        condition, x, y = inputs
        if condition.kind == "const" and not isinstance(condition.attr, tuple):
            return x if condition.attr else y
        return x if x is y else None
    if node.kind == "extract" and inputs[0].kind in ("splat", "make"):
        elements, is_made = inputs[0].inputs, inputs[0].kind == "make"
        element: int = node.attr if is_made else 0
        return None if is_made and _mixes_two(elements) else elements[element]
    if node.kind == "bitcast" and inputs[0].kind == "bitcast":
        original = inputs[0].inputs[0]
        return original if original.type is node.type else None
    return _unchanged_alu(node, inputs) if node.kind == "alu" else None


def _mixes_two(elements: tuple[Node, ...]) -> bool:
    """Whether elements are all of two vectors, which is one instruction of a processor.

    A network of these, as turns a tile, must not become elements picked from all its vectors.
    """
    if any(e.kind != "extract" for e in elements):
        return False
    return len({e.inputs[0] for e in elements}) == 2


def _unchanged_alu(node: Node, inputs: tuple[Node, ...]) -> Node | None:
    if len(inputs) != 2:
        return None
    name = node.attr
    pairs = [inputs, inputs[::-1]] if name in (*_COMMUTE, "and") else [inputs]
    for x, y in pairs:
        if y.kind != "const" or isinstance(y.attr, tuple):
            continue
        dtype = y.value_type.dtype
        if dtype.is_float:
            # Subtracting 0.0 keeps -0.0, adding it does not.
            is_neutral = (name in ("mul", "div") and y.attr == 1) or (
                name in ("sub", "add") and repr(y.attr) == ("0.0" if name == "sub" else "-0.0")
            )
        elif name == "and":
            is_neutral = y.attr == (True if dtype.is_bool else _all_ones(dtype.kind, dtype.bits))
        else:
            is_neutral = name in _NEUTRAL and y.attr == _NEUTRAL[name]
        if is_neutral:
            return x
    return None


def _all_ones(kind: str, bits: int) -> int:
    return -1 if kind == "int" else (1 << bits) - 1
