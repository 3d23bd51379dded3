"""Bodies of composites as graphs: what they compute, for kernels to be made of it."""

from pyrite.backend.tracing.graph import Graph as Graph
from pyrite.backend.tracing.graph import Input as Input
from pyrite.backend.tracing.graph import Literal as Literal
from pyrite.backend.tracing.graph import Node as Node
from pyrite.backend.tracing.graph import Operand as Operand
from pyrite.backend.tracing.tracer import forbid_in_bodies as forbid_in_bodies
from pyrite.backend.tracing.tracer import traced as traced
from pyrite.backend.tracing.tracer import why_untraceable as why_untraceable

__all__ = [
    "Graph", "Input", "Literal", "Node", "Operand", "forbid_in_bodies", "traced",
    "why_untraceable",
]  # fmt: skip
