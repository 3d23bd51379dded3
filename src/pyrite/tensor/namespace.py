"""What the array API standard asks of the namespace: its version, devices and dtypes.

And its functions that have another signature than the methods, or no meaning but for complex
numbers, which Pyrite lacks.

Source: array API standard 2024.12, inspection, data-apis.org/array-api/2024.12.
"""

from __future__ import annotations

from typing import Any, Final

from pyrite.backend.device import Device, DeviceLike, default_device, device_names, device_problem
from pyrite.backend.device import device as as_device
from pyrite.op import public
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.inspection import isdtype
from pyrite.tensor.tensor import ARRAY_API_VERSIONS, Tensor
from pyrite.types import DTYPES, DType, DTypeLike, default_float, default_int

#: The version of the array API standard that `pyrite` follows; docs/array-api.md says how far.
__array_api_version__: Final = ARRAY_API_VERSIONS[-1]

#: As many axes as NumPy's arrays have, which hold tensors on their way to a device.
_MAX_DIMENSIONS: Final = 64

#: What Pyrite has beyond the standard, which the standard does not want named.
_BEYOND: Final = ("float16", "bfloat16")


class NamespaceInfo:
    """Answers about `pyrite` as a namespace of the array API standard.

    >>> NamespaceInfo().default_dtypes()["integral"]
    pyrite.int32
    """

    def capabilities(self) -> dict[str, Any]:
        """Return what the standard leaves open: masks, shapes that depend on values, axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _MAX_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """Return the device where tensors are made unless another is named."""
        return default_device()

    def devices(self) -> list[Device]:
        """Return the devices that work here.  Each is tried, which imports its packages."""
        return [as_device(name) for name in device_names() if device_problem(name) is None]

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, DType]:
        """Return the dtypes of what is made without one: the same on every device."""
        return {"real floating": default_float, "integral": default_int, "indexing": default_int}

    def dtypes(
        self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of the standard that a device has, by name; ``kind`` as in `isdtype`.

        >>> list(NamespaceInfo().dtypes(device="numpy", kind="real floating"))
        ['float32', 'float64']
        """
        there = as_device(device).backend.root.dtypes
        return {
            dtype.name: dtype
            for dtype in DTYPES
            if dtype in there
            and dtype.name not in _BEYOND
            and (kind is None or isdtype(dtype, kind))
        }


def __array_namespace_info__() -> NamespaceInfo:
    """Return the answers of the array API standard's inspection about this namespace."""
    return NamespaceInfo()


@public
def astype(
    x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike = None
) -> Tensor:
    """Return x as another dtype, and where ``device`` is given on that device.

    ``copy`` is the array API's and changes nothing: values never do, so they may be shared.

    >>> import pyrite
    >>> astype(pyrite.tensor([1.7]), pyrite.int8, copy=False).tolist()
    [1]
    """
    return (x if device is None else x.to(device)).astype(dtype)


@public
def reshape(x: Tensor, /, shape: int | tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements of x in row-major order as another shape, one size of which may be -1.

    ``copy`` is the array API's and changes nothing, as in `astype`.

    >>> import pyrite
    >>> reshape(pyrite.arange(6), shape=(2, -1)).shape
    (2, 3)
    """
    return x.reshape(shape=shape)


@public
def conj(x: Tensor, /) -> Tensor:
    """Return the complex conjugate: of real numbers, the only ones there are, x itself."""
    return x.positive()


@public
def real(x: Tensor, /) -> Tensor:
    """Return the real part: of real numbers x itself."""
    return x.positive()


@public
def imag(x: Tensor, /) -> Tensor:
    """Return the imaginary part: of real numbers zeros."""
    return zeros_like(x)
