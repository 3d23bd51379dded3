"""What decorators add to a backend: Autodiff its levels, and the leaves and gradients on them.

A backend that decorates nothing is at level 0, and nothing is tracked there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrite.errors import GradientError
from pyrite.op import Handle, TensorBase


class Levels:
    """What a decorator overrides."""

    name: str
    #: How many Autodiff decorators stand in the chain.
    level: int = 0

    def track(self, handle: Handle, key: Any = None) -> Handle:
        """Return a new leaf; ``key`` is the parameter under whose id its gradient is filed."""
        raise GradientError(
            f"require_grad requires an autodiff device, got {self.name}; "
            f"use pyrite.autodiff({self.name!r}) or pyrite.value_and_grad"
        )

    def is_tracked(self, handle: Handle) -> bool:
        """Whether gradients flow to this handle."""
        return False

    def detach(self, handle: Handle) -> Handle:
        """Return the same values, cut off the graph, sharing memory."""
        return handle

    def gradients(self, handle: Handle) -> Any:
        """Return the gradients of a scalar with respect to every leaf that it depends on."""
        raise GradientError(
            f"backward requires an autodiff device, got {self.name}; "
            f"use pyrite.autodiff({self.name!r}) or pyrite.value_and_grad"
        )

    def inner_tensor(self, handle: Handle) -> TensorBase | None:
        """Return the tensor one level down, or None where there is no decorator."""
        return None

    def emit(self, handle: Handle, states: tuple[Any, ...], renewal: Callable[..., Any]) -> Handle:
        """Return the handle with a renewal of states attached; by default there is no place."""
        return handle
