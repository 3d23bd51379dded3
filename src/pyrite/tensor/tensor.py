"""Tensor: an immutable array of numbers that lives on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Self

import numpy as np

from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    RecordError,
    ShapeError,
    ZeroRankError,
)
from pyrite.op import Executor, TensorBase, public
from pyrite.synchronization import note_sync, when_done
from pyrite.tensor.attention import Attention
from pyrite.tensor.average_pooling import AveragePooling
from pyrite.tensor.channel_normalization import ChannelNormalization
from pyrite.tensor.cumulative_extremum import CumulativeExtremum
from pyrite.tensor.interpolation import Interpolation
from pyrite.tensor.loss import Loss
from pyrite.tensor.picture import picture
from pyrite.tensor.printing import shown, values_text
from pyrite.tensor.rectifier import Rectifier
from pyrite.tensor.recurrent import Recurrent
from pyrite.tensor.shorthand import Shorthand
from pyrite.tensor.torch_names import NamesHere, answer, names_of
from pyrite.tensor.transposed_convolution import TransposedConvolution
from pyrite.tensor.unfolding import Unfolding
from pyrite.types import DTYPES, Array, DType, Number, TensorType, bfloat16

#: Versions of the array API standard whose functions `pyrite` has; docs/array-api.md says which.
ARRAY_API_VERSIONS = ("2022.12", "2023.12", "2024.12")

_new = object.__new__


class Tensor(
    Loss,
    Interpolation,
    AveragePooling,
    Unfolding,
    TransposedConvolution,
    Attention,
    Recurrent,
    ChannelNormalization,
    Rectifier,
    CumulativeExtremum,
    Shorthand,
    metaclass=NamesHere,
):
    """An immutable array of numbers that lives on a device.

    Made by ``pyrite.tensor``, ``zeros``, ``arange`` and the like, or by ops on other tensors.
    """

    __slots__ = ()

    _backend: Backend

    #: NumPy arrays on the left of an operator leave it to the tensor on the right.
    __array_ufunc__ = None

    @classmethod
    def _wrap(cls, handle: Any, type: TensorType, backend: Executor) -> Self:
        made = _new(Tensor)
        made._handle = handle
        made._type = type
        made._backend = backend  # type: ignore[assignment]
        return made  # type: ignore[return-value]

    def __dir__(self) -> list[str]:
        return names_of(self, super().__dir__())

    # ---- where it lives ----

    @property
    def device(self) -> Device:
        """The device that holds it."""
        return Device(self._backend)

    @public
    def to(self, where: DeviceLike, /) -> Tensor:
        """Return the tensor on another device, or itself when it is there already."""
        return self._on(destination(where))

    def _on(self, backend: Backend) -> Tensor:
        """Return what `to` does, given a device's backend."""
        if backend == self._backend:
            return self
        if backend.root is self._backend.root and backend.level > self._backend.level:
            return Tensor(backend.lift(self), self._type, backend)
        return Tensor(backend.upload(self._read("to")), self._type, backend)

    def to_device(self, where: DeviceLike, /, *, stream: Any = None) -> Tensor:
        """Return `to` under the array API standard's name; ``stream`` has no meaning here."""
        return self.to(where)

    def unwrap(self) -> Any:
        """Return what lies under all decorators: the array or the buffer itself."""
        return self._backend.primitive(self._handle)

    #: Burn's name for it; not `pyrite.op.primitive`, which declares an op.
    primitive = unwrap

    @public
    def invalidate(self) -> Self:
        """Take what the application wrote to the memory of this tensor since; return the tensor.

        It is for `pyrite.wgpu.from_buffer`, and the one way in which a tensor changes.  Tensors
        that were computed from it keep their values; views and clones have lost theirs, and are an
        error when they are read.  Raises DeviceError for memory that is not the application's.
        """
        self._handle = self._backend.renew(self._handle)
        return self

    @public
    def torch(self) -> Any:
        """Return the values as a torch.Tensor: the memory itself on a torch device, else a copy.

        A copy is on the host.  Values never change, so PyTorch must not write to what is shared.
        """
        root = self._backend.root
        shared = root.export(self.primitive())
        return device("torch:cpu").backend.upload(self._read("torch")) if shared is None else shared

    # ---- gradients: the backend's business ----

    @public
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

    @public
    def backward(self) -> Any:
        """Return the `Gradients` of this scalar with respect to every leaf it depends on.

        Raises GradientError when the device has no autodiff, and ShapeError for a non-scalar.
        """
        if self.size != 1:
            raise ShapeError(f"backward requires a scalar, got shape {self.shape}; use .sum()")
        return self._backend.gradients(self._handle)

    # ---- values: reading waits ----

    @public
    def numpy(self) -> Array:
        """Return the values as a read-only array, without a copy where the device is the host."""
        return self._view("numpy")

    def _view(self, asked: str) -> Array:
        """Return the memory itself, read-only, where the device is the host; else a copy."""
        note_sync(asked)
        return self._backend.host_view(self._handle)

    def _read(self, asked: str) -> Array:
        note_sync(asked)
        return self._backend.download(self._handle)

    def is_ready(self) -> bool:
        """Return whether the values are computed, so that a read would not wait for the device.

        It never waits.  What was asked for is submitted; with that, values that an index outside
        its axis has spoilt are ready too, and a read says so.
        """
        computed = self._undecorated()
        return computed._backend.is_ready(computed._handle)

    def when_ready(self, function: Callable[[Tensor], object], /) -> None:
        """Call the function with this tensor when `is_ready`, on a thread of its own.

        For programs without an event loop, or with one that takes calls from other threads, as
        ``loop.call_soon_threadsafe`` and a queue.  It is called once, also when the device fails:
        then a read in it says so.  What it raises goes to ``threading.excepthook``.

        >>> import pyrite, queue
        >>> done = queue.Queue()
        >>> pyrite.ones((2,)).sum().when_ready(done.put)
        >>> done.get(timeout=60).item()
        2.0
        """
        if not callable(function):
            raise ArgumentTypeError(f"when_ready requires a function, got {function!r}")
        computed = self._undecorated()
        # What is asked for later does not delay it.
        computed._backend.is_ready(computed._handle)
        when_done(lambda: computed._backend.wait(computed._handle), lambda: function(self))

    def _undecorated(self) -> Tensor:
        """Return the tensor under all decorators."""
        tensor: Tensor = self
        while (inner := tensor.inner()) is not tensor:
            tensor = inner
        return tensor

    async def to_numpy_async(self) -> Array:
        """Return the values as `numpy` does, awaited: the event loop goes on meanwhile."""
        (array,) = await self._backend.download_all_async([self._handle])
        return array

    @public
    def item(self) -> Number:
        """Return the one value as a Python number.  Raises ShapeError unless there is just one."""
        value: Number = self._only("item").item()
        return value

    async def item_async(self) -> Number:
        """Return the one value as `item` does, awaited: the event loop goes on meanwhile."""
        self._require_one("item_async")
        value: Number = (await self.to_numpy_async()).item()
        return value

    @public
    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers; one number for a zero-d tensor."""
        return self._read("tolist").tolist()

    def _only(self, asked: str) -> Array:
        self._require_one(asked)
        return self._read(asked)

    def _require_one(self, asked: str) -> None:
        if self.size != 1:
            raise ShapeError(f"{asked} requires one element, got shape {self.shape}")

    @public
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self._view("asarray")
        if dtype is None or array.dtype == dtype:
            return np.array(array) if copy else array
        if copy is False:
            raise ArgumentError(
                f"a view as {np.dtype(dtype)} requires the same dtype, got {self.dtype.name}; "
                "let NumPy copy"
            )
        return array.astype(dtype)

    @public
    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                f"bool requires one element, got shape {self.shape}; use any() or all()"
            )
        return bool(self._read("bool").item())

    @public
    def __float__(self) -> float:
        return float(self._only("float").item())

    @public
    def __complex__(self) -> complex:
        return complex(self._only("complex").item())

    @public
    def __int__(self) -> int:
        return int(self._only("int").item())

    @public
    def __index__(self) -> int:
        if not self.dtype.is_integer or self.ndim:
            raise DTypeError(
                f"an index requires a zero-d integer tensor, got {self.dtype.name} {self.shape}"
            )
        return int(self._read("an index").item())

    @public
    def __len__(self) -> int:
        if not self.shape:
            raise ZeroRankError("len requires at least one axis, got shape ()")
        return self.shape[0]

    @public
    def __repr__(self) -> str:
        return shown(self._read("print"), self.dtype.name, self.device.name)

    @public
    def _repr_html_(self) -> str:
        array = self._read("print")
        text = shown(array, self.dtype.name, self.device.name)
        return picture(array, self.dtype.name, self.device.name, text)

    @public
    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        array = self._read("format")
        return values_text(array, spec=spec) if self.ndim else format(array.item(), spec)

    # ---- identity ----

    def __hash__(self) -> int:  # type: ignore[override]
        raise DTypeError(
            "hash requires a value that is compared as a whole, got a tensor, which is "
            "unhashable; key by id(x), or by x.item()"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        # A value never changes, so one is as good as two.
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RecordError(
            "pickle requires objects without device memory, got a tensor; save a module, or "
            "send x.numpy()"
        )

    # ---- exchange ----

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return the module of functions on tensors, as the array API standard asks."""
        if api_version not in (None, *ARRAY_API_VERSIONS):
            raise ArgumentError(
                f"api_version requires one of {', '.join(ARRAY_API_VERSIONS)}, got {api_version!r}"
            )
        return sys.modules["pyrite"]

    @public
    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name of the device."""
        return self._exported().__dlpack_device__()

    @public
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule: the memory itself, marked read-only where the consumer can tell.

        A consumer that asks for a version before 1.0 could write to it, and gets a copy.  Raises
        BufferError where sharing is not possible.
        """
        if copy is False and not self._backend.root.shares_with_numpy:
            raise BufferError(
                f"__dlpack__ requires host memory to share, got memory of {self.device}; let it "
                "copy"
            )
        exported = self._exported()
        is_shared = copy is not True and max_version is not None and max_version >= (1, 0)
        if not is_shared and copy is False:
            raise BufferError(
                "__dlpack__ requires max_version >= (1, 0) to share read-only memory, "
                f"got {max_version}; let it copy"
            )
        source = exported if is_shared else np.array(exported)
        return source.__dlpack__(max_version=max_version, dl_device=dl_device)

    def _exported(self) -> Array:
        if self.dtype is bfloat16:
            raise BufferError(
                "DLPack through NumPy requires a dtype that NumPy knows, got bfloat16; "
                "cast it with astype"
            )
        return self._view("__dlpack__")


TensorBase.concrete = answer(Tensor)

_DTYPE_NAMES = frozenset(dtype.name for dtype in DTYPES)


def destination(where: DeviceLike) -> Backend:
    """Return the backend to which ``to`` moves.  Raises DTypeError for a dtype, by name too."""
    if isinstance(where, DType) or (isinstance(where, str) and where in _DTYPE_NAMES):
        raise DTypeError(f"to requires a device, got {where}; cast it: astype({where!r})")
    return device(where).backend
