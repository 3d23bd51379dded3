"""The interpreter: what a kernel does to its buffers, over a grid of workgroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyrite.errors import KernelError
from pyrite.kernel.interpret.memory import Memory
from pyrite.kernel.interpret.subgroup import Subgroups
from pyrite.kernel.ir import Kernel, Node, Region, dtype_of
from pyrite.types import Array, Number

#: Invocations that run at once, so that temporaries stay small.
BATCH = 1 << 15


def interpret(
    kernel: Kernel,
    workgroups: int | tuple[int, ...],
    *values: Array | Number,
    subgroup_size: int = 32,
    own: Mapping[str, Array] | None = None,
) -> None:
    """Run the kernel on ``workgroups`` of each axis; buffers are written in place.

    ``values`` are arrays for buffers and numbers for arguments, in the order of the parameters.
    ``own`` says by the name of a buffer which of its first elements are the operand's: to touch
    another one is a fault too.
    Raises KernelError for a fault: see the head of this package.

    >>> import pyrite
    >>> from pyrite.kernel.builder import KernelBuilder
    >>> b = KernelBuilder("double", workgroup_size=2)
    >>> x = b.buffer("x", pyrite.float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> x = np.arange(4, dtype=np.float32)
    >>> interpret(b.build(), 2, x)
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    counts = (workgroups,) if isinstance(workgroups, int) else workgroups
    x, y, z = (*counts, 1, 1)[:3]
    if len(values) != len(kernel.parameters):
        raise KernelError(f"{kernel} requires {len(kernel.parameters)} values, got {len(values)}")
    buffers: dict[Node, Memory] = {}
    arguments: dict[Node, Array] = {}
    for parameter, value in zip(kernel.parameters, values, strict=True):
        if parameter.kind == "argument":
            arguments[parameter] = np.array([value], dtype=dtype_of(parameter).numpy)
        else:
            buffers[parameter] = _buffer(parameter, value, (own or {}).get(parameter.attr[1]))
    total = x * y * z
    at_once = max(1, BATCH // kernel.invocations)
    with np.errstate(all="ignore"):
        for first in range(0, total, at_once):
            groups = np.arange(first, min(first + at_once, total))
            batch = Interpreter(kernel, (x, y, z), groups, buffers, arguments, subgroup_size)
            batch.region(kernel.body)


def _buffer(parameter: Node, value: Any, own: Array | None) -> Memory:
    if not isinstance(value, np.ndarray) or value.dtype != dtype_of(parameter).numpy:
        raise KernelError(
            f"buffer {parameter.attr[1]!r} requires an array of {dtype_of(parameter).name}, got "
            f"{getattr(value, 'dtype', value)!s}"
        )
    if value.ndim != 1 or not value.flags.c_contiguous:
        raise KernelError(f"buffer {parameter.attr[1]!r} requires a flat array")
    return Memory(value, len(value), is_tracked=parameter.attr[2] != "read", own=own)


class Interpreter(Subgroups):
    """Every kind of node."""

    def region(self, region: Region) -> None:
        """Run the nodes of a region in those invocations that are active."""
        for node in region.body:
            _RUN[node.kind](self, node)


_RUN: dict[str, Callable[[Interpreter, Node], None]] = {
    "const": Interpreter.const, "builtin": Interpreter.builtin, "alu": Interpreter.alu,
    "cast": Interpreter.cast, "bitcast": Interpreter.bitcast, "select": Interpreter.select,
    "splat": Interpreter.splat, "make": Interpreter.make, "extract": Interpreter.extract,
    "result": Interpreter.result, "alloc": Interpreter.alloc, "load": Interpreter.load,
    "store": Interpreter.store, "atomic": Interpreter.atomic, "prefetch": Interpreter.prefetch,
    "error": Interpreter.error, "for": Interpreter.counted, "while": Interpreter.conditional,
    "if": Interpreter.branch, "barrier": Interpreter.barrier,
    "subgroup_reduce": Interpreter.collective, "subgroup_scan": Interpreter.collective,
    "subgroup_shuffle": Interpreter.collective, "subgroup_broadcast": Interpreter.collective,
    "subgroup_ballot": Interpreter.collective,
}  # fmt: skip
