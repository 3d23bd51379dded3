"""Other ways to write a call of an op than its method's, or to make it: as fast as the method."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from pyrite.errors import PyriteError
from pyrite.op.arguments import Translator
from pyrite.op.binding import call_as_given, callers, written
from pyrite.op.location import FAILURES, RAW, located, misnamed, refused
from pyrite.op.plan import form_of
from pyrite.op.record import Attributes, Op

P = ParamSpec("P")
R = TypeVar("R")


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
        known, name = Translator(op, function, attributes, of_type or None), function.__name__

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bind = written[0] if written else call_as_given
                return bind(known, args, kwargs)  # type: ignore[no-any-return]
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
    known = [(attributes, form_of(op, attributes)) for attributes in found]

    def bound(x: Any) -> tuple[R, ...]:
        inputs = (x,)
        bind = callers[1]
        try:
            return tuple([bind(op, inputs, attributes, form) for attributes, form in known])
        except FAILURES:
            pass  # the method says the user's line
        return tuple([method(x, *row) for row in given])

    return bound
