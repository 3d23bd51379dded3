"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pyrite.errors import ModuleError
from pyrite.nn.module import Module


class Sequential(Module):
    """Layers one after the other; each is a module, or any function of one tensor.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Sequential(nn.Linear(2, 4), pyrite.Tensor.relu, nn.Linear(4, 1)).num_params()
    17
    """

    def __init__(self, *layers: Any) -> None:
        for layer in layers:
            if not callable(layer):
                fix = "; unpack it: Sequential(*layers)" if isinstance(layer, list | tuple) else ""
                raise ModuleError(f"Sequential requires modules or functions, got {layer!r}{fix}")
        self.layers = layers

    def tree_children(self) -> dict[str, Any]:
        """Return the layers by number, which are their names in files, as in PyTorch."""
        return {str(index): layer for index, layer in enumerate(self.layers)}

    def tree_rebuild(self, children: Mapping[str, Any]) -> Self:
        """Return a copy with other layers under these numbers."""
        layers = {**self.tree_children(), **children}
        return super().tree_rebuild({"layers": tuple(layers.values())})

    def extra_repr(self) -> str:
        """Return nothing: it is its layers."""
        return ""

    def forward(self, x: Any) -> Any:
        """Return the output of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    def __getitem__(self, index: int | slice) -> Any:
        """Return a layer, or a Sequential of some of them, which shares their parameters."""
        found = self.layers[index]
        return Sequential(*found) if isinstance(index, slice) else found


class Lambda(Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)
