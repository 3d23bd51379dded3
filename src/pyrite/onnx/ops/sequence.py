"""Sequences and optionals, which are Python's lists and None."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.errors import IndexRangeError
from pyrite.onnx.converter import Host, Value, converts
from pyrite.onnx.graph import ValueType
from pyrite.onnx.host import integer
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.types import Array


@converts("SequenceConstruct", since=11)
def sequence_construct(*inputs: Value) -> list[Any]:
    """Return the inputs as a sequence."""
    return list(inputs)


@converts("SequenceEmpty", since=11)
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    """Return a sequence of nothing."""
    return []


@converts("SequenceLength", since=11)
def sequence_length(sequence: Value) -> Array:
    """Return how many values a sequence has."""
    return np.array(len(sequence), np.int64)


@converts("SequenceAt", since=11)
def sequence_at(sequence: Value, position: Host) -> Any:
    """Return the value at a position, which may count from the end."""
    return sequence[_place(sequence, integer(position))]


def _place(sequence: Any, position: int) -> int:
    if not -len(sequence) <= position < len(sequence):
        raise IndexRangeError(
            f"a sequence of {len(sequence)} requires a position within it, got {position}"
        )
    return position % len(sequence)


@converts("SequenceInsert", since=11)
def sequence_insert(sequence: Value, tensor: Value, position: Host | None = None) -> list[Any]:
    """Return the sequence with a value before a position, or at its end."""
    at = len(sequence) if position is None else integer(position)
    at = at + len(sequence) if at < 0 else at
    return [*sequence[:at], tensor, *sequence[at:]]


@converts("SequenceErase", since=11)
def sequence_erase(sequence: Value, position: Host | None = None) -> list[Any]:
    """Return the sequence without the value at a position, or without its last."""
    at = _place(sequence, -1 if position is None else integer(position))
    return [*sequence[:at], *sequence[at + 1 :]]


@converts("ConcatFromSequence", since=11)
def concat_from_sequence(call: Call, sequence: Value, *, axis: int, new_axis: int = 0) -> Any:
    """Return the values one after the other along an axis, which may be a new one."""
    if all(isinstance(value, np.ndarray) for value in sequence):
        return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)
    tensors = [call.tensor(value) for value in sequence]
    return functions.stack(tensors, axis) if new_axis else functions.concat(tensors, axis)


@converts("SplitToSequence", since=11)
def split_to_sequence(
    call: Call, x: Value, split: Host | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Any]:
    """Return pieces of x along an axis, as a sequence."""
    x = call.tensor(x)
    size = x.shape[axis]
    if split is None:
        pieces = x.split([1] * size, axis)
        return list(pieces) if keepdims else [piece.squeeze(axis) for piece in pieces]
    each = split.reshape(-1).tolist()
    if not split.ndim:
        each = [min(each[0], size - start) for start in range(0, size, each[0])]
    return list(x.split(each, axis))


@converts("Optional", since=15)
def optional(value: Value | None = None, *, type: ValueType | None = None) -> Any:
    """Return the value, or None where there is none."""
    return value


@converts("OptionalHasElement", since=15)
def optional_has_element(value: Value | None = None) -> Array:
    """Return whether there is a value."""
    return np.array(value is not None)


@converts("OptionalGetElement", since=15)
def optional_get_element(value: Value) -> Any:
    """Return the value of an optional.  Raises IndexRangeError where there is none."""
    if value is None:
        raise IndexRangeError("OptionalGetElement requires an optional with a value, got none")
    return value
