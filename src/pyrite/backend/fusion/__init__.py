"""Fusion: ops are recorded when they are called, and run as one program when a value is wanted."""

from pyrite.backend.fusion.decorator import Fusion as Fusion
from pyrite.backend.fusion.fused_device import fusion as fusion
from pyrite.backend.fusion.lazy import Lazy as Lazy

__all__ = ["Fusion", "Lazy", "fusion"]
