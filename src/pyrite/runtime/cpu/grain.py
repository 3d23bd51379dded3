"""How much work a workgroup is, roughly: how many of them make a chunk worth a thread's while.

A wrong guess costs speed only, so this is a sum over nodes and no more.  Loops may end at numbers
that the kernel gets, so the sum is an expression of these, evaluated for each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyrite.kernel.fact import known_fact
from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.runtime.cpu.config import CpuConfig

#: Rounds of a loop whose bounds are known only when it runs.
_GUESSED_ROUNDS: Final = 64

_SLOW = frozenset(("div", "rem", "sqrt"))
_FREE = frozenset(("const", "argument", "builtin", "buffer", "parameter", "result", "alloc"))


def smallest_chunk(config: CpuConfig, work: float) -> int:
    """Return how many workgroups of so much work are worth another thread's while."""
    return max(1, round(config.worthwhile / max(work, 1.0)))


def chunk_size(config: CpuConfig, work: float, count: int, threads: int) -> int:
    """Return how many of ``count`` workgroups of so much work make a chunk.

    >>> config = CpuConfig(worthwhile=1e4, share=1e5, most_shares=16)
    >>> [chunk_size(config, 100.0, count, threads=2) for count in (50, 1000, 10_000, 1_000_000)]
    [50, 500, 1000, 31250]
    """
    smallest = smallest_chunk(config, work)
    if count <= smallest:
        return max(count, 1)
    shares = min(max(1, round(work * count / (threads * config.share))), config.most_shares)
    return max(smallest, -(-count // (threads * shares)))


#: From the bindings of a launch, in the order of the kernel's parameters, to nanoseconds.
Work = Callable[[Sequence[Any]], float]
#: A number, or the text of an expression of the bindings ``of``.
Amount = float | str


def work_of(kernel: Kernel, vector_bytes: int) -> Work:
    """Return what tells the nanoseconds that one workgroup takes, if its data is in a cache."""
    found = known_fact(
        kernel, f"{__name__} {vector_bytes}",
        lambda: _times(kernel.invocations, _region(kernel.body, vector_bytes)),
    )  # fmt: skip
    if not isinstance(found, str):
        known = found
        return lambda _: known
    # The text is made of numbers, operators, min, max and places in the bindings by this file.
    scope = {"__builtins__": {}, "min": min, "max": max}
    return eval(f"lambda of: {found}", scope)  # type: ignore[no-any-return]


def _region(region: Region, vector_bytes: int) -> Amount:
    known, texts = 0.0, list[str]()
    for node in region.body:
        if node.regions:
            amount = _control(node, vector_bytes)
            if isinstance(amount, str):
                texts.append(amount)
            else:
                known += amount
        elif node.kind not in _FREE and node.attr != "fence":
            known += _instructions(node, vector_bytes)
    return _text(texts, known)


def _control(node: Node, vector_bytes: int) -> Amount:
    if node.kind == "for":
        return _times(_rounds(node), _region(node.regions[0], vector_bytes))
    inside = [_region(r, vector_bytes) for r in node.regions]
    if node.kind == "if" and node.regions[1].yields:
        # A choice of values: whoever branches for one does so because the dear one is rare.
        return _least(inside)
    if node.kind == "while":
        return _times(_GUESSED_ROUNDS, _sum(inside))
    return _sum([*inside, _instructions(node, vector_bytes)])


def _sum(amounts: Sequence[Amount]) -> Amount:
    known = sum(a for a in amounts if not isinstance(a, str))
    return _text([a for a in amounts if isinstance(a, str)], known)


def _text(texts: Sequence[str], known: float) -> Amount:
    return "(" + "+".join([*texts, repr(known)]) + ")" if texts else known


def _times(x: Amount, y: Amount) -> Amount:
    if isinstance(x, str) or isinstance(y, str):
        return 0.0 if 0 in (x, y) else f"{x}*{y}"
    return x * y


def _least(amounts: Sequence[Amount]) -> Amount:
    if any(isinstance(a, str) for a in amounts):
        return f"min({','.join(str(a) for a in amounts)})"
    return min(a for a in amounts if not isinstance(a, str))


def _instructions(node: Node, vector_bytes: int) -> float:
    of = node.inputs[2].type if node.kind == "store" else node.type
    if of is None:
        return 0.3
    registers = max(1.0, of.width * of.dtype.itemsize / vector_bytes)
    if node.kind in ("load", "store"):
        at = node.inputs[1].value_type
        return 0.5 * (at.width if at.width > 1 else registers)
    return (5.0 if node.attr in _SLOW else 0.3) * registers


def _rounds(node: Node) -> Amount:
    start, stop = node.inputs[:2]
    step: int = node.attr[0]
    distance = _distance(start, stop)
    if distance is not None:
        return max(0, -(-distance // step))
    most = _most(stop)
    return _GUESSED_ROUNDS if most is None else f"max(0,-(({_first(start)}-{most})//{step}))"


def _first(start: Node) -> str:
    """Return an expression of about the least value that an index has: what is unknown is 0.

    Known terms of sums count: the rest of a row begins at an offset and all whole vectors.
    """
    if start.kind == "alu" and start.attr == "add":
        x, y = map(_first, start.inputs)
        return f"({x}+{y})"
    return (_most(start) if start.kind in ("const", "argument") else None) or "0"


def _most(node: Node) -> str | None:
    """Return an expression of about the greatest value that an index has, None if that is unknown.

    What is unknown is taken for 0 where it is subtracted.
    """
    if node.kind == "const":
        return repr(node.attr)
    if node.kind == "argument":
        return f"of[{node.attr[0]}]"
    if node.kind in ("cast", "select"):
        return (
            _greatest([_most(x) for x in node.inputs[-2:]])
            if node.kind == "select"
            else (_most(node.inputs[0]))
        )
    sign = _SIGNS.get(node.attr) if node.kind == "alu" else None
    if sign is None:
        return None
    x, y = (_most(i) for i in node.inputs)
    if node.attr == "min":
        return f"min({x},{y})" if x and y else x or y
    if node.attr == "sub" and y is None:
        return x
    return f"({x}{sign}{y})" if x and y else None


def _greatest(values: Sequence[str | None]) -> str | None:
    known = [v for v in values if v is not None]
    return f"max({','.join(known)})" if len(known) == len(values) else None


_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "//", "min": ","}


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
