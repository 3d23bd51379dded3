"""What a kernel calls: functions of the application, rewritten too, and Python's own of values."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Hashable
from typing import Any, Final

from pyrite.content import is_of_library
from pyrite.errors import KernelError
from pyrite.extension.argument import TensorArgument
from pyrite.extension.flow.spans import range_of
from pyrite.extension.number import WeakValue, weak_float
from pyrite.extension.printing import holds_values
from pyrite.extension.rewriting import bound
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.types import int32

#: Calls of one function inside of each other: a kernel has no stack, each is written out.
MOST_CALLS: Final = 64


class Called:
    """The functions that one kernel calls."""

    def __init__(self, scope: KernelScope, flow: object) -> None:
        self._scope = scope
        self._flow = flow
        self._depth: dict[types.CodeType, int] = {}
        self._words: dict[Any, Callable[..., Any]] = {
            builtins.range: range_of, builtins.min: self._least, builtins.max: self._greatest,
            builtins.int: self._int, builtins.float: self._float, builtins.bool: self._bool,
            builtins.round: self._round, builtins.print: self._print, builtins.len: self._len,
            builtins.pow: self._pow,
        }  # fmt: skip

    def instead_of(self, function: Any) -> Any:
        """Return what is called in the place of a function."""
        if isinstance(function, types.FunctionType):
            return self._rewritten(function)
        if isinstance(function, types.MethodType) and isinstance(
            function.__func__, types.FunctionType
        ):
            made = self._rewritten(function.__func__)
            return (
                function if made is function.__func__ else types.MethodType(made, function.__self__)
            )
        if not isinstance(function, Hashable):
            return function
        word = self._words.get(function)
        return self._method(function) if word is None else word

    def _method(self, called: Any) -> Any:
        """Return an object that can be called with its ``__call__`` rewritten."""
        if not callable(called) or is_of_library(type(called).__module__):
            return called
        function = type(called).__call__
        if not isinstance(function, types.FunctionType):
            return called
        return types.MethodType(self._rewritten(function), called)

    def _rewritten(self, function: types.FunctionType) -> Callable[..., Any]:
        if is_of_library(function.__module__):
            return function
        made = bound(function, self._flow)
        if made is function:
            return function
        code = function.__code__

        def call(*args: Any, **kwargs: Any) -> Any:
            depth = self._depth.get(code, 0)
            if depth == MOST_CALLS:
                raise KernelError(
                    "a kernel requires functions that do not call themselves, or only as often as "
                    f"Python knows, got {function.__name__} inside itself; write a loop"
                )
            self._depth[code] = depth + 1
            try:
                return made(*args, **kwargs)
            finally:
                self._depth[code] = depth

        return call

    def _least(self, *values: Any, **named: Any) -> Any:
        return self._extreme(builtins.min, lambda x, y: self._scope.min(y, x), values, named)

    def _greatest(self, *values: Any, **named: Any) -> Any:
        return self._extreme(builtins.max, lambda x, y: self._scope.max(y, x), values, named)

    def _extreme(
        self, python: Any, join: Callable[[Any, Any], Any], values: Any, named: Any
    ) -> Any:
        found = (
            list(values[0]) if len(values) == 1 and isinstance(values[0], list | tuple) else values
        )
        if named or not any(isinstance(v, Value) for v in found):
            return python(*values, **named)
        result = found[0]
        for other in found[1:]:
            known = not isinstance(result, Value) and not isinstance(other, Value)
            result = python(result, other) if known else join(result, other)
        return result

    def _int(self, x: Any = 0, *more: Any) -> Any:
        if not isinstance(x, Value):
            return builtins.int(x, *more)
        return WeakValue(self._scope, self._scope.cast(x, int32).node)

    def _float(self, x: Any = 0.0) -> Any:
        if not isinstance(x, Value):
            return builtins.float(x)
        return WeakValue(self._scope, self._scope.cast(x, weak_float(self._scope)).node)

    def _bool(self, x: Any = False) -> Any:
        if not isinstance(x, Value):
            return builtins.bool(x)
        return x if x.dtype.is_bool else x != 0

    def _round(self, x: Any, digits: Any = None) -> Any:
        if not isinstance(x, Value) or digits is not None:
            return builtins.round(x, digits)
        return self._int(self._scope.rint(x) if x.dtype.is_float else x)

    def _pow(self, x: Any, y: Any, *modulus: Any) -> Any:
        if modulus or not (isinstance(x, Value) or isinstance(y, Value)):
            return builtins.pow(x, y, *modulus)
        return self._scope.math.pow(x, y)

    def _len(self, x: Any) -> Any:
        if not isinstance(x, TensorArgument):
            return builtins.len(x)
        if not x.shape:
            raise KernelError(f"len requires a tensor with an axis, got {x.name} of shape ()")
        return x.shape[0]

    def _print(self, *parts: Any, **named: Any) -> None:
        if named or not any(map(holds_values, parts)):
            builtins.print(*parts, **named)
        else:
            self._scope.print(*parts)
