"""What a generated module holds: layers with their weights, and weights of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyrite.onnx.graph import Weight
from pyrite.onnx.python.code import Code
from pyrite.types import Array

Role = Literal["parameter", "state"]


@dataclass(frozen=True, slots=True)
class LayerMember:
    """A layer: its class in `pyrite.nn`, its arguments, and its weights by their names in it."""

    path: tuple[str, ...]
    name: str
    arguments: tuple[Code, ...]
    named: Mapping[str, Code]
    weights: Mapping[str, Callable[[], Array]]


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor that a module holds itself."""

    path: tuple[str, ...]
    role: Role
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array]


@dataclass(slots=True)
class Members:
    """The layers and tensors of a model, by key."""

    layers: dict[str, LayerMember] = field(default_factory=dict)
    held: dict[str, HeldTensor] = field(default_factory=dict)
    #: By the key of a weight: the layer that holds it as it is, and its name there.
    within: dict[str, tuple[str, str]] = field(default_factory=dict)

    def claim(self, weight: Weight, layer: str, name: str) -> None:
        """Note that a layer holds a weight as it is in the file."""
        self.within.setdefault(weight.key, (layer, name))
