"""Parameters and states: tensors with an identity that outlives their values.

A `Parameter` is trained, a `State` is what forward passes leave behind (running statistics).  Both
keep their ``id`` through ``map``, ``to`` and optimiser steps; gradients, optimiser state and files
find them by it.  Initial values are drawn when first needed, from keys reserved at declaration, so
that a model that is built only to be loaded never draws any.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Self

from pyrite.backend.device import DeviceLike, default_device_here, device
from pyrite.backend.protocol import Backend
from pyrite.errors import DTypeError
from pyrite.op import TensorBase, instead, located, public
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor, destination
from pyrite.types import Array, DType, Shape, TensorType

_ids = itertools.count(1)
_lock = threading.RLock()

Initial = Callable[[], Tensor]

#: From the values of some states to those after them: ``lambda mean, count: (..., count + 1)``.
Renewal = Callable[..., tuple[Tensor, ...]]


class Identified(Tensor):
    """A tensor with a persistent id."""

    __slots__ = ("_initial", "id", "trainable", "version")

    #: Who it is, in this process.
    id: int
    #: How many optimiser steps made this value.
    version: int
    #: Whether gradients are taken for it: a parameter's, unless ``Module.freeze`` cleared it.
    trainable: bool
    _initial: Initial | None

    def __init__(self, value: Tensor, *, id: int | None = None, version: int = 0) -> None:
        if not isinstance(value, Tensor):
            raise located(DTypeError(f"{type(self).__name__} requires a tensor, {instead(value)}"))
        self._handle = value._handle
        self._type = value._type
        self._backend = value._backend
        self.id = next(_ids) if id is None else id
        self.version = version
        self.trainable = False
        self._initial = None

    @classmethod
    def lazy(cls, shape: Shape, dtype: DType, where: DeviceLike, initial: Initial) -> Any:
        """Return one whose value ``initial()`` gives when it is first looked at."""
        made = cls.__new__(cls)
        made._type = TensorType(shape, dtype)
        made._backend = device(where).backend
        made._initial = initial
        made.id = next(_ids)
        made.version = 0
        made.trainable = False
        return made

    @property
    def is_initialized(self) -> bool:
        """Whether its value has been drawn."""
        return self._initial is None

    def with_value(self, value: Tensor, *, version: int | None = None) -> Self:
        """Return the same parameter with another value."""
        made = self._same(value._type, value._backend)
        if version is not None:
            made.version = version
        made._handle = made._adopt(value)
        return made

    def as_new(self, value: Tensor) -> Self:
        """Return another one with this value: as trainable, with an id of its own."""
        made = self._same(value._type, value._backend)
        made.id = next(_ids)
        made.version = 0
        made._handle = made._adopt(value)
        return made

    @public
    def to(self, where: DeviceLike, /) -> Any:
        """Return the same parameter or state on another device; one not yet drawn stays so."""
        backend = destination(where)
        if backend == self._backend:
            return self
        initial = self._initial
        if initial is None:
            return self.with_value(Tensor.to(self, where))
        made = self._same(self._type, backend)
        made._initial = initial
        return made

    def _same(self, type: TensorType, backend: Backend) -> Self:
        """Return the same one, whose value is still to be given to it."""
        made = object.__new__(self.__class__)
        made._type = type
        made._backend = backend
        made._initial = None
        made.id = self.id
        made.version = self.version
        made.trainable = self.trainable
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The value of a tracked one lies under its level, which another process has not.
        value = self.detach()
        return _restored, (type(self), value.numpy(), self.device.name, self.trainable)

    def __deepcopy__(self, memo: Any) -> Self:
        """Return one with the same value and an id of its own, which is trained by itself."""
        made = self._same(self._type, self._backend)
        made.id = next(_ids)
        made._handle = made._adopt(self)
        return made

    def __getattr__(self, name: str) -> Any:
        # Only ``_handle`` among its own slots is ever empty.
        if name != "_handle":
            # Looked up again for its own error.
            return object.__getattribute__(self, name)
        with _lock:
            if self._initial is not None:
                # Drawn where it is wanted: another device need not even work.
                with default_device_here(self._backend.root):
                    value = self._initial().to(self._backend)
                self._handle = self._adopt(value)
                self._initial = None
        return self._handle

    def _adopt(self, value: Tensor) -> Any:
        """Return its handle for a value: a fresh leaf with its key, if trained on this device."""
        backend = value._backend
        if not self.trainable or not backend.level:
            return value._handle
        # The leaf knows who it is by numbers: a reference to this object would close a cycle, and
        # each step's parameters would live on until the garbage collector ran.
        return backend.track(value._handle, (self.id, self.version))


class Parameter(Identified):
    """A trainable tensor of a module.  On an autodiff device it is a leaf that gradients reach.

    >>> import pyrite
    >>> Parameter(pyrite.ones((2, 3))).shape
    (2, 3)
    """

    __slots__ = ()

    def __init__(
        self, value: Tensor, *, id: int | None = None, version: int = 0, trainable: bool = True
    ) -> None:
        super().__init__(value, id=id, version=version)
        self.trainable = trainable
        self._handle = self._adopt(value)

    @classmethod
    def lazy(cls, shape: Shape, dtype: DType, where: DeviceLike, initial: Initial) -> Parameter:
        """Return a parameter whose value ``initial()`` gives when it is first looked at."""
        made: Parameter = super().lazy(shape, dtype, where, initial)
        made.trainable = True
        return made

    def frozen(self, frozen: bool = True) -> Self:
        """Return the same parameter, trainable or not."""
        made = self._same(self._type, self._backend)
        made.trainable = not frozen
        made._handle = made._adopt(self.detach())
        return made

    def lifted(self, handle: Any, backend: Backend) -> Self:
        """Return the same parameter with a handle of a backend one level up."""
        made = self._same(self._type, backend)
        made._handle = handle
        return made


def _restored(kind: type[Identified], array: Array, where: str, trainable: bool) -> Identified:
    """Return a parameter or state that was pickled, with an id of its own."""
    made = kind(tensor(array, device=where))
    made.trainable = trainable
    return made


class State(Identified):
    """A value that forward passes renew, without a gradient: running statistics.

    A forward pass never mutates it.  It *emits* a new value, which rides on the output's graph:
    ``out = state.emit(new_value, through=out)``; ``backward`` collects what reached the loss into
    ``grads.updates`` and ``optimizer.step`` commits it.  What depends on the value before is
    emitted as a function of it, by `emit`.
    """

    __slots__ = ()

    def emit(self, value: Tensor, *, through: Tensor) -> Tensor:
        """Return ``through`` with a new value for this state attached to its graph."""
        return emit((self,), constant(value), through=through)


def emit(states: tuple[State, ...], renewal: Renewal, *, through: Tensor) -> Tensor:
    """Return ``through`` with a renewal of some states attached to its graph.

    ``renewal`` takes their values and returns the next ones.  It runs when all values before are
    known: a layer that is called twice in one forward pass renews its states twice, in that order.
    Tensors that it holds should be detached.
    """
    backend = through._backend
    return Tensor(backend.emit(through._handle, states, renewal), through._type, backend)


def constant(value: Tensor) -> Renewal:
    """Return the renewal of one state to a value that does not depend on the one before."""
    return lambda _: (value,)


TensorBase.held = (Parameter, State)
