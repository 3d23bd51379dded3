"""A kernel compiled for one device, in the variants that its launches turn out to need.

Most launches need the plain variant.  ``all_writable`` declares every buffer as written, because
WebGPU forbids to bind one buffer both for reading and for writing in a dispatch, which happens when
the parts of an arena are operands.  ``is_folded`` counts workgroups on two axes where a grid has
more than one axis may have (65,535).  ``parts`` binds a buffer that is larger than one binding may
be as several.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyrite.errors import KernelError
from pyrite.kernel.encoding import pack
from pyrite.kernel.fact import facts_of
from pyrite.kernel.ir import Kernel
from pyrite.runtime.wgpu.demand import check_buffers
from pyrite.runtime.wgpu.memory import Buffer
from pyrite.runtime.wgpu.native import Pointer
from pyrite.runtime.wgpu.shader import BindingLayout, Layouts, create_module, create_pipeline
from pyrite.types import DType, Number

#: struct's letters; an argument lies at a multiple of its size, as in WGSL.
_LETTERS = {
    "bool": "I", "int32": "i", "uint32": "I", "float32": "f", "float16": "f",
    "int64": "q", "uint64": "Q", "float64": "d",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes: for each parameter the dtype of a number, or None for a buffer.

    ``writes`` says of each buffer whether it is written; ``grid`` is the number of its axes.
    ``error_words`` are the positions of buffers that only say that an index was outside.
    """

    name: str
    parameters: tuple[DType | None, ...]
    writes: tuple[bool, ...]
    grid: int
    error_words: frozenset[int] = frozenset()

    @classmethod
    def of(cls, kernel: Kernel) -> Signature:
        """Return the signature of a kernel in IR."""
        words = {node.inputs[0] for node in kernel.walk() if node.kind == "error"}
        return cls(
            kernel.name,
            tuple(None if p.kind == "buffer" else p.value_type.dtype for p in kernel.parameters),
            tuple(p.attr[2] != "read" for p in kernel.buffers),
            kernel.grid,
            frozenset(n for n, p in enumerate(kernel.buffers) if p in words),
        )

    @property
    def results(self) -> tuple[bool, ...]:
        """For each buffer, whether a launch that does not run leaves it wrong."""
        return tuple(w and n not in self.error_words for n, w in enumerate(self.writes))

    def arguments(self, is_folded: bool) -> struct.Struct:
        """Return how its numbers are laid out in memory; the last of a folded one is the grid."""
        return struct.Struct("@" + self.letters(is_folded))

    def letters(self, is_folded: bool) -> str:
        """Return the same as letters of struct."""
        letters = [_LETTERS[dtype.name] for dtype in self.parameters if dtype is not None]
        return "".join(letters) + ("I" if is_folded else "")


@dataclass(frozen=True, slots=True)
class Form:
    """Which variant of a kernel's text: see the head of this file."""

    all_writable: bool = False
    is_folded: bool = False
    has_immediates: bool = True
    #: How often each buffer is bound; none where all are bound once.
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A pipeline and what it binds."""

    name: str
    pipeline: Pointer
    layout: BindingLayout


class Executable:
    """A kernel of one device.  ``text`` gives the WGSL of a form; only trusted text has many."""

    def __init__(
        self,
        layouts: Layouts,
        signature: Signature,
        text: Callable[[Form], str],
        *,
        is_trusted: bool,
        kernel: Kernel | None = None,
        legal: Kernel | None = None,
    ) -> None:
        self.device = layouts.device
        self.layouts = layouts
        self.signature = signature
        self.is_trusted = is_trusted
        self.results = signature.results
        self._arguments = [signature.arguments(is_folded) for is_folded in (False, True)]
        self._text = text
        #: The kernel that was given, and what the texts are printed from.
        self._kernel, self._legal = kernel, legal
        self._variants: dict[tuple[bool, bool, tuple[int, ...]], Variant] = {}
        self.variant(all_writable=False, is_folded=False)  # errors come when it is compiled

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was given to ``compile``.  Raises KernelError if that was WGSL."""
        if self._kernel is None:
            raise KernelError(f"kernel requires one made of IR, got WGSL: '{self.name}'")
        return self._kernel

    def pack_kernel(self) -> None:
        """Keep of the kernel what launches need."""
        if self._kernel is not None and self._legal is not None:
            facts_of(self._kernel)
            pack(self._kernel)
            pack(self._legal)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @cached_property
    def largest_grid(self) -> int:
        """The most workgroups on one axis."""
        return self.device.limits["max-compute-workgroups-per-dimension"]

    @cached_property
    def largest_binding(self) -> int:
        """The most bytes of a buffer that one binding shows."""
        return self.device.max_binding

    def variant(
        self, *, all_writable: bool, is_folded: bool, parts: tuple[int, ...] = ()
    ) -> Variant:
        """Return a variant, compiled when it is first asked for.

        Raises KernelError if it does not compile, or if WGSL of a user would need another one.
        """
        found = self._variants.get((all_writable, is_folded, parts))
        if found is None:
            found = self._compile(all_writable, is_folded, parts)
            self._variants[all_writable, is_folded, parts] = found
        return found

    def source(
        self, *, all_writable: bool = False, is_folded: bool = False, parts: tuple[int, ...] = ()
    ) -> str:
        """Return the WGSL of a variant, as this device gets it."""
        arguments = self.signature.arguments(is_folded)
        return self._text(Form(all_writable, is_folded, self._fits_immediates(arguments), parts))

    def fit(
        self, buffers: Sequence[Buffer], *, is_folded: bool
    ) -> tuple[Variant, Sequence[Buffer]]:
        """Return the variant for a launch on buffers, and what it binds.

        Raises KernelError as `variant`, or where more is to be bound than the device binds.
        """
        parts = self._parts(buffers)
        all_writable = _is_read_and_written(buffers, self.signature.writes)
        variant = self.variant(all_writable=all_writable, is_folded=is_folded, parts=parts)
        return variant, _bound(buffers, parts, self.largest_binding) if parts else buffers

    def _parts(self, buffers: Sequence[Buffer]) -> tuple[int, ...]:
        """Return how often each buffer is to be bound, or nothing if once is enough for all.

        Raises KernelError where that is more than the device binds.
        """
        largest = self.largest_binding
        if all(buffer.nbytes <= largest for buffer in buffers):
            return ()
        parts = tuple(max(1, -(-buffer.nbytes // largest)) for buffer in buffers)
        limit = self.device.limits["max-storage-buffers-per-shader-stage"]
        if sum(parts) > limit:
            sizes = ", ".join(f"{buffer.nbytes:,}" for buffer in buffers)
            raise KernelError(
                f"kernel '{self.name}' requires at most {limit} bindings of {largest:,} bytes on "
                f"this device, got buffers of {sizes} bytes; part the tensors"
            )
        return parts

    def part(self, bindings: Sequence[Buffer | Number]) -> tuple[list[Buffer], list[Number]]:
        """Return the buffers and the numbers among the bindings.

        Raises KernelError if they do not fit the parameters.
        """
        signature = self.signature
        if len(bindings) != len(signature.parameters):
            raise KernelError(
                f"kernel '{self.name}' requires {len(signature.parameters)} bindings, "
                f"got {len(bindings)}"
            )
        buffers: list[Buffer] = []
        numbers: list[Number] = []
        for binding, dtype in zip(bindings, signature.parameters, strict=True):
            if isinstance(binding, Buffer) != (dtype is None):
                wanted = (
                    "a buffer of a wgpu runtime" if dtype is None else f"a number ({dtype.name})"
                )
                raise KernelError(
                    f"kernel '{self.name}' requires {wanted} as binding "
                    f"{len(buffers) + len(numbers)}, got {binding!r}"
                )
            if isinstance(binding, Buffer):
                buffers.append(binding)
            else:
                numbers.append(binding)
        return buffers, numbers

    def packed(
        self, numbers: Sequence[Number], grid: Sequence[int], *, is_folded: bool
    ) -> bytes | None:
        """Return the numbers of a launch as the kernel reads them; None where there are none.

        Raises KernelError for one that does not fit its dtype.
        """
        given = [*numbers, grid[0]] if is_folded else numbers
        if not given:
            return None
        try:
            return self._arguments[is_folded].pack(*given)
        except struct.error as error:
            raise self.misfit(given, error) from None

    def nbytes(self, *, is_folded: bool) -> int:
        """The bytes of its numbers."""
        return self._arguments[is_folded].size

    def misfit(self, given: Sequence[Number], error: Exception) -> KernelError:
        """Return the error of numbers of which one does not fit its dtype."""
        return KernelError(
            f"kernel '{self.name}' requires numbers of its parameters' dtypes, got {given}: {error}"
        )

    def check_grid(self, grid: Sequence[int]) -> bool:
        """Return whether the grid has to be folded.

        Raises KernelError if it has not the kernel's axes, or is too large for the device.
        """
        largest, axes = self.largest_grid, self.signature.grid
        if len(grid) != axes or min(grid) < 0:
            raise KernelError(f"kernel '{self.name}' requires a grid of {axes} axes, got {grid}")
        if max(grid) <= largest:
            return False
        if axes == 1 and self.is_trusted and grid[0] <= largest * largest:
            return True
        raise KernelError(
            f"kernel '{self.name}' requires at most {largest} workgroups on an axis, got {grid}; "
            "let each do more, or count them on more axes"
        )

    def counts(self, grid: Sequence[int], *, is_folded: bool) -> tuple[int, int, int]:
        """Return the workgroups on each axis of the device; a folded grid is spread over two."""
        x, y, z = (*grid, 1, 1)[:3]
        if is_folded:
            y = -(-x // self.largest_grid)
            x = -(-x // y)
        return x, y, z

    def _fits_immediates(self, arguments: struct.Struct) -> bool:
        device = self.device
        if not self.is_trusted:  # an application's WGSL declares a uniform
            return False
        return device.has_immediates and arguments.size <= device.limits["max-immediate-size"]

    def _compile(self, all_writable: bool, is_folded: bool, parts: tuple[int, ...]) -> Variant:
        if parts and not self.is_trusted:
            raise KernelError(
                f"kernel '{self.name}' requires buffers of at most {self.largest_binding:,} bytes "
                "on this device, got a larger one; launch it on parts"
            )
        if (all_writable or is_folded) and not self.is_trusted:
            raise KernelError(
                f"kernel '{self.name}' requires that no buffer is both read and written through "
                "different bindings, got one that is; copy it first"
            )
        device, name = self.device, self.name
        arguments = self.signature.arguments(is_folded)
        size = (arguments.size + 3) & ~3
        fits = self._fits_immediates(arguments)
        counts = parts or (1,) * len(self.signature.writes)
        writes = tuple(
            all_writable or is_written
            for is_written, count in zip(self.signature.writes, counts, strict=True)
            for _ in range(count)
        )
        check_buffers(name, len(writes), device)
        source = self.source(all_writable=all_writable, is_folded=is_folded, parts=parts)
        module = create_module(device, name, source, is_trusted=self.is_trusted)
        layout = self.layouts.get(
            writes,
            immediate_size=size if fits else 0,
            uniform_size=0 if fits else (size + 15) & ~15,
        )
        pipeline = create_pipeline(device, name, module, layout)
        return Variant(name, pipeline, layout)


def _is_read_and_written(buffers: Sequence[Buffer], writes: tuple[bool, ...]) -> bool:
    """Whether some storage is bound both ways in one dispatch."""
    storages = {buffer.key[0] for buffer in buffers}
    if len(storages) == len(buffers):
        return False
    written = {b.key[0] for b, w in zip(buffers, writes, strict=True) if w}
    return any(b.key[0] in written for b, w in zip(buffers, writes, strict=True) if not w)


def _bound(buffers: Sequence[Buffer], parts: Sequence[int], largest: int) -> list[Buffer]:
    """Return what is bound of the buffers: a buffer of several parts as views of it."""
    return [
        part
        for buffer, count in zip(buffers, parts, strict=True)
        for part in (_views(buffer, largest) if count > 1 else [buffer])
    ]


def _views(buffer: Buffer, largest: int) -> list[Buffer]:
    starts = range(0, buffer.nbytes, largest)
    return [buffer.view(start, min(largest, buffer.nbytes - start)) for start in starts]
