"""What a module is while Python pickles it, to be sent to another process.

Parameters and states go as their values: what arrives has ids of its own, with ties kept, as a deep
copy has, and lies on the plain device of the same name.  For files there is ``Module.save``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, with_children


class Constant:
    """A tensor of a module that is neither parameter nor state; unpickled, it is the tensor."""

    __slots__ = ("_value",)

    def __init__(self, value: Tensor) -> None:
        self._value = value

    def __reduce__(self) -> Any:
        return _constant, (self._value.numpy(), self._value.device.name)


def sendable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a module with its constants as what can be pickled."""
    return {name: _sendable(value) for name, value in fields.items()}


def _sendable(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Identified):
        return Constant(value)
    changed = {name: new for name, child in _items(value) if (new := _sendable(child)) is not child}
    return with_children(value, changed) if changed else value


def _items(value: Any) -> Any:
    """Return what a container holds, by name; nothing for a module, which is pickled by itself."""
    if isinstance(value, tuple | list):
        return enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    if is_dataclass(value) and not isinstance(value, type | TreeNode):
        return [(f.name, getattr(value, f.name)) for f in fields(value) if f.init]
    return ()


def _constant(array: Any, device: str) -> Tensor:
    return tensor(array, device=device)
