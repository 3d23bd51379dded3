"""L-BFGS: steps by an approximate Hessian, for small problems whose loss is not random.

Unlike the other rules it evaluates the loss itself, several times a step, and reads values to
decide: each evaluation waits for the device.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

from pyrite.autodiff.gradients import Gradients
from pyrite.autodiff.transform import value_and_grad
from pyrite.errors import ArgumentError, DTypeError, RecordError
from pyrite.optim.line_search import Sample, strong_wolfe
from pyrite.optim.resume import (
    array_of,
    described,
    entry,
    parameters_of,
    require_settings,
)
from pyrite.optim.settings import Configured, non_negative, positive, require, require_rate
from pyrite.optim.state import in_one_thread
from pyrite.optim.values import computed, ground, renewed
from pyrite.record import Record
from pyrite.tensor.creation import tensor, zeros_like
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map

M = TypeVar("M")

#: One flat tensor for each trained parameter, in the order of the model: a point, or a direction.
#: Flat, so that the order of a sum, and with it the last bit, does not depend on a memory layout.
Vector = tuple[Tensor, ...]

#: A pair with a smaller product would make the Hessian nearly singular; PyTorch's value.
LEAST_CURVATURE = 1e-10
#: Samples of one line search; more than 25 find nothing new in double precision.
MAX_SAMPLES = 25


class _Pair(NamedTuple):
    """How far a step went, and how the gradient changed on it."""

    move: Vector
    change: Vector
    curvature: float


@dataclass(slots=True)
class _Memory:
    """What one evaluation leaves to the next: pairs, and the last direction and its length."""

    iterations: int = 0
    pairs: tuple[_Pair, ...] = ()
    gradient: Vector = ()
    direction: Vector = ()
    length: float = 0.0
    scale: float = 1.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __deepcopy__(self, memo: Any) -> _Memory:
        with in_one_thread(self.lock):
            return replace(self, lock=threading.Lock())


class _Evaluation(NamedTuple):
    """Loss and gradient at a point, and what the states became there."""

    value: float
    loss: Tensor
    gradient: Vector
    updates: dict[int, Tensor]


@dataclass(frozen=True, eq=False)
class LBFGS(Configured):
    """Limited-memory BFGS.  ``step(model, loss)`` evaluates ``loss(model)`` as often as it needs.

        optimizer = LBFGS(line_search="strong_wolfe")
        for _ in range(10):
            model, loss = optimizer.step(model, lambda m: mse(m(x), y))

    Without a line search each iteration goes ``learning_rate`` along its direction, the first one
    at most learning_rate / |g|₁.  With "strong_wolfe" it searches for a length with enough decrease
    and little slope, beginning there.  A step ends after ``max_iterations`` or ``max_evaluations``
    (a quarter more by default), or when the largest gradient or change is within its tolerance.
    Frozen parameters stay.  Parameters must be float32 or float64.

    Source: Nocedal & Wright 2006, algorithms 7.4 and 7.5; line search 3.5 and 3.6.  Stopping rules,
    first length and defaults as PyTorch's.

    >>> import pyrite
    >>> from pyrite import nn
    >>> model = nn.Linear(2, 1, dtype="float64")
    >>> x = pyrite.tensor([[1.0, 2.0], [3.0, 4.0]], dtype="float64")
    >>> model, first = LBFGS().step(model, lambda m: (m(x) - 1).square().sum())
    >>> (model(x) - 1).square().sum().item() < 1e-6
    True
    """

    learning_rate: float = 1.0
    _: KW_ONLY
    max_iterations: int = 20
    max_evaluations: int | None = None
    tolerance_gradient: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 100
    line_search: Literal["strong_wolfe"] | None = None
    _memory: _Memory = field(default_factory=_Memory, init=False, repr=False)

    def __post_init__(self) -> None:
        require_rate(self, self.learning_rate, "a number")
        positive(self, "learning_rate", "max_iterations", "history_size")
        non_negative(self, "tolerance_gradient", "tolerance_change")
        if self.max_evaluations is not None:
            positive(self, "max_evaluations")
        ok = self.line_search in (None, "strong_wolfe")
        require(self, "line_search None or 'strong_wolfe'", repr(self.line_search), ok)

    def step(self, model: M, loss: Callable[[M], Tensor]) -> tuple[M, Tensor]:
        """Return the model after some iterations, and its loss before them.

        States that the loss renews (running statistics) are those of the last evaluation.

        Raises DTypeError for parameters of 16 bits, ShapeError when the loss is not a scalar.
        """
        with in_one_thread(self._memory.lock):
            problem = _Problem(model, loss)
            now = first = problem.evaluate(problem.start)
            point = problem.start
            stop = self._is_flat(now.gradient)
            iterations = 0
            while not stop:
                iterations += 1
                is_last = iterations == self.max_iterations
                point, now, is_done = self._iterate(problem, point, now, is_last)
                stop = is_done or is_last or problem.evaluations >= self._evaluation_limit()
            stepped: M = problem.model_at(point, 1 if iterations else 0, now.updates)
        return stepped, first.loss

    def record(self, model: Any) -> Record:
        """Return all that it remembers, by the paths of the model's trained parameters."""
        memory = self._memory
        names = [path for path, p in parameters_of(model).items() if p.trainable]
        self._require_known(len(names))
        vectors = {"gradient": memory.gradient, "direction": memory.direction}
        for number, pair in enumerate(memory.pairs):
            vectors |= {f"move{number}": pair.move, f"change{number}": pair.change}
        arrays = {
            f"{path}.{name}": t.numpy()
            for name, vector in vectors.items()
            for path, t in zip(names, vector, strict=bool(vector))
        }
        return Record(
            arrays,
            {
                "settings": described({"optimizer": self}),
                "iterations": memory.iterations,
                "curvatures": [pair.curvature for pair in memory.pairs],
                "length": memory.length,
                "scale": memory.scale,
            },
        )

    def load_record(self, model: Any, record: Record, *, allow_changes: bool = False) -> Self:
        """Take up what another one remembered, and return this one.

        Raises RecordError when settings, paths or shapes differ, unless settings may.
        """
        if not allow_changes:
            require_settings({"optimizer": self}, record)
        named = {path: p for path, p in parameters_of(model).items() if p.trainable}

        def vector(name: str) -> Vector:
            return tuple(_like(record, f"{path}.{name}", p) for path, p in named.items())

        memory = self._memory
        iterations = int(entry(record, "iterations"))
        pairs = tuple(
            _Pair(vector(f"move{number}"), vector(f"change{number}"), float(curvature))
            for number, curvature in enumerate(entry(record, "curvatures"))
        )
        gradient, direction = (vector("gradient"), vector("direction")) if iterations else ((), ())
        memory.length, memory.scale = float(entry(record, "length")), float(entry(record, "scale"))
        memory.pairs, memory.iterations = pairs, iterations
        memory.gradient, memory.direction = gradient, direction
        return self

    # ---- inside ----

    def _iterate(
        self, problem: _Problem, point: Vector, now: _Evaluation, is_last: bool
    ) -> tuple[Vector, _Evaluation, bool]:
        """Return the next point, what is known there, and whether the step ends."""
        direction = self._next_direction(now.gradient)
        slope = _dot(now.gradient, direction)
        length = self.learning_rate
        if self._memory.iterations == 1:
            length *= min(1.0, 1.0 / _sum_abs(now.gradient))
        self._memory.length = length
        if slope > -self.tolerance_change:
            return point, now, True
        if self.line_search is None:
            point = _moved(point, direction, length)
            after = now if is_last else problem.evaluate(point)
        else:
            found = self._searched(problem, point, now, direction, slope, length)
            length = self._memory.length = found.length
            point, after = found.point
        is_done = (
            self._is_flat(after.gradient)
            or _largest(direction) * length <= self.tolerance_change
            or (after is not now and abs(after.value - now.value) < self.tolerance_change)
        )
        return point, after, is_done

    def _searched(
        self,
        problem: _Problem,
        point: Vector,
        now: _Evaluation,
        direction: Vector,
        slope: float,
        length: float,
    ) -> Sample:
        def sample(length: float) -> Sample:
            there = _moved(point, direction, length)
            after = problem.evaluate(there)
            return Sample(length, after.value, _dot(after.gradient, direction), (there, after))

        left = self._evaluation_limit() - problem.evaluations
        start = Sample(0.0, now.value, slope, (point, now))
        return strong_wolfe(sample, start, length, max(1, min(MAX_SAMPLES, left)))

    def _next_direction(self, gradient: Vector) -> Vector:
        """Return minus the approximate inverse Hessian times the gradient; remember both."""
        memory = self._memory
        memory.iterations += 1
        if memory.iterations > 1:
            self._require_known(len(gradient))
            self._remember(_difference(gradient, memory.gradient))
        memory.gradient = gradient
        memory.direction = _two_loops(gradient, memory.pairs, memory.scale)
        return memory.direction

    def _require_known(self, count: int) -> None:
        known = len(self._memory.gradient)
        if known not in (0, count):
            raise ArgumentError(
                f"LBFGS requires the {known} trained parameters of its last step, got {count}; "
                "make another LBFGS for another model"
            )

    def _remember(self, change: Vector) -> None:
        memory = self._memory
        move = tuple(d * memory.length for d in memory.direction)
        curvature = _dot(change, move)
        if curvature > LEAST_CURVATURE:
            pairs = (*memory.pairs, _Pair(move, change, curvature))
            memory.pairs = pairs[-self.history_size :]
            memory.scale = curvature / _dot(change, change)

    def _is_flat(self, gradient: Vector) -> bool:
        return _largest(gradient) <= self.tolerance_gradient

    def _evaluation_limit(self) -> int:
        return self.max_evaluations or self.max_iterations * 5 // 4


class _Problem:
    """A loss as a function of the trained parameters of one model."""

    def __init__(self, model: Any, loss: Callable[[Any], Tensor]) -> None:
        self._model = model
        self._evaluate = value_and_grad(loss)
        self._parameters = [p for p in parameters_of(model).values() if p.trainable]
        narrow = [p for p in self._parameters if p.dtype.compute is not p.dtype]
        if narrow:
            raise DTypeError(
                f"LBFGS requires float32 or float64 parameters, got {narrow[0].dtype.name}; "
                'cast the model: model.astype("float32")'
            )
        self.evaluations = 0
        self.start: Vector = tuple(computed(p).reshape(-1) for p in self._parameters)

    def evaluate(self, point: Vector) -> _Evaluation:
        """Return loss and gradient at a point.  Waits for the loss."""
        self.evaluations += 1
        loss, gradients = self._evaluate(self.model_at(point))
        gradient = tuple(
            self._gradient(gradients, parameter, x)
            for parameter, x in zip(self._parameters, point, strict=True)
        )
        return _Evaluation(float(loss), ground(loss), gradient, gradients.updates)

    def model_at(
        self, point: Vector, age: int = 0, updates: dict[int, Tensor] | None = None
    ) -> Any:
        """Return the model with its parameters at a point, ``age`` versions on."""
        changed: dict[int, Identified] = {
            p.id: p.with_value(x.reshape(p.shape).to(p.device), version=p.version + age)
            for p, x in zip(self._parameters, point, strict=True)
        }
        held = [t for t in tree_leaves(self._model) if isinstance(t, Identified)]
        changed.update(renewed(held, updates or {}))
        return tree_map(
            lambda t: changed.get(t.id, t) if isinstance(t, Identified) else t, self._model
        )

    @staticmethod
    def _gradient(gradients: Gradients, parameter: Parameter, x: Tensor) -> Tensor:
        found = gradients.by_id().get(parameter.id)
        if found is None:
            return zeros_like(x)
        return ground(found).reshape(-1)


def _two_loops(gradient: Vector, pairs: Sequence[_Pair], scale: float) -> Vector:
    """Return -H g, where H is made of the pairs and ``scale`` times the identity: algorithm 7.4."""
    q = tuple(-g for g in gradient)
    weights = []
    for pair in reversed(pairs):
        weight = _dot(pair.move, q) / pair.curvature
        weights.append(weight)
        q = _moved(q, pair.change, -weight)
    q = tuple(x * scale for x in q)
    for pair, weight in zip(pairs, reversed(weights), strict=True):
        q = _moved(q, pair.move, weight - _dot(pair.change, q) / pair.curvature)
    return q


def _moved(point: Vector, direction: Vector, length: float) -> Vector:
    return tuple(x + length * d for x, d in zip(point, direction, strict=True))


def _difference(x: Vector, y: Vector) -> Vector:
    return tuple(a - b for a, b in zip(x, y, strict=True))


def _dot(x: Vector, y: Vector) -> float:
    return math.fsum(float((a * b).sum()) for a, b in zip(x, y, strict=True))


def _sum_abs(x: Vector) -> float:
    return math.fsum(float(a.abs().sum()) for a in x)


def _largest(x: Vector) -> float:
    return max((float(a.abs().max()) for a in x if a.size), default=0.0)


def _like(record: Record, name: str, parameter: Parameter) -> Tensor:
    array, like = array_of(record, name), computed(parameter).reshape(-1)
    if array.shape != like.shape or array.dtype != like.dtype.numpy:
        raise RecordError(f"load_record requires {name} of {like._type}, got {array.shape}")
    return tensor(array, device=like.device)
