"""Calls of an application's op that write to memory of the application: ``op(x, out=frame)``.

A tensor is a value, so what is given must be memory that the application shares and nobody else
holds for values of Pyrite: `pyrite.wgpu.from_buffer`, or `pyrite.from_dlpack` with ``copy=False``.
The tensor itself then has the new values, as after `Tensor.invalidate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op.binding import handles_of
from pyrite.op.foreign import instead
from pyrite.op.plan import Form, known, prepare
from pyrite.op.record import Attributes, Op, Plan, TensorBase


def call_into(
    op: Op, inputs: Sequence[Any], attrs: Attributes, form: Form | None, given: Any
) -> Any:
    """Execute an op into the memory of tensors; return them, with the values that it made.

    Raises ArgumentError for other than a tensor for each result, ShapeError and DTypeError for one
    of another type, DeviceError for memory that is not the application's, GradientError where an
    input is tracked.
    """
    out = given if isinstance(given, tuple) else (given,)
    for each in out:
        if not isinstance(each, TensorBase):
            raise DTypeError(f"{op.name} requires a tensor as out, {instead(each)}")
    found = known(op, inputs, attrs, form)
    if found is not None:
        _, backend, handles, plan = found
    else:
        _, backend, unified, plan = prepare(op, inputs, attrs, form)
        handles = handles_of(op, unified, backend)
    _require_fit(op, out, plan)
    targets = handles_of(op, out, backend)
    made = backend.execute_into(op, handles, plan, targets)
    for each, handle in zip(out, made, strict=True):
        each._handle, each._backend = handle, backend
    return given


def _require_fit(op: Op, out: Sequence[TensorBase], plan: Plan) -> None:
    types = plan.out or ()
    if len(types) != len(out):
        raise ArgumentError(
            f"{op.name} requires out to have a tensor for each of its {len(types)} results, got "
            f"{len(out)}"
        )
    if len({id(each) for each in out}) < len(out):
        raise ArgumentError(f"{op.name} requires out to have memory for each result, got one twice")
    for each, type in zip(out, types, strict=True):
        if each._type.shape != type.shape:
            raise ShapeError(
                f"{op.name} requires out of shape {type.shape}, got {each._type.shape}"
            )
        if each._type.dtype is not type.dtype:
            raise DTypeError(
                f"{op.name} requires out of {type.dtype.name}, got {each._type.dtype.name}"
            )
