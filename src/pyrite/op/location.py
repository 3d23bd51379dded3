"""The user's line: where an op was called, for errors and warnings.

An error raised inside Pyrite keeps the frames of the user's program and loses Pyrite's own, unless
``config.full_traceback`` asks for all.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from pyrite.config import config
from pyrite.errors import DTypeError, PyriteError, ShapeError
from pyrite.op.foreign import instead, met_among

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=PyriteError)


def located(error: E) -> E:
    """Return the error with the user's line, and with none but the user's frames below this one."""
    if error.location is None:
        error.location = user_location()
    if config.full_traceback:
        return error
    return error.with_traceback(_users_frames(error.__traceback__))


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        if not _is_ours(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("pyrite.")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function that is no op the errors of one: raised at its call, with its line.

    That an array of another library was given in the place of a tensor is one too.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PyriteError as error:
            raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off
        except AttributeError as error:
            met = met_among(args, error.obj)
            if met is None:
                raise
            message = f"{function.__name__} requires tensors, {instead(met)}"
            raise located(DTypeError(message)) from None
        except TypeError as error:
            was_called = error.__traceback__ is None or error.__traceback__.tb_next is not None
            unfit = None if was_called else _shape_in_parts(function, args)
            if unfit is None:
                raise
            raise located(ShapeError(unfit)) from None

    return wrapped


def _shape_in_parts(function: Callable[..., Any], args: Sequence[Any]) -> str | None:
    """Return the error of a call that gives the sizes of a shape one by one, or None.

    PyTorch takes zeros(2, 3).
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds]
    count = len(args) - len(names) + 1
    sizes, others = args[:count], args[count:]
    if names[:1] != ["shape"] or count < 2 or not all(isinstance(s, int) for s in sizes):
        return None
    call = ", ".join([str(sizes), *map(repr, others)])
    name = function.__name__
    return f"{name} requires a shape in one argument, got {count} sizes; write {name}({call})"


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside Pyrite."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType:
    """Return the innermost frame outside Pyrite."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return frame
