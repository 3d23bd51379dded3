"""What layers over the spatial axes of (N, C, *sizes) share: arguments per axis, checks."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from pyrite.errors import ShapeError
from pyrite.nn.layer import Layer
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.window import Padding, Sizes, padding_pairs, sizes_per_axis
from pyrite.types import Shape

Given = TypeVar("Given", bound=Padding)


class Spatial(Layer):
    """A layer of images, or of what has one or three axes instead of two."""

    #: Names of the spatial axes, one letter each, as errors show them.
    axes: ClassVar[str]

    def _per_axis(self, name: str, value: Sizes, *, least: int = 1) -> Shape:
        """Return an argument that is one int, or one per spatial axis, as the latter."""
        return sizes_per_axis(type(self).__name__, name, value, len(self.axes), least=least)

    def _checked_padding(self, padding: Given) -> Given:
        """Return the padding as it was given, or raise ArgumentError when it is none."""
        some = (1,) * len(self.axes)
        padding_pairs(type(self).__name__, padding, some, some, some, some)
        return padding

    def _checked(self, x: Tensor, channels: int | None = None) -> Tensor:
        """Return x, or raise ShapeError when it is not (N, channels, *axes)."""
        rank = len(self.axes) + 2
        if x.ndim == rank and channels in (None, x.shape[1]):
            return x
        wanted = ", ".join(("N", "C" if channels is None else str(channels), *self.axes))
        fix = "; add a batch axis: x[None]" if x.ndim == rank - 1 else ""
        raise ShapeError(
            f"{type(self).__name__} requires x of shape ({wanted}), got {x.shape}{fix}"
        )
