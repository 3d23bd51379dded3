"""What the classes of rules have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self


class Rule:
    """What an op that is not elementwise computes, in the form of its class.

    A subclass is a frozen dataclass, compared by identity, whose fields are functions of types,
    attributes and an algebra (`pyrite.algebra`), never of arrays or tensors.  So NumPy, PyTorch and
    the tracer of kernels read the same rule.
    """

    __slots__ = ()

    #: The class, as documents and tables name it.
    name: ClassVar[str]

    def declared(self, op: str) -> Self:
        """Return it as the rule of an op of that name."""
        return self

    def canonical(self, op: str) -> Callable[..., Mapping[str, Any]] | None:
        """Return what brings attributes that the class gives a meaning into their one form.

        It is that of an op which has no ``canonical`` of its own; None where there is no such form.
        """
        return None

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions that it is made of."""
        values = [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]
        nested = [f for value in values if isinstance(value, Rule) for f in value.functions]
        return (*(value for value in values if callable(value)), *nested)
