"""The parameters of a function, read off its code.

`inspect.signature` of every op would be a twentieth of `import pyrite`; it binds the few calls that
are not ordinary, and is asked then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: The default of a parameter that has none.
NO_DEFAULT: Final = inspect.Parameter.empty


class Signature(NamedTuple):
    """The names of a function's parameters in their order, by kind, with defaults.

    ``annotations`` are as they were written.  A parameter ``**rest`` is left out.
    """

    function: Callable[..., Any]
    positional_only: tuple[str, ...]
    positional: tuple[str, ...]
    variadic: str | None
    keyword_only: tuple[str, ...]
    defaults: dict[str, Any]
    annotations: dict[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Return the signature of a function; where another is put in its place, that one."""
        if {"__signature__", "__wrapped__"} & function.__dict__.keys():
            return cls._inspected_of(function)
        code = function.__code__
        names, count = code.co_varnames, code.co_argcount
        end = count + code.co_kwonlyargcount
        given = function.__defaults__ or ()
        by_keyword = function.__kwdefaults__ or {}
        return cls(
            function,
            names[: code.co_posonlyargcount],
            names[code.co_posonlyargcount : count],
            names[end] if code.co_flags & inspect.CO_VARARGS else None,
            names[count:end],
            dict(zip(names[count - len(given) : count], given, strict=True)) | by_keyword,
            function.__annotations__,
        )

    @classmethod
    def _inspected_of(cls, function: Callable[..., Any]) -> Signature:
        parameters = inspect.signature(function).parameters.values()
        by_kind: dict[Any, list[str]] = {kind: [] for kind in inspect._ParameterKind}
        for p in parameters:
            by_kind[p.kind].append(p.name)
        positional_only, positional, variadic, keyword_only, _ = map(tuple, by_kind.values())
        return cls(
            function,
            positional_only,
            positional,
            variadic[0] if variadic else None,
            keyword_only,
            {p.name: p.default for p in parameters if p.default is not NO_DEFAULT},
            {p.name: p.annotation for p in parameters if p.annotation is not NO_DEFAULT},
        )

    def default(self, name: str) -> Any:
        """Return a parameter's default, NO_DEFAULT where it has none."""
        return self.defaults.get(name, NO_DEFAULT)

    def inspected(self) -> inspect.Signature:
        """Return what `inspect` says of the function, which can bind a call."""
        return inspect.signature(self.function)
