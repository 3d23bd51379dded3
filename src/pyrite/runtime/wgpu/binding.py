"""Bind groups, made once for each layout and set of buffers, and ranges that fit one binding.

To make a bind group costs 2 µs and to find it 0.3 µs.  A group keeps its buffers' memory from being
freed, so the cache is bounded, and gives up the groups of a storage that is given back.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyrite.errors import DeviceError, KernelError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.memory import ALIGNMENT, Buffer, Storage
from pyrite.runtime.wgpu.native import NativeError, Pointer
from pyrite.runtime.wgpu.shader import Layout

Key = tuple[Layout, tuple[tuple[int, int, int], ...]]


class BindGroups:
    """The bind groups of one device, least recently used out first.  Its caller holds the lock."""

    def __init__(self, device: Device, *, capacity: int = 4096) -> None:
        self.device = device
        self.capacity = capacity
        self.hits = self.misses = 0
        self._groups: OrderedDict[Key, Pointer] = OrderedDict()
        #: Of each storage, by serial, the keys of its groups.
        self._keys: defaultdict[int, set[Key]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._groups)

    def get(
        self, layout: Layout, buffers: Sequence[Buffer], uniform: Pointer | None, name: str
    ) -> Pointer:
        """Return the group of these buffers for a kernel of that name.

        Raises KernelError for a buffer that cannot be bound: too large, or of another device.
        """
        key = (layout, tuple([buffer.key for buffer in buffers]))
        found = self._groups.get(key)
        if found is not None:
            self.hits += 1
            self._groups.move_to_end(key)
            return found
        self.misses += 1
        group = self._create(layout, buffers, uniform, name)
        self._groups[key] = group
        for serial, _, _ in key[1]:
            self._keys[serial].add(key)
        if len(self._groups) > self.capacity:
            self._drop(next(iter(self._groups)))
        return group

    def forget(self, storage: Storage) -> None:
        """Drop the groups of a storage."""
        for key in self._keys.pop(storage.serial, ()):
            self._drop(key)

    def _create(
        self, layout: Layout, buffers: Sequence[Buffer], uniform: Pointer | None, name: str
    ) -> Pointer:
        ranges = [(b.storage.raw, b.offset, bound_size(b)) for b in buffers]
        for _, _, size in ranges:
            if size > self.device.max_binding:
                raise KernelError(
                    f"kernel '{name}' requires buffers of at most {self.device.max_binding:,} "
                    f"bytes, got {size:,}; launch it on parts (pyrite.runtime.wgpu.parts)"
                )
        if uniform is not None:
            ranges.append((uniform, 0, layout.uniform_size))
        try:
            return layout.create_group(self.device, ranges)
        except NativeError as error:
            raise KernelError(f"kernel '{name}' requires buffers to bind, got\n{error}") from None

    def _drop(self, key: Key) -> None:
        del self._groups[key]
        for serial, _, _ in key[1]:
            if serial in self._keys:
                self._keys[serial].discard(key)
                if not self._keys[serial]:
                    del self._keys[serial]


def bound_size(buffer: Buffer) -> int:
    """The bytes of a buffer that are bound: whole vectors of four numbers, of 8 bytes each at most.

    There is room: capacities are multiples of 256.  Those of external buffers are multiples of 16;
    one that ends inside a vector of 64-bit numbers cannot be bound as such.
    """
    rest = buffer.storage.capacity - buffer.offset
    return min(max((buffer.nbytes + 31) & ~31, 32), rest)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of rows of a tensor: from `start`, `count` of them."""

    start: int
    count: int


def parts(rows: int, row_sizes: Sequence[int], limit: int) -> Iterator[Part]:
    """Ranges of rows so short that every tensor's part fits a binding of ``limit`` bytes.

    ``row_sizes`` has the bytes of one row of each tensor; a tensor that is bound whole for every
    part, as the right operand of a matmul, is left out.  Each range but the last begins where all
    tensors' offsets are multiples of 256.

    Raises DeviceError when so few rows as keep that do not fit.

    >>> [(p.start, p.count) for p in parts(1000, [1024, 4], 256 * 1024)]
    [(0, 256), (256, 256), (512, 256), (768, 232)]
    """
    largest = max(row_sizes)
    step = max(ALIGNMENT // _power_of_two_in(size) for size in row_sizes)
    count = limit // largest // step * step
    if rows * largest <= limit:
        count = rows
    elif count == 0:
        raise DeviceError(
            f"a part requires {step} rows of {largest:,} bytes in one binding of this device, "
            f"got room for {limit:,} bytes; use a smaller last axis"
        )
    for start in range(0, rows, max(count, 1)):
        yield Part(start, min(count, rows - start))


def _power_of_two_in(size: int) -> int:
    """The greatest power of two that divides the size, at most 256."""
    return min(size & -size, ALIGNMENT) or ALIGNMENT
