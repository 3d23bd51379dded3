"""Example calls of every op, from its record: what the test suites of all backends are made of.

An elementwise op needs no samples: shapes that broadcast, zero-d, empty and number operands are
derived.  Values are seeded by the op's name, so that a failure repeats.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.op import Op, Sample, Spec, bind, sample
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.records import all_records
from pyrite.types import Array, DType, Shape, float64, int32

#: The interval that floats are drawn from where an op states no domain.
EVERYWHERE = (-2.0, 2.0)

_BROADCASTING: dict[int, tuple[tuple[Shape, ...], ...]] = {
    0: (),
    1: (((2, 3),), ((),), ((0, 3),)),
    2: (((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((3,), ()), ((0, 3), (1, 3))),
    3: (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((0, 3), (3,), (1,))),
}


@dataclass(frozen=True, slots=True)
class Example:
    """One call of one op."""

    op: Op
    number: int
    sample: Sample

    @property
    def id(self) -> str:
        """Its name in a test report."""
        return f"{self.op.name}-{self.number}"

    def arrays(self, dtype: DType = float64) -> list[Any]:
        """Return the inputs: arrays, floats in the given dtype, numbers and Nones."""
        seed = zlib.crc32(f"{self.op.name}/{self.number}".encode())
        rng = np.random.default_rng(seed)
        return [
            _draw(rng, value, self.op, position, dtype) if isinstance(value, Spec) else value
            for position, value in enumerate(self.sample.inputs)
        ]

    def call(self, inputs: Sequence[Any], device: DeviceLike = None) -> tuple[Tensor, ...]:
        """Execute the op on tensors, numbers and Nones; return all of its results."""
        attrs = {**self.op.attributes, **self.sample.attrs}
        on = (Tensor, as_device(device).backend)
        result = bind(self.op, inputs, attrs, on=on)
        return result if isinstance(result, tuple) else (result,)

    def run(self, dtype: DType, device: DeviceLike = None) -> tuple[Tensor, ...]:
        """Execute the op on its example inputs on a device."""
        inputs = [
            tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in self.arrays(dtype)
        ]
        return self.call(inputs, device)

    def is_differentiable(self, position: int) -> bool:
        """Whether gradients flow to the input at a position, if it is a float.

        Not of a cast: to what its example says, it rounds more than differences would show.
        """
        derivative = self.op.derivative
        if derivative is None or self.op.name == "astype":
            return self.op.is_composite
        return bool(derivative.needs((position,), len(self.sample.inputs)).tracked)


def examples() -> Iterator[Example]:
    """Give every example of every op, in the order of the names."""
    for op in all_records().values():
        for number, found in enumerate(samples_of(op)):
            yield Example(op, number, found)


def samples_of(op: Op) -> tuple[Sample, ...]:
    """Return the samples of a record, and for elementwise ops those that follow from its arity."""
    if not op.is_elementwise or op.samples:
        return op.samples
    kind = {"integer": "int", "logical": "bool", "bool": "bool"}.get(op.accepts, "float")
    found = [
        sample(*(Spec(shape, kind) for shape in shapes))  # type: ignore[arg-type]
        for shapes in _BROADCASTING[len(op.inputs)]
    ]
    if len(op.inputs) == 2 and kind == "float":
        number = _inside(op, 1)
        found.append(sample(Spec((2, 3)), number))
        found.append(sample(_inside(op, 0), Spec((2, 3))))
    return tuple(found)


def domain_of(op: Op, position: int) -> tuple[float, float]:
    """Return the interval in which an input of an op is to lie."""
    if op.domain is None:
        return EVERYWHERE
    if isinstance(op.domain[0], tuple):
        interval = op.domain[position] if position < len(op.domain) else None
        return interval or EVERYWHERE
    return op.domain


def _inside(op: Op, position: int) -> float:
    low, high = domain_of(op, position)
    return low + 0.7 * (high - low)


def _draw(rng: np.random.Generator, spec: Spec, op: Op, position: int, dtype: DType) -> Array:
    if spec.kind == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if spec.kind in ("int", "uint"):
        low, high = _bounds(spec, (0, 8))
        kind = int32.numpy if spec.kind == "int" else np.dtype(np.uint32)
        if spec.distinct:
            return _distinct_integers(rng, spec.shape, int(low), int(high)).astype(kind)
        return rng.integers(int(low), int(high), spec.shape).astype(kind)
    low, high = _bounds(spec, domain_of(op, position))
    values = rng.uniform(low, high, spec.shape)
    if spec.distinct:
        # An evenly spaced grid, shuffled: no two closer than the spacing.
        values = rng.permutation(np.linspace(low, high, max(values.size, 2))[: values.size])
    return np.asarray(values.reshape(spec.shape)).astype(dtype.numpy)


def _bounds(spec: Spec, default: tuple[float, float]) -> tuple[float, float]:
    low = default[0] if spec.low is None else spec.low
    return low, default[1] if spec.high is None else spec.high


def _distinct_integers(rng: np.random.Generator, shape: Shape, low: int, high: int) -> Array:
    count = int(np.prod(shape))
    cycle = itertools.islice(itertools.cycle(rng.permutation(np.arange(low, high))), count)
    return np.array(list(cycle)).reshape(shape)
