"""Bodies of composites as graphs (`tracer`): what they compute, for kernels to be made of it."""

from pyrite.backend.tracing.active import forbid_in_bodies as forbid_in_bodies
from pyrite.backend.tracing.inference import types_of as types_of

__all__ = ["forbid_in_bodies", "types_of"]
