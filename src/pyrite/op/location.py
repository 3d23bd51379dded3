"""The user's line: where an op was called, for errors and warnings.

An error raised inside Pyrite keeps the frames of the user's program and loses Pyrite's own, unless
``config.full_traceback`` asks for all.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from pyrite.config import config
from pyrite.errors import DTypeError, PyriteError
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

    return wrapped


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
