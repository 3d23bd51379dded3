"""The types of composites that have no rule for them: their bodies are traced.

What traces is imported for the first of them, as a program may have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.op import Attributes, Constant, Op, infers_bodies
from pyrite.types import TensorType


@infers_bodies
def types_of(
    op: Op, given: Sequence[TensorType | Constant | None], attrs: Attributes
) -> tuple[TensorType, ...] | None:
    """Return the types of a composite's results, as its body has them; None if a run must tell."""
    if op.body_reads is not None:
        return _traced_types(op, given, attrs)
    from pyrite.backend.tracing.sized_types import types_by_sizes

    return types_by_sizes(op, given, attrs, _traced_types)


def _traced_types(
    op: Op, given: Sequence[TensorType | Constant | None], attrs: Attributes
) -> tuple[TensorType, ...] | None:
    from pyrite.backend.tracing.tracer import traced

    graph = traced(op, given, attrs)
    return None if graph is None else graph.out
