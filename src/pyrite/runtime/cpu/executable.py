"""Kernels as machine code: what they are bound to, and their variants for large outputs."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np

from pyrite.errors import KernelError
from pyrite.kernel.builder import exact
from pyrite.kernel.encoding import pack
from pyrite.kernel.extents_of_stores import extents_of_stores
from pyrite.kernel.fact import facts_of
from pyrite.kernel.ir import Kernel, Node, dtype_of
from pyrite.runtime.cpu.compilation import Compilation
from pyrite.runtime.cpu.executor import slot
from pyrite.runtime.cpu.grain import Work
from pyrite.runtime.cpu.memory import ALIGNMENT, BUFFERS
from pyrite.runtime.cpu.module import Retired
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, float32

_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


#: A float32 in the first half of a word, and a word.
_SINGLE, _WORD = struct.Struct("<fi"), struct.Struct("<q")
#: Less than the greatest float32.
_LARGE = 3e38


class Streaming(NamedTuple):
    """Which outputs go past the caches, and the extents that are multiples of a number, if any."""

    streams: tuple[int, ...] = ()
    wholes: tuple[int, ...] = ()
    multiple: int = 1


class CpuExecutable:
    """A kernel as machine code, which is unloaded when nobody holds this or runs it any more."""

    __slots__ = (
        "__weakref__", "_buffers", "_codes", "_extents", "_slots", "abreast", "code", "formats",
        "kernel", "pack", "streaming", "work", "written",
    )  # fmt: skip

    def __init__(
        self, kernel: Kernel, code: Compilation, work: Work, retired: Retired, abreast: int = 1
    ) -> None:
        self.kernel = kernel
        self._codes = [code]
        retired.watch(self, self._codes)
        #: The code for outputs that stay in the caches.
        self.code = code
        #: What makes 8 bytes of each binding.
        self.pack = tuple(_packer(p) for p in kernel.parameters)
        #: The same as codes of `struct`, in which some may be refused; "" where there is none.
        self.formats = tuple(map(_format, kernel.parameters))
        #: The same for all of them, where each has one.
        self._slots = Struct("=" + "".join(self.formats)) if all(self.formats) else None
        self._buffers = tuple([b.attr[0] for b in kernel.buffers])
        #: From the bindings of a launch to the nanoseconds that a workgroup takes, roughly.
        self.work = work
        #: How many invocations a vector has, where they go side by side: a launch is handed over by
        #: what it takes then, or a thread would be woken for each few microseconds.
        self.abreast = abreast
        #: Positions of the buffers that it only writes.
        self.written = tuple(b.attr[0] for b in kernel.buffers if b.attr[2] == "write")
        #: The code for outputs past the caches, by what it is for.
        self.streaming: dict[Streaming, Compilation] = {}
        #: Positions of what places in those are multiples of, once that was asked for.
        self._extents: tuple[int, ...] | None = None

    def pack_kernel(self) -> None:
        """Keep of the kernel what launches need."""
        facts_of(self.kernel)
        pack(self.kernel)

    def slots(self, bindings: Sequence[Any]) -> bytes:
        """Return the words of what a launch binds: those of `slots_of`, by one call for all.

        Raises KernelError for bindings that do not fit.
        """
        if self._slots is not None:
            given = [*bindings]
            try:
                for n in self._buffers:
                    given[n] = given[n].address
                return self._slots.pack(*given)
            except (AttributeError, IndexError, OverflowError, StructError):
                pass  # a number that is to be rounded first, or what does not fit
        return array("q", slots_of(self, bindings)).tobytes()

    def add_streaming(self, of: Streaming, code: Compilation) -> Compilation:
        """Keep the code for outputs past the caches, and return it."""
        self._codes.append(code)
        self.streaming[of] = code
        return code

    def streaming_of(self, streams: tuple[int, ...], bindings: Sequence[Any]) -> Streaming:
        """Return what a launch asks of code for such outputs past the caches.

        Only whole vectors at multiples of their size go there.
        """
        if self._extents is None:
            self._extents = extents_of_stores(self.kernel, self.written)
        multiple = max(ALIGNMENT // dtype_of(self.kernel.parameters[p]).itemsize for p in streams)
        wholes = tuple([p for p in self._extents if bindings[p] % multiple == 0])
        return Streaming(streams, wholes, multiple)


def slots_of(executable: CpuExecutable, bindings: Sequence[Buffer | Number]) -> list[int]:
    """Return what a kernel gets.  Raises KernelError for bindings that do not fit."""
    kernel = executable.kernel
    if len(bindings) != len(executable.pack):
        raise KernelError(
            f"{kernel} requires {len(kernel.parameters)} bindings, got {len(bindings)}"
        )
    return [pack(b) for pack, b in zip(executable.pack, bindings, strict=True)]


def _packer(parameter: Node) -> Callable[[Buffer | Number], int]:
    """Return what makes 8 bytes of a binding of a parameter, as a kernel gets them."""
    _, name = parameter.attr[:2]
    if parameter.kind == "buffer":
        return lambda binding: _address_of(name, binding)
    dtype = dtype_of(parameter)
    # Whole numbers that are not negative are their own bits; most arguments are such.
    plain = range(min(int(dtype.highest), 2**63 - 1)) if dtype.is_integer else range(0)

    is_single = dtype is float32

    def pack(binding: Buffer | Number) -> int:
        if type(binding) is int and binding in plain:
            return binding
        if is_single and type(binding) is float and -_LARGE < binding < _LARGE:
            bits: int = _WORD.unpack(_SINGLE.pack(binding, 0))[0]
            return bits
        return _number(name, dtype, binding)

    return pack


def _format(parameter: Node) -> str:
    """Return the code of `struct` for 8 bytes of a binding: an address, or a number that fits."""
    if parameter.kind == "buffer":
        return "q"
    dtype = dtype_of(parameter)
    if dtype.name in ("bool", "bfloat16"):
        return ""
    return _CODES[dtype.name] + "x" * (8 - dtype.itemsize)


def _address_of(name: str, binding: Buffer | Number) -> int:
    if isinstance(binding, BUFFERS):
        return binding.address
    raise KernelError(f"buffer {name!r} requires a buffer of this runtime, got {binding!r}")


def _number(name: str, dtype: DType, binding: Buffer | Number) -> int:
    if not isinstance(binding, int | float):
        raise KernelError(f"argument {name!r} requires a number, got {binding!r}")
    if dtype.name == "bfloat16":
        return slot(dtype.numpy.type(binding).view(np.uint16), "H")
    return slot(exact(binding, dtype), _CODES[dtype.name])
