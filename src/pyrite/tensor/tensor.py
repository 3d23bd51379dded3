"""Tensor: an immutable array of numbers that lives on a device."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import ShapeError
from pyrite.op import Executor
from pyrite.synchronization import note_sync
from pyrite.tensor.loss import Loss
from pyrite.types import Array, Number, TensorType


class Tensor(Loss):
    """An immutable array of numbers that lives on a device.

    Made by ``pyrite.tensor``, ``zeros``, ``arange`` and the like, or by ops on other tensors.
    """

    __slots__ = ()

    _backend: Backend

    #: NumPy arrays on the left of an operator leave it to the tensor on the right.
    __array_ufunc__ = None

    @classmethod
    def _wrap(cls, handle: Any, type: TensorType, backend: Executor) -> Self:
        return Tensor(handle, type, backend)  # type: ignore[return-value]

    # ---- where it lives ----

    @property
    def device(self) -> Device:
        """The device that holds it."""
        return Device(self._backend)

    def to(self, where: DeviceLike, /) -> Tensor:
        """Return the tensor on another device, or itself when it is there already."""
        backend = device(where).backend
        if backend == self._backend:
            return self
        if backend.root is self._backend.root and backend.level > self._backend.level:
            return Tensor(backend.lift(self), self._type, backend)
        return Tensor(backend.upload(self.numpy()), self._type, backend)

    def primitive(self) -> Any:
        """Return what lies under all decorators: the array or the buffer itself."""
        return self._backend.primitive(self._handle)

    # ---- gradients: the backend's business ----

    def require_grad(self) -> Tensor:
        """Return a new leaf with these values, whose gradient ``backward`` will find."""
        return Tensor(self._backend.track(self._handle), self._type, self._backend)

    @property
    def is_tracked(self) -> bool:
        """Whether gradients flow to it."""
        return self._backend.is_tracked(self._handle)

    def detach(self) -> Tensor:
        """Return the same values cut off the graph, sharing memory."""
        return Tensor(self._backend.detach(self._handle), self._type, self._backend)

    def clone(self) -> Tensor:
        """Return a tensor that shares this one's memory; values never change under either."""
        return Tensor(self._handle, self._type, self._backend)

    def inner(self) -> Tensor:
        """Return the tensor one autodiff level down, or itself on a plain device."""
        found = self._backend.inner_tensor(self._handle)
        return found if isinstance(found, Tensor) else self

    def backward(self) -> Any:
        """Return the `Gradients` of this scalar with respect to every leaf it depends on.

        Raises GradientError when the device has no autodiff, and ShapeError for a non-scalar.
        """
        if self.size != 1:
            raise ShapeError(f"backward requires a scalar, got shape {self.shape}; use .sum()")
        return self._backend.gradients(self._handle)

    # ---- values: reading waits ----

    def numpy(self) -> Array:
        """Return the values as a read-only array, without a copy where the device is the host."""
        note_sync("numpy")
        return self._backend.download(self._handle)

    def item(self) -> Number:
        """Return the one value as a Python number.  Raises ShapeError when there is not just one."""
        if self.size != 1:
            raise ShapeError(f"item requires one element, got shape {self.shape}")
        value: Number = self.numpy().item()
        return value

    def tolist(self) -> Any:
        """Return the values as Python numbers in nested lists, or as one number for shape ()."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return np.array(array) if copy else array

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len requires at least one axis, got a zero-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"tensor({self.numpy()!r}, device={self.device.name!r})"
