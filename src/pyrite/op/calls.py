"""Calls beside those of an op's own method: written otherwise, of known attributes, into memory.

Of attributes that are known beforehand the form is made once.  So are the calls of views that a
subscript stands for: a program writes the same ones again and again.

``op(x, out=frame)`` writes to memory of an application: a tensor is a value, so what is given must
be memory that the application shares and nobody else holds for values of Pyrite:
`pyrite.wgpu.from_buffer`, or `pyrite.from_dlpack` with ``copy=False``.  The tensor itself then has
the new values, as after `Tensor.invalidate`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from pyrite.errors import ArgumentError, DTypeError, PyriteError, ShapeError
from pyrite.op.arguments import Translator
from pyrite.op.binding import call_as_given, callers, handles_of, written
from pyrite.op.foreign import instead
from pyrite.op.location import FAILURES, RAW, located, misnamed, public, refused
from pyrite.op.plan import Form, form_of, known, prepare
from pyrite.op.record import Attributes, Op, Plan, TensorBase
from pyrite.types import Shape, TensorType

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: How many subscripts are kept.
_KEPT: Final = 2048
_INTEGERS: Final = frozenset({int})
#: What a subscript that is known may have in it, and what ends and steps of its slices may be.
_ITEMS: Final = frozenset({int, slice, type(None), type(...)})
_ENDS: Final = frozenset({int, type(None)})

#: Ops of one input with their attributes, each of what the one before gives.
Calls = Sequence[tuple[Op, Attributes]]


def written_as(
    method: Callable[..., Any], attributes: Callable[..., Attributes], *, of_type: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated signature as another way to write an op's method.

    ``attributes`` makes its attributes of what is given behind the inputs, which is all that it may
    look at: it is called once for values that come again.  ``of_type`` gives it the type of the
    first input before that.
    """
    op: Op = method.op  # type: ignore[attr-defined]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        translator, name = Translator(op, function, attributes, of_type or None), function.__name__

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bind = written[0] if written else call_as_given
                return bind(translator, args, kwargs)  # type: ignore[no-any-return]
            except PyriteError as error:
                raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off
            except RAW as error:
                found = misnamed(name, function, error, kwargs)
                found = found or refused(name, error, args, kwargs)
                if found is None:
                    raise
                raise found from None

        return wrapped

    return decorate


def with_attributes(method: Callable[..., Any], *given: Any) -> Callable[[Any], Any]:
    """Return what a method of one input does with these attributes, which are sorted once."""
    op: Op = method.op  # type: ignore[attr-defined]
    attributes = {**op.attributes, **dict(zip(op.attributes, given, strict=False))}
    form = form_of(op, attributes)

    def bound(x: Any) -> Any:
        try:
            return callers[1](op, (x,), attributes, form)
        except FAILURES:
            pass  # the method says the user's line
        return method(x, *given)

    return bound


def each_with_attributes(
    method: Callable[..., R], rows: Iterable[Sequence[Any]]
) -> Callable[[Any], tuple[R, ...]]:
    """Return what gives what a method of one input does with attributes, for several of these.

    The attributes are sorted once.
    """
    op: Op = method.op  # type: ignore[attr-defined]
    given = [*rows]
    found = [{**op.attributes, **dict(zip(op.attributes, row, strict=False))} for row in given]
    forms = [(attributes, form_of(op, attributes)) for attributes in found]

    def bound(x: Any) -> tuple[R, ...]:
        inputs = (x,)
        bind = callers[1]
        try:
            return tuple([bind(op, inputs, attributes, form) for attributes, form in forms])
        except FAILURES:
            pass  # the method says the user's line
        return tuple([method(x, *row) for row in given])

    return bound


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


# ---- subscripts ----


class KnownCalls:
    """The calls of one input that subscripts stand for, which ``find`` finds out.

    ``known`` has them, with the forms of their attributes, by the number of the tensor's type and
    the items of the subscript; machine code looks there (`subscript.ll`).
    """

    __slots__ = ("find", "known")

    def __init__(self, find: Callable[[TensorType, Any], Calls]) -> None:
        self.find = find
        self.known: dict[tuple[Any, ...], tuple[tuple[Op, Attributes, Form | None], ...]] = {}

    def calls_of(
        self, type: TensorType, subscript: Any
    ) -> tuple[tuple[Op, Attributes, Form | None], ...] | None:
        """Return the calls, None for a subscript of arrays, and where sizes are symbols."""
        key = _key(type, subscript)
        if key is None:
            return None
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _KEPT:
                self.known.clear()
            calls = self.find(type, subscript)
            found = self.known[key] = tuple(
                [(op, attrs, form_of(op, attrs)) for op, attrs in calls]
            )
        return found


def call_known(of: KnownCalls, x: Any, subscript: Any) -> Any:
    """Return what the calls give that a subscript of a tensor stands for; None of another one."""
    calls = of.calls_of(x._type, subscript)
    if calls is None:
        return None
    for op, attrs, form in calls:
        x = callers[1](op, (x,), attrs, form)
    return x


#: What does what `call_known` does, where somebody can do it faster.
known_callers: Final[list[Callable[[KnownCalls, Any, Any], Any]]] = [call_known]


def of_subscripts(
    find: Callable[[TensorType, Any], Calls],
) -> Callable[[Callable[[T, Any], T]], Callable[[T, Any], T]]:
    """Have a method make the calls of subscripts that are known, and do as it says of others."""
    known = KnownCalls(find)

    def decorate(function: Callable[[T, Any], T]) -> Callable[[T, Any], T]:
        otherwise = public(function)

        @functools.wraps(function)
        def wrapped(x: T, subscript: Any) -> T:
            try:
                made = known_callers[0](known, x, subscript)
            except FAILURES:
                made = None  # what is done otherwise says the user's line
            return otherwise(x, subscript) if made is None else made

        return wrapped

    return decorate


def _key(type: TensorType, subscript: Any) -> tuple[Any, ...] | None:
    """Return what tells subscripts of integers, slices, None and dots apart, and types."""
    key = items_key(subscript, type.shape)
    return None if key is None or not type.key else (type.key, *key)


def items_key(subscript: Any, shape: Shape) -> tuple[Any, ...] | None:
    """Return what tells subscripts of integers, slices, None and dots apart.

    None for any other, and for sizes that are more than numbers.  A slice is its class, then its
    ends and its step: older Pythons have no hash of it.
    """
    items = subscript if subscript.__class__ is tuple else (subscript,)
    if not _ITEMS.issuperset(map(type, items)) or not _INTEGERS.issuperset(map(type, shape)):
        return None
    parts: list[Any] = []
    for item in items:
        if item.__class__ is not slice:
            parts.append(item)
            continue
        ends = (item.start, item.stop, item.step)
        if not _ENDS.issuperset(map(type, ends)):
            return None
        parts += (slice, *ends)
    return tuple(parts)
