"""Tensors in einops, as PyTorch's are: ``einops.rearrange(x, "b h w -> b (h w)")``.

einops finds a library among the subclasses of its ``AbstractBackend``, and asks the tensor nothing
before it has found one.  So ours is declared when einops is imported: at once where it is already,
else by a finder that waits for that one import, finds nothing itself, and then is gone.  To import
einops for that would cost every program 20 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

from pyrite.tensor.creation import arange, tensor
from pyrite.tensor.einsum import einsum
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

if TYPE_CHECKING:
    from importlib.abc import Loader  # which brings archives and temporary files, 8 ms

_BACKENDS: Final = "einops._backends"

#: einops holds its backends by weak references.
_declared: list[type] = []


def declare_to_einops() -> None:
    """Declare Pyrite's backend to einops: now, or when it is imported."""
    imported = sys.modules.get(_BACKENDS)
    if imported is None:
        sys.meta_path.insert(0, _Waiting())
    else:
        _declare(imported)


def _declare(backends: ModuleType) -> None:
    _declared.append(type("PyriteBackend", (_Operations, backends.AbstractBackend), {}))


class _Operations:
    """What einops asks of a library."""

    framework_name = "pyrite"

    def is_appropriate_type(self, tensor: object) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Array) -> Tensor:
        return tensor(x)

    def to_numpy(self, x: Tensor) -> Array:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute_dims(axes)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        reduced: Tensor = getattr(x, operation)(axis=tuple(axes))
        return reduced

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        return stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.expand_dims(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        widened = x.expand_dims(tuple(pos2len))
        return widened.broadcast_to([pos2len.get(a, n) for a, n in enumerate(widened.shape)])

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return x.tile(tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return concat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_float

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)


class _Waiting:
    """Waits for the import of einops' backends, and lets the other finders find them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _BACKENDS or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        found = find_spec(fullname)
        if found is not None and found.loader is not None:
            found.loader = cast("Loader", _Declaring(found.loader))
        return found


class _Declaring:
    """Loads a module as its own loader does, which it is given back, and declares the backend."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        _declare(module)
