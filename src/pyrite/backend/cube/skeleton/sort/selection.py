"""The first few of a row in order, without sorting the rest: taken out one after another.

An invocation keeps a row in memory of its own, as numbers of 64 bits: the key above the position.
These are all different and in the wanted order, so the next one is the least of them, found by
``width`` * ``vectors`` comparisons at once, and put out of the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, invocation_of, iota
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import vector
from pyrite.types import TensorType, int32, uint64


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """``vectors`` of ``width`` numbers compared at once."""

    width: int
    vectors: int

    def padded(self, size: int) -> int:
        """Return the size of the memory for a row."""
        step = self.width * self.vectors
        return -(-size // step) * step


#: What the stack of a thread surely holds; and above every kept number.
_PRIVATE_BYTES, _TAKEN = 1 << 17, 2**64 - 1


def candidates(rows: Rows, key: Key) -> tuple[SelectionConfig, ...]:
    """Return the configs that are right for rows: of keys of 32 bits, and not too long to keep."""
    found = [SelectionConfig(width, vectors) for width in (8, 4, 2, 1) for vectors in (4, 1)]
    return tuple(
        c for c in found
        if key.dtype.itemsize == 4 and c.padded(rows.size) * uint64.itemsize <= _PRIVATE_BYTES
    )  # fmt: skip


def select(rows: Rows, key: Key, k: int, machine: Machine) -> SelectionConfig | None:
    """Return a config, or None where to sort the whole row takes less, or fits better."""
    wide = max(1, machine.vector // 2)
    fitting = [c for c in candidates(rows, key) if c.width <= wide]
    # To sort takes as long for an element as some 64 comparisons of vectors.
    if machine.kind == "gpu" or not fitting or k > 8 * wide or k * 4 > rows.size:
        return None
    return fitting[0]


def selected(
    launcher: Launcher, x: CubeTensor, rows: Rows, key: Key, k: int, config: SelectionConfig
) -> CubeTensor:
    """Return the positions of the first k of rows, (count, k), int32."""
    target = launcher.empty(TensorType((rows.count, k), int32))
    launcher.launch(
        ("sort first", rows, key, k, config),
        lambda grid: selection_kernel(rows, key, k, config, grid),
        [*bindings_of(x), target.buffer], rows.count,
    )  # fmt: skip
    return target


def selection_kernel(rows: Rows, key: Key, k: int, config: SelectionConfig, grid: int) -> Kernel:
    """Return the kernel that writes the positions of the first k in order: out[count, k]."""
    b = KernelBuilder("sort_selection", grid=grid)
    source = KeySource(b, rows, key)
    out = b.buffer("out", int32, "write")
    kept = b.private(uint64, config.padded(rows.size))
    number = invocation_of(b)
    with b.if_(number < rows.count):
        _keep(b, source, source.row(number), kept, config)
        with b.for_(0, k) as loop:
            position = b.cast(_least(b, kept, rows.size, config) & 0xFFFFFFFF, int32)
            out[number * k + loop.index] = position
            kept[b.index(position)] = _TAKEN
    return b.build()


def _keep(
    b: KernelBuilder, source: KeySource, row: Sequence[Value | int], kept: Memory,
    config: SelectionConfig,
) -> None:  # fmt: skip
    """Put a row into memory, by vectors where its elements are neighbours."""
    size, width = source.rows.size, config.width
    whole = size // width * width if source.rows.layout.strides[-1] == 1 else 0
    for step, begin, end in ((width, 0, whole), (1, whole, size)):
        with b.for_(begin, end, step=step) as loop:
            key = b.cast(source.load(row, loop.index, width=step), uint64)
            position = loop.index if step == 1 else loop.index + iota(b, step)
            kept.store(loop.index, (key << 32) | b.cast(position, uint64), is_aligned=True)
    with b.for_(size, config.padded(size)) as loop:
        kept[loop.index] = _TAKEN


def _least(b: KernelBuilder, kept: Memory, size: int, config: SelectionConfig) -> Value:
    """Return the least of the numbers that are left."""
    width, vectors = config.width, config.vectors
    start = [b.const(_TAKEN, vector(uint64, width))] * vectors
    with b.for_(0, config.padded(size), step=width * vectors, carried=start) as loop:
        found = [
            kept.load(loop.index + n * width, width=width, is_aligned=True) for n in range(vectors)
        ]
        loop.yield_(*(b.min(x, y) for x, y in zip(loop.carried, found, strict=True)))
    least = _halved(b, list(loop.results))
    return least if width == 1 else _halved(b, [least[i] for i in range(width)])


def _halved(b: KernelBuilder, values: list[Value]) -> Value:
    """Return the least, by halves."""
    while len(values) > 1:
        half = len(values) // 2
        values = [b.min(x, y) for x, y in zip(values[:half], values[half:], strict=True)]
    return values[0]
