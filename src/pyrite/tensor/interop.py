"""Tensors from the arrays of other libraries, through DLPack, and who owns the memory then.

===============================  ===========================================================
``pyrite.tensor(a)``             copies: a later change of ``a`` does not show
``from_dlpack(a)``               shares where the device can, else copies
``from_dlpack(a, copy=False)``   shares, or raises BufferError
``from_dlpack(a, copy=True)``    copies
``from_dlpack(x)`` of a tensor   x, where it is or on ``device=``
``from_torch(t)``                shares, on the torch device where t is; ``copy=True`` copies
``x.torch()``                    the memory of x on a torch device, else a copy on the host
``x.numpy()``, ``np.asarray(x)`` a read-only view, or a copy where the device is not the host
``np.from_dlpack(x)``            as ``x.numpy()``; ``copy=False`` shares, or raises BufferError
``torch.from_dlpack(x)``         the same; PyTorch does not keep read-only memory safe
===============================  ===========================================================

While memory is shared its owner must not write to it: a tensor is a value, and ops may run later
than they were called.  Nor must PyTorch write to what ``x.torch()`` shares, with ``add_`` and the
like.  The other direction is safe: Pyrite never writes to memory that it has exported, but
for what an application gives to one of its own ops as ``out=`` (`pyrite.custom_op`).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.errors import DTypeError
from pyrite.op import public
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, TensorType, dtype

#: DLPack's number for host memory, kDLCPU.
_HOST = 1


@runtime_checkable
class SupportsDLPack(Protocol):
    """What DLPack asks of an array: NumPy's, PyTorch's, JAX's and CuPy's have it."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


@public
def from_dlpack(
    x: SupportsDLPack, /, *, device: DeviceLike = None, copy: bool | None = None
) -> Tensor:
    """Return an array of another library as a tensor, sharing its memory where that is possible.

    Who shares memory sees what is written to it later, on ``cpu`` in ops too that were asked for
    before and have not run: wait with ``device.synchronize()`` first, or pass ``copy=True``.

    Raises BufferError for a dtype that DLPack does not carry through NumPy, as bfloat16, and when
    ``copy=False`` and the device cannot share it: ``numpy`` shares any memory of the host, ``cpu``
    that of aligned elements, ``torch:cpu`` that which may be written, without negative strides.

    >>> array = np.zeros(2)
    >>> shared = from_dlpack(array, copy=False)
    >>> array[0] = 7
    >>> shared.numpy().tolist()
    [7.0, 0.0]
    """
    if isinstance(x, Tensor):
        return _moved(x, device, copy)
    array = _host_view(x, copy)
    if copy is True:
        return tensor(array, device=device)
    backend = as_device(device).backend
    handle = backend.adopt(array)
    if handle is not None:
        return Tensor(handle, TensorType(array.shape, dtype(array.dtype)), backend)
    if copy is False:
        raise BufferError(
            f"from_dlpack requires memory that {backend.root.name} can share, got "
            f"{_hindrance(array)}; let it copy"
        )
    return tensor(array, device=device)


def _moved(x: Tensor, device: DeviceLike, copy: bool | None) -> Tensor:
    """Return a tensor on a device; a value is its own copy."""
    moved = x if device is None else x.to(device)
    if copy is False and moved.device != x.device:
        raise BufferError(
            f"from_dlpack requires a tensor of {moved.device} to share its memory, got one of "
            f"{x.device}; let it copy"
        )
    return moved


def _hindrance(array: Array) -> str:
    """Return what may keep a device from sharing the memory of an array."""
    if not array.flags.aligned:
        return "elements at addresses that are no multiples of their size"
    if min(array.strides, default=0) < 0:
        return "an array with negative strides"
    return "host memory" if array.flags.writeable else "read-only host memory"


def _host_view(x: Any, copy: bool | None) -> Array:
    """Return the array in host memory: the very memory of x, or a copy where that is elsewhere."""
    if not isinstance(x, SupportsDLPack):
        raise DTypeError(
            f"from_dlpack requires an array with __dlpack__, got {type(x).__name__}; "
            "use pyrite.tensor"
        )
    is_host = x.__dlpack_device__()[0] == _HOST
    if copy is False and not is_host:
        raise BufferError("from_dlpack requires host memory to share, got memory of a device")
    try:
        return np.from_dlpack(x) if is_host else np.from_dlpack(x, device="cpu", copy=True)
    except (RuntimeError, BufferError) as error:  # what NumPy says before 2.5, and since
        raise BufferError(f"from_dlpack requires what NumPy can read, got: {error}") from None


@public
def from_torch(t: Any, /, *, copy: bool = False) -> Tensor:
    """Return a torch.Tensor as a tensor of the torch device where it is, cut off its graph.

    It shares the memory, or copies with ``copy=True``; see the table above for who may write.
    Raises DTypeError for what is no torch.Tensor, for a dtype that Pyrite lacks, and for memory
    that does not hold the elements, as a sparse tensor's.
    """
    where = getattr(t, "device", None)
    if not hasattr(t, "requires_grad") or where is None:
        raise DTypeError(
            f"from_torch requires a torch.Tensor, got {type(t).__name__}; use pyrite.tensor"
        )
    _require_elements(t)
    backend = as_device(f"torch:{where}").backend
    handle = backend.adopt(t.clone() if copy else t)
    return Tensor(handle, backend.type_of(handle), backend)


def _require_elements(t: Any) -> None:
    """Raise DTypeError for a torch.Tensor whose memory is not that of its elements."""
    if t.is_nested:
        found, dense = "a nested tensor", "to_padded_tensor(0.0)"
    elif str(t.layout) != "torch.strided":
        found, dense = f"the layout {t.layout}", "to_dense()"
    elif t.is_neg():
        found, dense = "a view that PyTorch negates when it is read", "resolve_neg()"
    else:
        return
    raise DTypeError(
        f"from_torch requires memory that holds each element, got {found}; call its {dense}"
    )
