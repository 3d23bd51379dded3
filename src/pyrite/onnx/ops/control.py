"""If, Loop and Scan.  Their conditions and counts are read on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.onnx.bound import require_end
from pyrite.onnx.converter import Host, Value, converts
from pyrite.onnx.exporter.tracer import branch
from pyrite.onnx.host import integer
from pyrite.onnx.program import Call, Program
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor


@converts("If")
def if_(
    call: Call, condition: Value, *, else_branch: Program, then_branch: Program
) -> tuple[Any, ...]:
    """Return the outputs of one of two bodies; where the model is exported, of a branch."""
    if isinstance(condition, Tensor):
        bodies = (_tensors(call, body) for body in (then_branch, else_branch))
        branched = branch(condition, *bodies)
        if branched is not None:
            return tuple(branched)
        condition = condition.numpy()
    return tuple(call.run(then_branch if bool(condition.reshape(-1)[0]) else else_branch, ()))


def _tensors(call: Call, body: Program) -> Callable[[], list[Tensor]]:
    """Return what runs a body and gives its outputs as tensors."""
    return lambda: [call.tensor(value) for value in call.run(body, ())]


@converts("Loop")
def loop(
    call: Call,
    count: Host | None = None,
    condition: Host | None = None,
    *initial: Value,
    body: Program,
) -> tuple[Any, ...]:
    """Run a body until its condition fails or the count is reached; return states and scans."""
    states = list(initial)
    limit = None if count is None else integer(count)
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    scans: list[list[Any]] = [[] for _ in body.graph.outputs[1 + len(states) :]]
    step = 0
    while goes_on and (limit is None or step < limit):
        require_end(step)
        given = [np.array(step, np.int64), np.array(goes_on), *states]
        going, *made = call.run(body, given)
        goes_on = bool(
            np.asarray(going.numpy() if isinstance(going, Tensor) else going).reshape(-1)[0]
        )
        for gathered, value in zip(scans, made[len(states) :], strict=True):
            gathered.append(value)
        states = made[: len(states)]
        step += 1
    names = body.graph.outputs[1 + len(initial) :]
    stacked = (
        _stacked(call, body, name, found, 0) for name, found in zip(names, scans, strict=True)
    )
    return (*states, *stacked)


def _stacked(call: Call, body: Program, name: str, values: Sequence[Any], axis: int) -> Any:
    """Return values of all steps along a new axis; none of them is a tensor without elements."""
    if not values:
        of = body.graph.types.get(name)
        sizes = [s if isinstance(s, int) else 0 for s in (of.shape or ())] if of else []
        sizes.insert(axis % (len(sizes) + 1), 0)
        carrier = of.element.carrier if of and of.element else None
        return call.tensor(np.zeros(sizes, carrier.numpy if carrier else np.float32))
    if all(isinstance(value, np.ndarray | np.generic) for value in values):
        return np.stack(values, axis)
    return functions.stack([call.tensor(value) for value in values], axis)


@converts("Scan", since=9)
def scan(
    call: Call,
    *inputs: Value,
    body: Program,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """Run a body over slices of its scan inputs; return last states and stacked outputs."""
    held = len(inputs) - num_scan_inputs
    states, scanned = list(inputs[:held]), [call.tensor(x) for x in inputs[held:]]
    axes = list(scan_input_axes) or [0] * num_scan_inputs
    slices = [
        _slices(x, axis, backwards)
        for x, axis, backwards in zip(
            scanned, axes, list(scan_input_directions) or [0] * num_scan_inputs, strict=True
        )
    ]
    names = body.graph.outputs[held:]
    scans: list[list[Any]] = [[] for _ in names]
    for given in zip(*slices, strict=True):
        made = call.run(body, [*states, *given])
        states = made[:held]
        for gathered, value in zip(scans, made[held:], strict=True):
            gathered.append(value)
    directions = list(scan_output_directions) or [0] * len(names)
    stacked = (
        _stacked(call, body, name, found[::-1] if backwards else found, axis)
        for name, found, axis, backwards in zip(
            names, scans, list(scan_output_axes) or [0] * len(names), directions, strict=True
        )
    )
    return (*states, *stacked)


def _slices(x: Tensor, axis: int, backwards: int) -> list[Tensor]:
    found = [piece.squeeze(axis) for piece in x.split([1] * x.shape[axis], axis)]
    return found[::-1] if backwards else found


@converts("Scan", since=8)
def scan_8(
    call: Call,
    lengths: Host | None = None,
    *inputs: Value,
    body: Program,
    directions: Sequence[int] = (),
    num_scan_inputs: int,
) -> tuple[Any, ...]:
    """Run a body over each sequence of a batch; return last states and stacked outputs."""
    tensors = [call.tensor(x) for x in inputs]
    rows = []
    for row in range(tensors[0].shape[0]):
        given = [x[row] for x in tensors]
        if lengths is not None:
            held = len(given) - num_scan_inputs
            given[held:] = [x[: int(lengths[row])] for x in given[held:]]
        rows.append(
            scan(call, *given, body=body, num_scan_inputs=num_scan_inputs,
                 scan_input_directions=directions)
        )  # fmt: skip
    return tuple(
        functions.stack([call.tensor(v) for v in found], 0) for found in zip(*rows, strict=True)
    )
