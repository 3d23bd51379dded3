"""The table of converters: for each op of ONNX and version, a function that computes it.

A converter's parameters are those of the op's specification under its own names: operands
positional, attributes keyword-only with the specification's defaults.  What an operand has to be
its annotation says, and nothing else does::

    @converts("Reshape", since=5)
    def reshape(x: Tensor, shape: Host, *, allowzero: int = 0) -> Tensor: ...

``Tensor`` is on the device, ``Scalar`` too or a Python number, ``Host`` a NumPy array that steers
the computation, ``Control`` one that the op reads itself where it is a tensor, ``Fixed`` a tensor
that is not trained, ``Statistic`` one that training renews, ``Value`` anything.
A first parameter ``call`` is given the `Call`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

Kind = Literal["tensor", "scalar", "host", "control", "fixed", "statistic", "value"]
#: The kinds of operands that steer the computation: arrays of the host, where they can be.
STEERING = frozenset({"host", "control"})

#: A tensor; a single number of the host comes as a Python number, which kernels take as a literal.
Scalar = Annotated[Any, "scalar"]
Host = Annotated[Array, "host"]
Control = Annotated[Any, "control"]
Fixed = Annotated[Tensor, "fixed"]
Statistic = Annotated[Tensor, "statistic"]
#: A tensor, an array of the host, a sequence of values, or None for an optional that is empty.
Value = Annotated[Any, "value"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Converter:
    """A function for an op from version ``since`` on."""

    op: str
    domain: str
    since: int
    function: Callable[..., Any]

    @cached_property
    def operands(self) -> tuple[Kind, ...]:
        """What each operand has to be, without the variadic one."""
        return tuple(_kind(hint) for kind, hint in self._parameters if kind != "variadic")

    @cached_property
    def variadic(self) -> Kind | None:
        """What the operands at the end have to be, of which there may be any number."""
        found = [_kind(hint) for kind, hint in self._parameters if kind == "variadic"]
        return found[0] if found else None

    @cached_property
    def required(self) -> int:
        """How many operands there have to be."""
        return sum(kind == "required" for kind, _ in self._parameters)

    @cached_property
    def attributes(self) -> Mapping[str, bool]:
        """The names of the attributes, and whether each has to be given."""
        return {
            p.name: p.default is p.empty
            for p in self._signature.parameters.values()
            if p.kind is p.KEYWORD_ONLY
        }

    @cached_property
    def takes_call(self) -> bool:
        """Whether it is given the `Call`."""
        return next(iter(self._signature.parameters), "") == "call"

    def kind(self, position: int) -> Kind | None:
        """Return what the operand at a position has to be; None where there is none."""
        return self.operands[position] if position < len(self.operands) else self.variadic

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def _parameters(self) -> Sequence[tuple[str, Any]]:
        hints = get_type_hints(self.function, include_extras=True)
        found = []
        for p in self._signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY or p.name == "call":
                continue
            kind = "required" if p.default is p.empty else "optional"
            found.append(("variadic" if p.kind is p.VAR_POSITIONAL else kind, hints[p.name]))
        return found


def _kind(hint: Any) -> Kind:
    """Return the kind that an annotation names; a union with None has its other side's."""
    if get_origin(hint) is Annotated:
        kind: Kind = get_args(hint)[1]
        return kind
    inner = [arg for arg in get_args(hint) if arg is not type(None)]
    return _kind(inner[0]) if inner else "tensor"


#: By domain and op, the oldest version first.
CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def converts(*ops: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Return a decorator that files a function as the converter of an op from a version on."""

    def file(function: F) -> F:
        for op in ops:
            versions = CONVERTERS.setdefault((domain, op), [])
            versions.append(Converter(op, domain, since, function))
            versions.sort(key=lambda c: c.since)
        return function

    return file


def converter(domain: str, op: str, version: int) -> Converter | None:
    """Return the converter of an op at a version of its domain, or None."""
    found = [c for c in CONVERTERS.get((domain, op), ()) if c.since <= version]
    return found[-1] if found else None
