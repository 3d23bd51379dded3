"""Folds: what reductions compute, as states that take in elements and are joined."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pyrite.content import content_of
from pyrite.op.rule.rule import Rule
from pyrite.types import DType, Number, TensorType, normalize_axes, normalize_axis

State = tuple[Any, ...]
#: The state of no elements: a number and a dtype for each of its values.
Start = tuple[tuple[Number, DType], ...]


def _the_element(_: Any, x: Any) -> State:
    return (x,)


def _the_only_value(_: Any, state: State) -> Any:
    return state[0]


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Rule):
    """A reduction: a state for each result, which takes in the elements that meet there.

        SUM_OF_SQUARES = Fold(
            start=lambda dtype: ((0, dtype),),
            take=lambda k, x: (x * x,),
            join=lambda k, s, t: (s[0] + t[0],),
            end=lambda k, s: k.sqrt(s[0]),
        )

    ``start(dtype)`` is the state of no elements, for inputs that are computed in a dtype: a number
    and a dtype for each value.  ``take(k, x)`` is the state of one element, ``join(k, s, t)`` that
    of the elements of two states, and ``end(k, s)`` the result, or a tuple of them.  What ``take``
    and ``end`` give is converted to the dtypes of the state and of the results.

    States are joined in any order and grouping, so ``join`` is associative and commutative, and
    the state of no elements changes nothing.  What a reduction over nothing gives is the end of
    that state; where it is an error, the op's ``infer`` raises it.

    A function gets the attributes of the op that it names as keywords.  ``take`` may also name
    ``position``: where the element is among those that meet, in row-major order, int32; and ``end``
    may name ``count``: how many meet.  It is a number to calculate with; ``float(count)`` makes it
    part of the kernel, which is then compiled again for another count.

    The op has the attribute ``axis``, an int, a tuple of them or None for all (as without one), and
    maybe ``keepdims``.
    """

    name: ClassVar[str] = "fold"

    start: Callable[..., Start]
    join: Callable[..., State]
    take: Callable[..., State] = _the_element
    end: Callable[..., Any] = _the_only_value
    #: For inputs of a dtype the same fold in fewer instructions, maybe with more values of state:
    #: for who has registers to spare.  None where there is none.
    larger: Callable[[DType], Fold | None] | None = None
    #: For inputs of a dtype the same fold with a state that joins by one instruction, or None: for
    #: who takes in few elements and joins many states.
    simpler: Callable[[DType], Fold | None] | None = None

    @property
    def reads_position(self) -> bool:
        """Whether it asks where an element is among those that meet."""
        return "position" in _keywords(self.take)

    def canonical(self, op: str) -> Callable[..., Mapping[str, Any]]:
        """Count axes from the first, as all readers of the rule do."""
        return partial(with_axes, op)

    def of(
        self,
        dtype: DType,
        results: Sequence[DType],
        attrs: Mapping[str, Any],
        count: int,
    ) -> BoundFold:
        """Return the fold of inputs that are computed in a dtype, to results of dtypes."""
        known = {**attrs, "count": count}
        wanted = {
            name: known[name] for f in (self.start, self.take, self.join, self.end)
            for name in _keywords(f) if name != "position"
        }  # fmt: skip
        start = self.start(dtype, **_named(self.start, wanted))
        return BoundFold(
            self, start, tuple(r.compute for r in results), _named(self.take, wanted),
            _named(self.join, wanted), _named(self.end, wanted),
            content_of(tuple(sorted((n, v) for n, v in wanted.items() if n != "count"))),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class BoundFold:
    """A fold with the dtypes and attributes of one call: four functions of values alone."""

    rule: Fold
    start: Start
    results: tuple[DType, ...]
    _of_take: Mapping[str, Any]
    _of_join: Mapping[str, Any]
    _of_end: Mapping[str, Any]
    _attributes: Hashable

    @property
    def end_names(self) -> frozenset[str]:
        """What ``end`` names beside the state."""
        return frozenset(self._of_end)

    def ending(self, **known: Any) -> BoundFold:
        """Return it with other values, maybe of a kernel, of what ``end`` names."""
        wanted = {name: known[name] for name in known.keys() & self._of_end.keys()}
        return replace(self, _of_end={**self._of_end, **wanted})

    @property
    def count(self) -> Any:
        """How many elements meet, where ``end`` asks for that; else 0."""
        return self._of_end.get("count", 0)

    @property
    def key_of_any_count(self) -> Hashable:
        """What tells it from others, besides the dtype of its inputs and the count."""
        return self.rule, content_of(self.start), self.results, self._attributes

    @property
    def key(self) -> Hashable:
        """What tells it from others, besides the dtype of its inputs."""
        return self.key_of_any_count, content_of(self.count)

    def take(self, k: Any, x: Any, position: Any) -> State:
        """Return the state of an element, or of many side by side."""
        rule = self.rule.take
        extra = {"position": position} if self.rule.reads_position else {}
        taken = rule(k, x, **self._of_take, **extra)
        return tuple(_held(k, v, d) for v, (_, d) in zip(taken, self.start, strict=True))

    def join(self, k: Any, s: State, t: State) -> State:
        """Return the state of the elements of two."""
        return self.rule.join(k, s, t, **self._of_join)

    def end(self, k: Any, state: State) -> tuple[Any, ...]:
        """Return the results of a state."""
        found = self.rule.end(k, state, **self._of_end)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(_held(k, v, d) for v, d in zip(results, self.results, strict=True))


def with_axes(op: str, x: TensorType, *_: Any, **attrs: Any) -> Mapping[str, Any]:
    """Return attributes with ``axis``, where they have it, counted from the first.

    Raises AxisError for one that x has not.

    >>> from pyrite.types import float32
    >>> with_axes("f", TensorType((2, 3), float32), axis=-1)
    {'axis': 1}
    """
    axis = attrs.get("axis")
    if axis is None:
        return attrs
    if isinstance(axis, Sequence):
        return {**attrs, "axis": normalize_axes(op, axis, x.ndim)}
    return {**attrs, "axis": normalize_axis(op, axis, x.ndim)}


def axes_of(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes that an attribute ``axis`` names.

    >>> axes_of(None, 2), axes_of(1, 2)
    ((0, 1), (1,))
    """
    if axis is None:
        return tuple(range(ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _held(k: Any, value: Any, dtype: DType) -> Any:
    """Return a value in a dtype; a number that a rule wrote as a value."""
    if isinstance(value, bool | int | float):
        return k.constant(value, dtype)
    return k.cast(value, dtype)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a function takes by keyword alone."""
    code = function.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _named(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: known[name] for name in _keywords(function) if name != "position"}
