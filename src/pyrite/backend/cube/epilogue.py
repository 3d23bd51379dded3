"""What is made of each element of a result before it is stored, by the kernel that makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Constant

#: From a tensor with the result's axes to one with a kernel's; None where strides do not allow it.
View = Callable[[CubeTensor], CubeTensor | None]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A function of each element of a result: ``rule(k, element, *sources)``.

    It gives a value for each of the ``targets``, which are all that is written.  The element comes
    as the kernel computed it, not rounded yet.  Sources and targets have the result's axes; a
    source does not move along those on which it does not depend.  ``rule`` is a value: equal rules
    compute the same.
    """

    rule: Callable[..., Sequence[Any]]
    sources: tuple[CubeTensor | Constant, ...]
    targets: tuple[CubeTensor, ...]

    def seen(self, view: View) -> Epilogue | None:
        """Return it with its tensors seen by other axes, None where one cannot be."""
        sources = [view(s) if isinstance(s, CubeTensor) else s for s in self.sources]
        targets = [view(t) for t in self.targets]
        found = tuple([s for s in sources if s is not None])
        outputs = tuple([t for t in targets if t is not None])
        if len(found) < len(sources) or len(outputs) < len(targets):
            return None
        return replace(self, sources=found, targets=outputs)
