"""Which of its arguments a function may look at: so a rule need not be asked again for others.

It is told from the code alone.  What is never loaded cannot be read, unless by a look at all local
variables at once.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

#: By these code sees local variables that it does not name.
_WHOLE: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})


def may_read(function: Any, name: str) -> bool:
    """Whether a function may look at the argument that it gets by this name.

    >>> def rule(x, *, order, scale, **rest):
    ...     return (x.shape[:order], rest)
    >>> may_read(rule, "order"), may_read(rule, "scale"), may_read(rule, "limit")
    (True, False, True)
    """
    return type(function) is not FunctionType or _may_read(function.__code__, name)


@lru_cache(maxsize=1024)
def _may_read(code: CodeType, name: str) -> bool:
    if _WHOLE.intersection(code.co_names) or name in code.co_cellvars:
        return True
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if name not in named:
        # It is among ``**rest``, the last of the parameters, if there is one.
        count = len(named) + bool(code.co_flags & _VARARGS)
        if not code.co_flags & _VARKEYWORDS:
            return True
        name = code.co_varnames[count]
        if name in code.co_cellvars:
            return True
    return any(_names(instruction.argval, name) for instruction in dis.get_instructions(code))


_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08


def _names(argument: Any, name: str) -> bool:
    """Whether the argument of an instruction is a name, or has it among several."""
    return argument == name or (type(argument) is tuple and name in argument)
