"""Random graphs of ops: programs as a user writes them, drawn by a seed and run on any device.

A graph is drawn while it runs on the reference, so each step knows the shapes and the values that
it is applied to.  Beside its values run shaken ones, that differ by roundings: how far these go
apart says how far a device may be off.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.tensor.creation import tensor
from pyrite.tensor.inspection import finfo
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.types import Array, DType, dtype

#: What a step computes of tensors.
Compute = Callable[..., Tensor | Sequence[Tensor]]

#: What the results of floats depend on.
Rounds = Literal["no", "function", "sums", "always"]
#: The dtypes of values.
KINDS = ("float32", "float64", "float16", "bfloat16", "int32", "int8", "uint8", "bool")
#: Where a graph is drawn.
REFERENCE = "numpy"
#: How many shaken values go beside each.
SHAKEN = 2
#: Values greater than that are not computed with further: floats would lose all digits.
GREATEST = 1e3


@dataclass(frozen=True, slots=True)
class Drawn:
    """Some results of some values; a value is named by its number.

    ``rounds`` says what the results of floats depend on: "no" order of additions, as arithmetic
    and moves; nor do those of a "function", which rounds inside as if its operand were another;
    "sums", which are exact where whole numbers are added; or it is "always".
    """

    text: str
    compute: Compute = field(repr=False)
    operands: tuple[int, ...]
    rounds: Rounds = "no"
    #: Whether the least change of an operand may change the results altogether.
    is_discontinuous: bool = False
    #: Whether another thread computes it.
    is_apart: bool = False


@dataclass(slots=True)
class Value:
    """A value on the reference, and what is known of how exact a device has to be.

    ``is_exact``: kernels of one device give the same bits, whichever ops they hold.
    ``is_certain``: another device gives it, but for roundings.
    """

    tensor: Tensor
    shaken: list[Tensor]
    is_exact: bool
    is_certain: bool
    is_whole: bool
    #: A rounding of the coarsest dtype that it came through, relative to 1.
    eps: float

    @property
    def spread(self) -> float:
        """How far the shaken values are apart."""
        here = self.tensor.astype("float64").numpy()
        with np.errstate(invalid="ignore"):
            apart = [np.abs(t.astype("float64").numpy() - here) for t in self.shaken]
        return float(max((a[np.isfinite(a)].max(initial=0.0) for a in apart), default=0.0))


@dataclass(frozen=True, slots=True)
class ValueRead:
    """A value that the program reads at a place, and how far off it may be."""

    value: int
    array: Array
    is_exact: bool
    is_certain: bool
    allowed: float


@dataclass(frozen=True, slots=True)
class Event:
    """What a program does: a step, a read of values, or that it lets values go."""

    step: Drawn | None = None
    reads: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()


class RandomGraph:
    """A graph while it is drawn, and when it is; ``steps`` are what it is drawn of."""

    def __init__(self, seed: int, steps: Sequence[Callable[[RandomGraph], Drawn | None]]) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.values: list[Value] = []
        self.held: list[int] = []
        self.events: list[Event] = []
        #: The numbers of the results of each step.
        self._results: list[tuple[int, ...]] = []
        for _ in range(self.random.randint(1, 3)):
            self._input()
        for _ in range(self.random.randint(3, 14)):
            self._draw(self.random.choice(steps))
        self.events.append(Event(reads=tuple(self.random.sample(self.held, len(self.held)))))

    @property
    def text(self) -> str:
        """The program, a line an event."""
        lines: list[str] = []
        count = 0
        for event in self.events:
            if event.step is not None:
                names = ", ".join(f"v{v}" for v in event.step.operands)
                made = self._results[count]
                count += 1
                types = ", ".join(f"v{v}: {self.values[v].tensor._type}" for v in made)
                apart = " in a thread" if event.step.is_apart else ""
                lines.append(f"{types} = {event.step.text} of {names}{apart}")
            if event.reads:
                lines.append(f"read {event.reads}")
            if event.drops:
                lines.append(f"drop {event.drops}")
        return "\n".join(lines)

    # ---- drawing ----

    def shape(self, most: int = 4) -> tuple[int, ...]:
        """Return a shape of a few elements."""
        sizes = [1, 2, 3, 4, 5, 7, 8, 17]
        ndim = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4][: 3 + 2 * most])
        shape = [self.random.choice(sizes) for _ in range(min(ndim, most))]
        if shape and self.random.random() < 0.04:
            shape[self.random.randrange(len(shape))] = 0
        while np.prod(shape) > 3000:
            shape[shape.index(max(shape))] = 2
        if shape and self.random.random() < 0.06:
            shape = shape[-2:]
            shape[-1] = self.random.choice([257, 4100, 20000])
        return tuple(shape)

    def array(self, shape: Sequence[int], kind: DType) -> Array:
        """Return values of a dtype: of floats whole ones half of the time."""
        if kind.is_bool:
            return self.numbers.random(shape) < 0.5
        if kind.is_float and self.random.random() < 0.5:
            found = self.numbers.standard_normal(shape).astype(kind.numpy)
            if self.random.random() < 0.1 and found.size:
                found.flat[0] = self.random.choice([np.nan, np.inf, -np.inf, -0.0])
            return found
        low = 0 if kind.kind == "uint" else -4
        return self.numbers.integers(low, 5, shape).astype(kind.numpy)

    def pick(self, accepts: Callable[[Value], bool] = lambda _: True) -> int | None:
        """Return one of the values that are held and accepted, the latest rather than others."""
        found = [v for v in self.held if accepts(self.values[v])]
        if not found:
            return None
        return found[-1] if self.random.random() < 0.4 else self.random.choice(found)

    def type_of(self, value: int) -> Any:
        """Return the type of a value."""
        return self.values[value].tensor._type

    def _input(self) -> None:
        kind = dtype(self.random.choice(["float32", "float32", *KINDS]))
        values = self.array(self.shape(), kind)
        found = [one for one in LAYOUTS.values() if one.applies(values.shape)]
        layout = self.random.choice(found) if self.random.random() < 0.6 else LAYOUTS["dense"]
        settled = layout.settled(values)
        is_there = self.random.random() < 0.5

        def compute(where: DeviceLike) -> Tensor:
            made = layout(settled, where)
            if is_there:
                made.numpy()
            return made

        self._take(Drawn(f"an input that lies {layout.name}", compute, ()))

    def _draw(self, draw: Callable[[RandomGraph], Drawn | None]) -> None:
        step = draw(self)
        if step is None:
            return
        self._take(step)
        if self.random.random() < 0.25:
            reads = self.random.sample(self.held, self.random.randint(1, min(3, len(self.held))))
            self.events.append(Event(reads=tuple(reads)))
        if len(self.held) > 2 and self.random.random() < 0.4:
            drops = self.random.sample(self.held[:-1], 1)
            self.held = [v for v in self.held if v not in drops]
            self.events.append(Event(drops=tuple(drops)))

    def _take(self, step: Drawn) -> None:
        """Run a step on the reference, and keep what it gives."""
        with np.errstate(all="ignore"):
            results = _computed(step, [self.values[v].tensor for v in step.operands], REFERENCE)
            others = [self._shaken(step, n) for n in range(SHAKEN)]
        given = [self.values[v] for v in step.operands]
        made = [
            self._judged(step, given, result, [other[n] for other in others])
            for n, result in enumerate(results)
        ]
        if any(not _is_tame(value) for value in made):
            return
        first = len(self.values)
        self.values += made
        numbers = range(first, len(self.values))
        self.held += numbers
        self._results.append(tuple(numbers))
        self.events.append(Event(step))

    def _shaken(self, step: Drawn, n: int) -> list[Tensor]:
        given = [self.values[v].shaken[n] for v in step.operands]
        if step.rounds == "function":
            # It rounds inside, as if of an operand beside this one, whole numbers too: gelu(-4) is
            # off by 17 roundings of itself, its condition there.
            given = [self._shake(x) for x in given]
        elif step.rounds != "no":
            given = [
                self._shake(x, self.values[v]) for x, v in zip(given, step.operands, strict=True)
            ]
        return _computed(step, given, REFERENCE)

    def _shake(
        self, x: Tensor, value: Value | None = None, near: float = 0.0, least: float = 0.0
    ) -> Tensor:
        """Return values that differ by a rounding from those of a float, and from ``near``.

        Roundings are those of its dtype, or ``least`` where that is greater.
        """
        if not x.dtype.is_float or (value is not None and value.is_whole):
            return x
        signs = self.numbers.choice([-1.0, 1.0], x.shape)
        eps = max(_eps(x), least)
        wide = x.astype("float64").numpy() * (1 + eps * signs) + eps * near * signs
        return tensor(wide, device=REFERENCE).astype(x.dtype)

    def _judged(
        self, step: Drawn, given: Sequence[Value], result: Tensor, shaken: list[Tensor]
    ) -> Value:
        is_float = result.dtype.is_float
        is_whole = all(g.is_whole for g in given) and _is_whole(result)
        if is_float and step.rounds == "always":
            # A softmax makes 1/n of zeros too, and a gradient through it what cancels of that.
            is_whole &= any(_greatest(g.tensor) for g in given)
        is_sum_exact = step.rounds == "sums" and is_whole and all(_sums_are_exact(g) for g in given)
        is_exact = all(g.is_exact for g in given) and (
            step.rounds in ("no", "function") or not is_float or is_sum_exact
        )
        is_certain = all(g.is_certain for g in given) and not (
            step.is_discontinuous and any(g.tensor.dtype.is_float and not g.is_whole for g in given)
        )
        if is_whole:
            shaken = [result] * SHAKEN
        else:
            near, least = _roundings(step, given, result)
            shaken = [self._shake(x, near=near, least=least) for x in shaken]
        # What was shaken twice may be where it was, in a dtype that is finer by then.
        eps = max(_eps(result), *[g.eps for g in given if not g.is_whole], 0.0)
        return Value(result, shaken, is_exact, is_certain, is_whole, eps)

    # ---- what is expected ----

    def reads(self) -> list[ValueRead]:
        """Return what is read, in order, as it is on the reference."""
        found: list[ValueRead] = []
        for event in self.events:
            for v in event.reads:
                value = self.values[v]
                allowed = 16 * (value.spread + value.eps * _greatest(value.tensor))
                array = value.tensor.numpy()
                found.append(ValueRead(v, array, value.is_exact, value.is_certain, allowed))
        return found

    # ---- running ----

    def run(self, where: DeviceLike, holds_all: bool = False) -> list[Array]:
        """Return what is read when the program runs on a device.

        With ``holds_all`` no value is let go.
        """
        values: dict[int, Tensor] = {}
        found: list[Array] = []
        count = 0
        for event in self.events:
            if event.step is not None:
                results = _computed(event.step, [values[v] for v in event.step.operands], where)
                values.update(zip(self._results[count], results, strict=True))
                del results
                count += 1
            found += [values[v].numpy() for v in event.reads]
            if not holds_all:
                for v in event.drops:
                    del values[v]
        return found


def _computed(step: Drawn, given: Sequence[Tensor], where: DeviceLike) -> list[Tensor]:
    """Return the results of a step, as tensors."""
    made: list[Any] = []

    def compute() -> None:
        result = step.compute(*given) if given else step.compute(as_device(where))
        made.extend([result] if isinstance(result, Tensor) else result)

    if not step.is_apart:
        compute()
        return made
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    return made


def _roundings(step: Drawn, given: Sequence[Value], result: Tensor) -> tuple[float, float]:
    """Return what the roundings inside a step are of, and the least of them relative to that."""
    if step.rounds in ("no", "function"):
        return 0.0, 0.0
    near, least = _greatest(result), 0.0
    if step.rounds == "always":
        # What cancels inside leaves a rounding of what it was made of, in the dtype of the
        # coarsest: a chain computes with it before it meets the others.
        near = max(near, min(1.0, max(_greatest(g.tensor) for g in given) or 1.0))
        least = max(_eps(g.tensor) for g in given)
    return near * (1 + max(_repeats(g.tensor) for g in given) / 64), least


def _is_tame(value: Value) -> bool:
    """Whether floats of a value are computed with further."""
    if not value.tensor.dtype.is_float:
        return True
    array = value.tensor.astype("float64").numpy()
    if not value.is_exact and not np.isfinite(array).all():
        return False
    most = _greatest(value.tensor)
    return most < GREATEST and value.spread <= 0.05 * max(most, 1e-3)


def _eps(x: Tensor) -> float:
    """Return a rounding of the dtype of a float, relative to 1; of others there is none."""
    return float(finfo(x.dtype).eps) if x.dtype.is_float else 0.0


def _repeats(x: Tensor) -> float:
    """Return how often a value is there, on average: equal terms are rounded in one direction.

    A sum of n of them, one after the other, may be off by n / 2 roundings, n / 4 of ``_eps``.
    """
    array = x.numpy()
    return float(array.size / max(1, np.unique(array).size)) if x.dtype.is_float else 0.0


def _greatest(x: Tensor) -> float:
    """Return the greatest magnitude of what is finite."""
    array = np.abs(x.astype("float64").numpy())
    return float(array[np.isfinite(array)].max(initial=0.0))


def _is_whole(x: Tensor) -> bool:
    if not x.dtype.is_float:
        return True
    array = x.astype("float64").numpy()
    if not np.isfinite(array).all() or (np.signbit(array) & (array == 0)).any():
        return False
    return bool((array == np.round(array)).all()) and bool(np.abs(array).max(initial=0) < _most(x))


def _most(x: Tensor) -> float:
    """Return up to where all whole numbers are of a float dtype."""
    return 2 / float(finfo(x.dtype).eps)


def _sums_are_exact(value: Value) -> bool:
    x = value.tensor
    if not x.dtype.is_float:
        return True
    total = np.square(x.astype("float64").numpy()).sum() + np.abs(x.astype("float64").numpy()).sum()
    return bool(total < _most(x))
