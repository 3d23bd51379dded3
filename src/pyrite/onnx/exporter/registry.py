"""Exporters: which function writes an op of Pyrite as nodes of ONNX, and from which opset on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyrite.op import Attributes, Op
from pyrite.types import TensorType

F = TypeVar("F", bound=Callable[..., Any])

#: Types of an op's inputs, None for one that was left out.
Types = tuple[TensorType | None, ...]

#: The first opset that is written: before it, axes of reductions were attributes.
OLDEST_OPSET = 18

#: Written by default: the newest with ops that all of this year's runtimes have.
DEFAULT_OPSET = 23


@dataclass(frozen=True, slots=True)
class Exporter:
    """A function that writes one op, and where it can."""

    #: From the `Call`, its inputs, and the attributes by keyword, to the results.
    write: Callable[..., Any]
    since_opset: int
    #: Whether it writes calls with such types and attributes; None for all.
    when: Callable[[Types, Attributes], bool] | None

    def writes(self, types: Types, attrs: Attributes, opset: int) -> bool:
        """Whether it writes such a call."""
        return opset >= self.since_opset and (self.when is None or self.when(types, attrs))


#: The exporters of each op by its name, better ones first.
EXPORTERS: dict[str, list[Exporter]] = {}


def exports(
    *names: str,
    since_opset: int = OLDEST_OPSET,
    when: Callable[[Types, Attributes], bool] | None = None,
) -> Callable[[F], F]:
    """Mark a function as what writes ops of these names, after those marked before it.

    A composite for which no exporter writes a call is written as its body.
    """

    def mark(function: F) -> F:
        for name in names:
            EXPORTERS.setdefault(name, []).append(Exporter(function, since_opset, when))
        return function

    return mark


def is_own(op: Op) -> bool:
    """Whether an op is Pyrite's, not an application's."""
    return op.reads is None and op.body_reads is None


def exporter_of(op: Op, types: Types, attrs: Attributes, opset: int) -> Exporter | None:
    """Return what writes a call of an op of Pyrite; None where nothing does."""
    for exporter in EXPORTERS.get(op.name, ()) if is_own(op) else ():
        if exporter.writes(types, attrs, opset):
            return exporter
    return None
