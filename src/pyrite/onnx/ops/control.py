"""If, Loop and Scan.  Their conditions and counts are read on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.onnx.bound import require_end
from pyrite.onnx.converter import Control, Host, Value, converts
from pyrite.onnx.exporter.tracer import branch
from pyrite.onnx.exporter.tracer import loop as exported_loop
from pyrite.onnx.host import integer
from pyrite.onnx.program import Call, Program
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor


@converts("If")
def if_(
    call: Call, condition: Control, *, else_branch: Program, then_branch: Program
) -> tuple[Any, ...]:
    """Return the outputs of one of two bodies; where the model is exported, of a branch."""
    if isinstance(condition, Tensor):
        bodies = (_tensors(call, body) for body in (then_branch, else_branch))
        branched = branch(condition, *bodies)
        if branched is not None:
            return tuple(branched)
    is_true = bool(_read(call, condition).reshape(-1)[0])
    return tuple(call.run(then_branch if is_true else else_branch, ()))


def _tensors(call: Call, body: Program) -> Callable[[], list[Tensor]]:
    """Return what runs a body and gives its outputs as tensors."""
    return lambda: [call.tensor(value) for value in call.run(body, ())]


@converts("Loop")
def loop(
    call: Call,
    count: Control | None = None,
    condition: Control | None = None,
    *initial: Value,
    body: Program,
) -> tuple[Any, ...]:
    """Run a body until its condition fails or the count is reached; return states and scans.

    Where the model is exported, return those of a loop in its graph.
    """
    exported = _exported(call, count, condition, initial, body)
    if exported is not None:
        return tuple(exported)
    count, condition = _read(call, count), _read(call, condition)
    states = list(initial)
    limit = None if count is None else integer(count)
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    scans: list[list[Any]] = [[] for _ in body.graph.outputs[1 + len(states) :]]
    step = 0
    while goes_on and (limit is None or step < limit):
        require_end(step)
        given = [np.array(step, np.int64), np.array(goes_on), *states]
        going, *made = call.run(body, given)
        goes_on = bool(np.asarray(_read(call, going)).reshape(-1)[0])
        for gathered, value in zip(scans, made[len(states) :], strict=True):
            gathered.append(value)
        states = made[: len(states)]
        step += 1
    names = body.graph.outputs[1 + len(initial) :]
    stacked = (
        _stacked(call, body, name, found, 0) for name, found in zip(names, scans, strict=True)
    )
    return (*states, *stacked)


def _read(call: Call, value: Any) -> Any:
    """Return a value that steers the graph as an array of the host."""
    if not isinstance(value, Tensor):
        return value
    call.context.reads += 1
    return value.numpy()


def _exported(
    call: Call, count: Any, condition: Any, initial: Sequence[Any], body: Program
) -> list[Tensor] | None:
    """Return the results of a loop of tensors in a graph that is traced; None elsewhere."""
    place = call.context.device.backend
    is_off = isinstance(condition, np.ndarray) and not bool(condition.reshape(-1)[0])
    if not place.level or is_off or any(not _is_array(value) for value in initial):
        return None
    held = 1 + len(initial)
    stacks = [held + i for i in range(len(body.graph.outputs) - held)
              if call.has_output(held - 1 + i)]  # fmt: skip

    def once(given: Sequence[Tensor]) -> list[Tensor]:
        made = call.run(body, given)
        return [_on(call, made[i]) for i in (*range(held), *stacks)]

    found = exported_loop(
        place,
        integer(count) if isinstance(count, np.ndarray) else count,
        condition if isinstance(condition, Tensor) else None,
        [_on(call, value) for value in initial],
        once,
    )
    if found is None:
        return None
    by_output = dict(zip((*range(held - 1), *(at - 1 for at in stacks)), found, strict=True))
    return [by_output.get(i, found[0]) for i in range(len(body.graph.outputs) - 1)]


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _on(call: Call, value: Any) -> Tensor:
    """Return a value as a tensor of the device that the model runs on."""
    found: Tensor = call.context.tensor(value)
    return found


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
