"""How much work a workgroup is, roughly: how many of them make a chunk worth a thread's while.

A wrong guess costs speed only, so this is a sum over nodes and no more.
"""

from __future__ import annotations

from typing import Final

from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.runtime.cpu.config import CpuConfig

#: Rounds of a loop whose bounds are known only when it runs.
_GUESSED_ROUNDS: Final = 64

_SLOW = frozenset(("div", "rem", "sqrt"))
_FREE = frozenset(("const", "argument", "builtin", "buffer", "parameter", "result", "alloc"))


def chunk_size(config: CpuConfig, work: float, count: int, threads: int) -> int:
    """Return how many of ``count`` workgroups of so much work make a chunk.

    >>> config = CpuConfig(worthwhile=1e4, share=1e5, most_shares=16)
    >>> [chunk_size(config, 100.0, count, threads=2) for count in (50, 1000, 10_000, 1_000_000)]
    [50, 500, 1000, 31250]
    """
    smallest = max(1, round(config.worthwhile / max(work, 1.0)))
    if count <= smallest:
        return max(count, 1)
    shares = min(max(1, round(work * count / (threads * config.share))), config.most_shares)
    return max(smallest, -(-count // (threads * shares)))


def work_of(kernel: Kernel, vector_bytes: int) -> float:
    """Return the nanoseconds that one workgroup takes, if its data is in a cache."""
    return kernel.invocations * _region(kernel.body, vector_bytes)


def _region(region: Region, vector_bytes: int) -> float:
    return sum(_node(node, vector_bytes) for node in region.body)


def _node(node: Node, vector_bytes: int) -> float:
    if node.kind == "for":
        return _rounds(node) * _region(node.regions[0], vector_bytes)
    if node.kind == "if" and node.regions[1].yields:
        # A choice of values: whoever branches for one does so because the dear one is rare.
        return min(_region(r, vector_bytes) for r in node.regions)
    inside = sum(_region(r, vector_bytes) for r in node.regions)
    if node.kind == "while":
        return _GUESSED_ROUNDS * inside
    if node.kind in _FREE:
        return 0.0
    return inside + _instructions(node, vector_bytes)


def _instructions(node: Node, vector_bytes: int) -> float:
    of = node.inputs[2].type if node.kind == "store" else node.type
    if of is None:
        return 0.3
    registers = max(1.0, of.width * of.dtype.itemsize / vector_bytes)
    if node.kind in ("load", "store"):
        at = node.inputs[1].value_type
        return 0.5 * (at.width if at.width > 1 else registers)
    return (5.0 if node.attr in _SLOW else 0.3) * registers


def _rounds(node: Node) -> int:
    distance = _distance(*node.inputs[:2])
    step: int = node.attr[0]
    return _GUESSED_ROUNDS if distance is None else max(0, -(-distance // step))


def _distance(start: Node, stop: Node) -> int | None:
    """Stop - start, or a little more, where both are constants or one is made of the other."""
    if start.kind == stop.kind == "const":
        return int(stop.attr - start.attr)
    if stop is start:
        return 0
    if stop.kind != "alu":
        return None
    if stop.attr == "min":
        known = [d for d in (_distance(start, i) for i in stop.inputs) if d is not None]
        return min(known, default=None)
    if stop.attr in ("add", "sub"):
        swapped = (stop.inputs[::-1],) if stop.attr == "add" else ()
        for x, y in (stop.inputs, *swapped):
            base = _distance(start, x) if y.kind == "const" else None
            if base is not None:
                return base + int(y.attr) * (1 if stop.attr == "add" else -1)
    return None
