"""Faults that are planted in programs of kernels: what a check of programs has to find.

Faults of plans change what is launched, in which order, on which memory; faults of kernels change
one of them.  None of them touches memory outside of the operands, or a test could not go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from pyrite.backend.cube.placement import BLOCK, Part
from pyrite.backend.cube.program import CubeProgram
from pyrite.backend.cube.recording import Recording
from pyrite.errors import KernelError
from pyrite.kernel.ir import Kernel, Node, Type
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.runtime.protocol import BundledLaunch, Fixed

#: A fault by its name, and the program with it.
Planted = tuple[str, CubeProgram]


def plan_faults(program: CubeProgram) -> Iterator[Planted]:
    """Return a program with each of its faults of plans."""
    for faults in (_dropped, _out_of_order, _exchanged, _results, _grids, _aliased, _moved):
        yield from faults(program)


def kernel_faults(program: CubeProgram, random: Random) -> Iterator[Planted]:
    """Return a program with faults of its kernels, one after the other, in a drawn order."""
    steps = program.recording.steps
    kernels = [step.executable.kernel for step in steps]
    places = [(n, fault) for n, kernel in enumerate(kernels) for fault in faults_of(kernel)]
    for n, (name, node, change) in random.sample(places, len(places)):
        kernel = _Changed(kernels[n], node, change).run()
        try:
            executable = program.launcher.runtime.compile(kernel)
        except KernelError:
            continue  # what is not legal is found before it runs
        changed = [*steps[:n], replace(steps[n], executable=executable), *steps[n + 1 :]]
        yield f"{name} in kernel {n}", _with_steps(program, changed)


# ---- plans ----


def _with_steps(program: CubeProgram, steps: list[BundledLaunch]) -> CubeProgram:
    bundle = program.launcher.runtime.bundle(steps)
    # Results are described by the launches that there were.
    return replace(program, recording=replace(program.recording, bundle=bundle))


def _with(program: CubeProgram, **changes: Any) -> CubeProgram:
    return replace(program, recording=replace(program.recording, **changes))


def _dropped(program: CubeProgram) -> Iterator[Planted]:
    steps = program.recording.steps
    for n in range(len(steps)):
        yield f"launch {n} dropped", _with_steps(program, [*steps[:n], *steps[n + 1 :]])


def _out_of_order(program: CubeProgram) -> Iterator[Planted]:
    steps = program.recording.steps
    for n in range(len(steps) - 1):
        if set(_buffers(steps[n])) & set(_buffers(steps[n + 1])):
            order = [*steps[:n], steps[n + 1], steps[n], *steps[n + 2 :]]
            yield f"launch {n} behind {n + 1}", _with_steps(program, order)


def _exchanged(program: CubeProgram) -> Iterator[Planted]:
    """Two operands of a launch that have the same type and size, exchanged."""
    sizes = _sizes(program.recording)
    steps = program.recording.steps
    for n, step in enumerate(steps):
        kernel = step.executable.kernel
        found = [
            (at, binding, kernel.parameters[at].value_type, kernel.parameters[at].attr[2])
            for at, binding in enumerate(step.bindings)
            if not isinstance(binding, Fixed) and kernel.parameters[at].kind == "buffer"
        ]
        for i, (at, x, type, access) in enumerate(found):
            for other, y, type2, access2 in found[:i]:
                is_alike = type is type2 and access == access2 == "read" and x != y
                if not is_alike or sizes.get(x, -1) != sizes.get(y, -2):
                    continue
                bindings = list(step.bindings)
                bindings[at], bindings[other] = y, x
                changed = replace(step, bindings=tuple(bindings))
                steps_ = [*steps[:n], changed, *steps[n + 1 :]]
                yield (
                    f"operands {other} and {at} of launch {n} exchanged",
                    _with_steps(program, steps_),
                )


def _results(program: CubeProgram) -> Iterator[Planted]:
    results = program.recording.results
    for n in range(1, len(results)):
        if results[n][1:] == results[n - 1][1:] and results[n][0] != results[n - 1][0]:
            changed = list(results)
            changed[n] = results[n - 1]
            yield f"result {n} is result {n - 1}", _with(program, results=tuple(changed))


def _grids(program: CubeProgram) -> Iterator[Planted]:
    steps = program.recording.steps
    for n, step in enumerate(steps):
        if math.prod(step.grid) > 1:
            grid = (step.grid[0] - 1, *step.grid[1:])
            changed = replace(step, grid=grid)
            yield (
                f"a workgroup of launch {n} left out",
                _with_steps(program, [*steps[:n], changed, *steps[n + 1 :]]),
            )


def _aliased(program: CubeProgram) -> Iterator[Planted]:
    """A part of the block that lies where another one does: freed too early, or given twice."""
    parts = program.recording.parts
    for n, part in enumerate(parts):
        for other in parts[:n]:
            if part.buffer == other.buffer == BLOCK and other.offset != part.offset:
                if other.offset + part.nbytes <= program.recording.block:
                    moved = Part(BLOCK, other.offset, part.nbytes)
                    changed = (*parts[:n], moved, *parts[n + 1 :])
                    yield f"part {n} at that of another", _with(program, parts=changed)


def _moved(program: CubeProgram) -> Iterator[Planted]:
    """A part that begins a little before where it should: it overlaps what lies there."""
    alignment = program.launcher.runtime.alignment
    parts = program.recording.parts
    for n, part in enumerate(parts):
        if part.offset >= alignment:
            moved = Part(part.buffer, part.offset - alignment, part.nbytes)
            yield (
                f"part {n} at a wrong offset",
                _with(program, parts=(*parts[:n], moved, *parts[n + 1 :])),
            )


def _buffers(step: BundledLaunch) -> list[int]:
    return [b for b in step.bindings if not isinstance(b, Fixed)]


def _sizes(recording: Recording) -> dict[int, int]:
    """Return the sizes of buffers that a run makes, by their operands."""
    if not recording.parts and not recording.sizes:
        return {}
    made = [*recording.sizes, *[part.nbytes for part in recording.parts]]
    used = [b for step in recording.steps for b in _buffers(step)]
    first = max([*used, *[r[0] for r in recording.results]], default=0) + 1
    first -= len(made) + len(recording.arguments) + 2 * len(recording.faults)
    return {first + n: nbytes for n, nbytes in enumerate(made)}


# ---- kernels ----

#: What an operation becomes.
_OTHERS = {
    "add": "sub", "sub": "add", "mul": "add", "min": "max", "max": "min", "lt": "ge", "le": "gt",
    "gt": "le", "ge": "lt", "div": "mul",
}  # fmt: skip


def faults_of(kernel: Kernel) -> Iterator[tuple[str, Node, Change]]:
    """Return the faults that a kernel may have: of which node, and what stands for it."""
    for n, node in enumerate(_nodes(kernel)):
        for name, change in _changes(node):
            yield f"{name} at node {n}", node, change


Change = Callable[["_Changed", Node, tuple[Node, ...]], Node]


class _Changed(Rewriter):
    """A copy of a kernel in which something else stands for one node."""

    def __init__(self, kernel: Kernel, node: Node, change: Change) -> None:
        super().__init__(kernel)
        self._node = node
        self._change = change

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Return what stands for a node."""
        return self._change(self, node, inputs) if node is self._node else self.keep(node, inputs)


def _nodes(kernel: Kernel) -> Iterator[Node]:
    stack = [kernel.body]
    while stack:
        region = stack.pop()
        for node in region.body:
            yield node
            stack += node.regions


def _is_float(type: Type | None) -> bool:
    return type is not None and type.dtype.is_float


def _changes(node: Node) -> Iterator[tuple[str, Change]]:
    """Return what may be wrong with a node, and does not lead out of its memory."""
    of_floats = any(_is_float(x.type) for x in node.inputs)
    if node.kind == "alu" and of_floats:
        if node.attr in _OTHERS:
            yield f"{_OTHERS[node.attr]} for {node.attr}", _another_operation
        if _is_float(node.type):
            yield f"{node.attr} left out", lambda _, __, inputs: inputs[0]
    elif node.kind == "const" and _is_float(node.type) and isinstance(node.attr, float):
        if math.isfinite(node.attr):
            yield "another constant", _another_constant
    elif node.kind == "select" and _is_float(node.type):
        yield "a guard the other way", _other_way
        yield "a guard left out", lambda _, __, inputs: inputs[1]
    elif node.kind == "load" and _is_float(node.type) and node.inputs[0].kind == "buffer":
        yield "an index off by one", _index_before
        if len(node.inputs) == 4:
            yield "what a mask leaves out is something else", _another_fill
    elif node.kind == "store" and node.inputs[0].kind == "buffer":
        yield "a value not stored as it is", _another_value


def _another_operation(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    return pass_.make("alu", node.type, inputs, _OTHERS[node.attr])


def _another_constant(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    return pass_.make("const", node.type, (), 1.25 * node.attr + 0.5)


def _other_way(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    condition, x, y = inputs
    return pass_.make("select", node.type, (condition, y, x))


def _index_before(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    memory, index, *rest = inputs
    if index.value_type.width != 1:
        return pass_.keep(node, inputs)
    before = pass_.alu("sub", index, pass_.const(1, index.value_type))
    first = pass_.alu("max", before, pass_.const(0, index.value_type))
    is_aligned = node.value_type.width == 1
    return pass_.make("load", node.type, (memory, first, *rest), is_aligned)


def _another_fill(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    memory, index, mask, _ = inputs
    fill = pass_.make("const", node.type, (), 3.0)
    return pass_.make("load", node.type, (memory, index, mask, fill), node.attr)


def _another_value(pass_: _Changed, node: Node, inputs: tuple[Node, ...]) -> Node:
    memory, index, value, *rest = inputs
    if not _is_float(value.type) or value.value_type.dtype.itemsize < 4:
        return pass_.keep(node, inputs)
    zero = pass_.make("const", value.type, (), 0.0)
    return pass_.make("store", None, (memory, index, zero, *rest), node.attr)
