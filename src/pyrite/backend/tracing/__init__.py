"""Bodies of composites as graphs: what they compute, for kernels to be made of it."""

from pyrite.backend.tracing.tracer import forbid_in_bodies as forbid_in_bodies
from pyrite.backend.tracing.tracer import traced as traced
from pyrite.backend.tracing.tracer import why_untraceable as why_untraceable

__all__ = ["forbid_in_bodies", "traced", "why_untraceable"]
