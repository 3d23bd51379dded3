"""The user's line: where an op was called, for errors and warnings.

An error raised inside Pyrite keeps the frames of the user's program and loses Pyrite's own, unless
``config.full_traceback`` asks for all.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from pyrite.config import config
from pyrite.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    PyriteError,
)
from pyrite.op.foreign import instead, met_among, renamed

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


#: What Python and NumPy raise of an argument that nothing was written for.
RAW = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
#: What an op may raise.
FAILURES: Final = (PyriteError, *RAW)


def refused(
    name: str, error: Exception, given: Sequence[Any], named: Mapping[str, Any]
) -> PyriteError | None:
    """Return what becomes of a raw error inside a public function: one of Pyrite's, of its kind.

    None where the call does not fit the signature, or where the user's own code raised the error,
    as a loss function does; and of a fault of ours, which stays what it is, with all its frames.
    """
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    if inner is None or _passes_user(inner) or _misfits_signature(inner):
        return None
    if isinstance(error, MemoryError):
        return located(DeviceError(f"{name} requires memory that there is, got {error}; split it"))
    if _is_fault(error, inner):
        if not hasattr(error, "__notes__"):  # else an op inside has it
            error.add_note(f"A fault inside Pyrite, in {name}, not in its arguments: report it")
        return None
    cls = ArgumentTypeError if isinstance(error, TypeError | AttributeError) else ArgumentError
    values = [reprlib.repr(value) for value in given]
    shown = ", ".join([*values, *(f"{k}={reprlib.repr(value)}" for k, value in named.items())])
    message = f"{name} requires arguments that fit together, got ({shown}); {error}"
    return located(cls(message))


def _is_fault(error: Exception, traceback: TracebackType | None) -> bool:
    """Whether a raw error is ours: a record lets no arguments through that a backend cannot take.

    Behind the record the body of a composite meets the arguments first, so that what is raised
    there is theirs.  Of libraries that a backend hands values to errors of these are expected:
    NumPy refuses negative powers of integers.  None raises what Python does of a name that is none.
    """
    modules: list[str] = []
    while traceback is not None:
        modules.append(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    innermost = next(m for m in reversed(modules) if m.startswith("pyrite."))
    is_name = isinstance(error, AttributeError | KeyError)
    return innermost.startswith(_COMPILED) or (is_name and innermost.startswith("pyrite.backend."))


#: Where kernels are chosen, written and launched, behind the record.
_COMPILED = ("pyrite.backend.cube.", "pyrite.backend.fusion.", "pyrite.kernel.", "pyrite.runtime.")


def _misfits_signature(traceback: TracebackType) -> bool:
    """Whether the arguments of an op were sorted when the error was raised: `call_as_given` may."""
    frames = [one.tb_frame for one in (traceback, traceback.tb_next) if one is not None]
    return any(frame.f_globals.get("__name__") == "pyrite.op.arguments" for frame in frames)


def _passes_user(traceback: TracebackType | None) -> bool:
    """Whether an error came through code that is neither Pyrite's nor of what it is built on."""
    while traceback is not None:
        module: str = traceback.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _LIBRARIES:
            return True
        traceback = traceback.tb_next
    return False


_LIBRARIES = sys.stdlib_module_names - {"__main__"} | {
    "pyrite", "numpy", "ml_dtypes", "opt_einsum", "llvmlite", "wgpu", "torch", "candle",
}  # fmt: skip


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
            if met is not None:
                message = f"{_name(function)} requires tensors, {instead(met)}"
                raise located(DTypeError(message)) from None
            if (found := refused(_name(function), error, args, kwargs)) is None:
                raise
            raise found from None
        except RAW as error:
            name = _name(function)
            found = misnamed(name, function, error, kwargs) or refused(name, error, args, kwargs)
            if found is None:
                raise
            raise found from None

    return wrapped


def _name(function: Callable[..., Any]) -> str:
    """Return what a user calls it: the class, of an ``__init__``."""
    *_, owner, name = ("", *function.__qualname__.split("."))
    return owner if name == "__init__" else name


def misnamed(
    name: str, function: Callable[..., Any], error: Exception, named: Mapping[str, Any]
) -> PyriteError | None:
    """Return what becomes of the error of a call with another library's names of arguments.

    None where the error is of something else, or nothing is known of the names.
    """
    if not isinstance(error, TypeError) or not named:
        return None
    parameters = inspect.signature(function).parameters
    fix = renamed([word for word in named if word not in parameters], parameters)
    if not fix:
        return None
    names = ", ".join(word for word in parameters if word != "self")
    known = f"arguments among {names}" if names else "no arguments"
    got = ", ".join(word for word in named if word not in parameters)
    return located(ArgumentTypeError(f"{name} requires {known}, got {got}{fix}"))


def raised_at(error: BaseException) -> tuple[str | None, bool]:
    """Return ``file:line`` of the innermost frame outside Pyrite, and whether ours raised it."""
    found, is_ours, traceback = None, False, error.__traceback__
    while traceback is not None:
        is_ours = _is_ours(traceback.tb_frame)
        if not is_ours:
            found = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found, is_ours


class _Told(threading.local):
    """What says which line a call is of that runs later than it was made."""

    line: Callable[[], str] | None = None


_told = _Told()


def tell_lines(line: Callable[[], str] | None) -> Callable[[], str] | None:
    """Have `user_location` and `user_site` be what is told, in this thread: of calls put off.

    Return what told them before, which is to be put back.
    """
    before, _told.line = _told.line, line
    return before


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside Pyrite, or that of a call put off."""
    if (told := _told.line) is not None:
        return told()
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType:
    """Return the innermost frame outside Pyrite."""
    return _user_frame_from(sys._getframe(1))


class Site(NamedTuple):
    """A place in a program, of which the line is looked up when it is told: that takes longest."""

    code: CodeType
    instruction: int

    def __str__(self) -> str:
        of, at = self.code, self.instruction
        lines = (line for first, end, line in of.co_lines() if first <= at < end)
        return f"{of.co_filename}:{next(lines, None) or of.co_firstlineno}"


def user_site(known: int) -> Site | str:
    """Return the site that `user_location` tells, where so many callers are known to be Pyrite's.

    Frames that are looked at cost most here, 0.2 microseconds each.
    """
    if (told := _told.line) is not None:
        return told()
    frame = _user_frame_from(sys._getframe(known + 1))
    return Site(frame.f_code, frame.f_lasti)


def _user_frame_from(frame: FrameType) -> FrameType:
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return frame
