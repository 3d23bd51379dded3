"""Metric: measured on the device step by step, added up on the host when somebody looks.

Invariant: ``update`` never waits for the device.  What it measured is kept there, mostly a few
numbers a step, until ``compute`` reads all of it together; sums are taken in float64 in the order
of the steps, so a value does not depend on when it was looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pyrite.tensor.tensor import Tensor
from pyrite.train.output import Output
from pyrite.train.reading import Better, Reading
from pyrite.train.sample import Sample

Measured = tuple[Any, ...]
"""Tensors, or numbers that are already known."""


class Metric(ABC):
    """A number that says how a split of an epoch goes.

    The learner gives it the `Output` of each step (`update`), asks for a `Reading` every
    ``read_every`` steps and at the end of the split (`compute`), and clears it before the next
    epoch (`reset`).  Each split has a copy of its own (`fresh`).  A subclass says three things:

    - ``measure(output)``: what to keep of a step, as a tuple of tensors or numbers.  It computes
      with tensors and reads none: that would wait for the device in each step.
    - ``add(state, measured)``: the state after one more step.  ``measured`` is the same tuple as
      NumPy arrays.  The first state is ``{}``; each is arrays by name, for a checkpoint saves it.
    - ``value(state)``: the number, NaN where it is undefined.

    Of sums and means, derive from `SumMetric`: it has an example.  ``unit`` "%" says that a value
    of 0.5 is written as 50 %; ``better`` which end is good, for `Goal`, early stopping and tables.
    """

    unit: ClassVar[str] = ""
    better: ClassVar[Better | None] = None
    #: The name where none is given; None for the name of the class.
    default_name: ClassVar[str | None] = None
    #: Whether it speaks of training itself, and means nothing in an evaluation.
    only_training: ClassVar[bool] = False

    def __init__(self, name: str | None = None) -> None:
        self.name = name or self.default_name or type(self).__name__
        self._pending: list[Measured] = []
        self._state: dict[str, NDArray[Any]] = {}

    @abstractmethod
    def measure(self, output: Output) -> Measured:
        """Return what to keep of an output: small tensors, not yet read, or numbers."""

    @abstractmethod
    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the state after one more step, as arrays by name; the first state is empty."""

    def add_steps(
        self, state: Mapping[str, NDArray[Any]], steps: Sequence[Sequence[NDArray[Any]]]
    ) -> Any:
        """Return the state after several steps; for states that are dear to copy at each."""
        for measured in steps:
            state = self.add(state, measured)
        return state

    @abstractmethod
    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the metric's value, NaN where it is undefined."""

    def update(self, output: Output) -> None:
        """Take in one step, without waiting for the device."""
        self._pending.append(self.measure(output))

    def compute(self) -> Reading:
        """Return the value over all steps since `reset`; this waits for the device."""
        state = self.state()
        value = self.value(state) if state else float("nan")
        return Reading(self.name, float(value), self.unit, self.better)

    def samples(self) -> tuple[Sample, ...]:
        """Return what there is to look at of the whole split, beside the value: nothing, mostly."""
        return ()

    def fresh(self) -> Self:
        """Return the same metric, which has seen nothing: for another split."""
        made = copy(self)
        made._pending, made._state = [], {}
        return made

    def reset(self) -> None:
        """Forget all steps."""
        self._pending.clear()
        self._state = {}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that was seen, as arrays: what a checkpoint saves."""
        if self._pending:
            steps = [[_read(part) for part in measured] for measured in self._pending]
            self._state = self.add_steps(self._state, steps)
            self._pending.clear()
        return self._state

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned."""
        self.reset()
        self._state = dict(state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class SumMetric(Metric):
    """A metric of sums over all steps: counts, weighted means.

    A subclass says what to `measure` of a step, and the value `of_sums` of that over all steps:

    >>> from pyrite.tensor.creation import tensor
    >>> class Bias(SumMetric):
    ...     def measure(self, output):
    ...         error = output.predictions - output.targets
    ...         return error.sum(), error.size
    ...     def of_sums(self, total, count):
    ...         return float(total / count)
    >>> metric = Bias()
    >>> metric.update(Output(tensor(0.0), tensor([1.0, 3.0]), tensor([1.0, 1.0])))
    >>> str(metric.compute())
    'Bias 1.0000'
    """

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sums, in one float64 array per measured quantity."""
        return {
            str(i): state.get(str(i), 0) + part.astype(np.float64)
            for i, part in enumerate(measured)
        }

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the value of the sums."""
        return self.of_sums(*(state[str(i)] for i in range(len(state))))

    @abstractmethod
    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return the value, from the sum of each measured quantity."""


def ratio(part: Any, whole: Any) -> NDArray[np.float64]:
    """Return part / whole, 0 where whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    result = np.zeros(np.broadcast(part, whole).shape)
    np.divide(part, whole, out=result, where=whole != 0)
    return result


def _read(part: Any) -> NDArray[Any]:
    return part.numpy() if isinstance(part, Tensor) else np.asarray(part)
