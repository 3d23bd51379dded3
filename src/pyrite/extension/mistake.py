"""Arguments of the calls in an application's kernel, looked at before anything is made of them.

What a call takes is what its annotations say.  So a mistake is an error of the line in the kernel
that makes it, in the words of that line, and not one of what our own code makes of it later.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import Type
from pyrite.symbol import Symbol
from pyrite.types import DType

C = TypeVar("C", bound=type)


def shown(value: Any) -> str:
    """Return what was given, in a word: the type of a value, and a number as it is."""
    if isinstance(value, Value):
        return str(value.type)
    is_plain = value is None or isinstance(value, int | float | str)
    return repr(value) if is_plain else type(value).__name__


def _is_value(value: Any) -> bool:
    return isinstance(value, Value)


def _is_any(value: Any) -> bool:
    # What is no number says `KernelBuilder.const`.
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_values(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and all(map(_is_value, value))


def _is_dtype(value: Any) -> bool:
    # Which names there are says `pyrite.types.dtype`.
    return isinstance(value, DType | Type | str | type | np.dtype)


_VALUE = "a value of the kernel; make one of a number: k.const(1.0, 'float32')"
#: By annotation: what may be given, and how that is called.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Value": (_is_value, _VALUE),
    "Value | None": (lambda v: v is None or _is_value(v), _VALUE),
    "Operand": (_is_any, ""),
    "Operand | None": (_is_any, ""),
    "DTypeLike": (_is_dtype, "a dtype; of a tensor it is x.dtype"),
    "Type | DTypeLike": (_is_dtype, "a dtype; of a tensor it is x.dtype"),
    "int": (_is_whole, "a Python int"),
    "str": (lambda v: isinstance(v, str), "a str"),
    "Sequence[Value]": (_are_values, "a list of values of the kernel"),
}


def checked(*names: str) -> Callable[[C], C]:
    """Have methods of a class look at their arguments, those that it inherits too."""

    def mark(cls: C) -> C:
        for name in names:
            setattr(cls, name, _checked(name, getattr(cls, name)))
        return cls

    return mark


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    _, *parameters = inspect.signature(method).parameters.values()
    kinds = {p.name: _KINDS[p.annotation] for p in parameters if p.annotation in _KINDS}
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = self if isinstance(self, KernelBuilder) else self.builder
        given = []
        for position, value in enumerate(args):
            is_rest = position >= len(positional) - (rest is not None)
            parameter = rest if is_rest else positional[position]
            given.append(_known(parameter, value, kinds))
            _require(builder, name, parameter, given[-1], kinds)
        named = {p: _known(p, value, kinds) for p, value in kwargs.items()}
        for parameter, value in named.items():
            _require(builder, name, parameter, value, kinds)
        return method(self, *given, **named)

    return wrapped


def _known(parameter: str | None, value: Any, kinds: dict[str, Any]) -> Any:
    """Return a number of the launch as one that is built in, where a Python int is wanted."""
    is_wanted = isinstance(value, Symbol) and kinds.get(parameter or "") is _KINDS["int"]
    return operator.index(value) if is_wanted else value


def _require(
    builder: KernelBuilder, name: str, parameter: str | None, value: Any, kinds: dict[str, Any]
) -> None:
    # What loops carry they look at themselves.
    if parameter not in kinds or parameter == "carried":
        return
    is_right, wanted = kinds[parameter]
    if not is_right(value):
        what, _, fix = wanted.partition("; ")
        raise KernelError(
            f"{name} requires {what} as {parameter}, got {shown(value)}{'; ' * bool(fix)}{fix}"
        )
    require_own(builder, name, value if isinstance(value, list | tuple) else (value,))


def require_dtype(name: str, value: Any) -> None:
    """Raise KernelError for what can be no dtype."""
    if not _is_dtype(value):
        raise KernelError(f"{name} requires a dtype, got {shown(value)}; of a tensor it is x.dtype")


def no_attribute(tensor: str, attribute: str) -> Exception:
    """Return the error of what a tensor has, and not in a kernel."""
    if attribute.startswith("_"):
        return AttributeError(f"a tensor in a kernel has no attribute {attribute!r}")
    return KernelError(
        f"{tensor}.{attribute} requires a tensor outside of a kernel, got one inside, which has "
        "shape, ndim, size, dtype, get, prefetch, atomic and elements; write a loop over a range"
    )


def not_iterable(name: str) -> KernelError:
    """Return the error of a Python loop over a tensor or memory, which would not end."""
    return KernelError(
        f"{name} requires to be read by index, got a Python loop over it; use k.for_(0, n), or "
        "range(n) to unroll"
    )


def require_own(builder: KernelBuilder, name: str, operands: Iterable[Any]) -> None:
    """Raise KernelError for a value of another kernel."""
    for x in operands:
        if isinstance(x, Value) and x.builder is not builder and not _is_below(x.builder, builder):
            raise KernelError(
                f"{name} requires values of this kernel, got one of kernel {x.builder.name!r}; a "
                "value ends with the call in which its kernel was written"
            )


def _is_below(one: KernelBuilder, other: KernelBuilder) -> bool:
    """Whether they write into one kernel: see `pyrite.extension.mathematics.Plain`."""
    return getattr(one, "scope", one) is getattr(other, "scope", other)


def holds_nothing(atomic: str, output: str) -> str:
    """Return what is wrong with an atomic that combines with what was never written."""
    return (
        f"{output}.atomic({atomic!r}, ...) requires an output that holds something, got one that "
        f"holds nothing before; say what: kernel(fill={{{output!r}: 0}})"
    )
