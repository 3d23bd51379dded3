"""The statements of a forward pass, in order, before they have variables and classes."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.onnx.python.code import Code
from pyrite.onnx.python.value import TENSOR, Kind

#: The path of the module that computes something, part by part.
Scope = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Values of the graph become those of an expression; a target that nothing reads is ``""``."""

    targets: tuple[str, ...]
    code: Code
    #: None where nothing says it.
    scope: Scope | None = None
    kinds: tuple[Kind, ...] = (TENSOR,)
    #: How its variable may be called.
    hint: str = ""

    @property
    def uses(self) -> list[str]:
        """The values that it reads, once for each time."""
        return self.code.locals
