"""How a tiled product is cut up for a GPU, and which way is fastest; see `tiled_gemm`.

Measured on an H200 (benchmarks/gpu_matmul.py), whose processors have 48 KiB of shared memory each
through Vulkan, with cuBLAS' time as 1: 128 x 128 x 8 with 128 invocations of 16 x 8 and one stage,
of which two workgroups fit, takes 1.04 at 4096 and 1.03 at 2048; 256 invocations of 8 x 8 1.06 and
1.05, 1.09 with lanes in order; 256 x 128, of which one fits, 1.11; two stages 1.10 to 1.22.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import Product

#: Elements of a vector: WGSL has no wider ones.
VECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class TiledConfig:
    """How a product is cut up.  ``group`` rows of tiles run together."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int
    stages: int = 2
    pad: int = 0
    group: int = 8
    split_k: int = extent(default=1)

    @property
    def threads(self) -> int:
        """Invocations of a workgroup."""
        return (self.block_m // self.thread_m) * (self.block_n // self.thread_n)

    @property
    def swaps(self) -> bool:
        """Whether multiply-adds go there and back lane by lane; see `_TiledGemm.multiply`."""
        return self.thread_m * self.thread_n >= 32

    def shared_elements(self) -> int:
        """Return how many elements of shared memory a workgroup needs."""
        return self.stages * self.block_k * (self.block_m + self.pad + self.block_n)

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        threads = self.threads
        return (
            all(size % VECTOR == 0 for size in (self.thread_m, self.thread_n, self.pad))
            and self.block_m % self.thread_m == 0
            and self.block_n % self.thread_n == 0
            and self.block_m * self.block_k % (VECTOR * threads) == 0
            and self.block_n * self.block_k % (VECTOR * threads) == 0
        )

    def fits(self, machine: Machine, itemsize: int) -> bool:
        """Whether a device can run it."""
        return (
            self.threads <= machine.invocations
            and self.shared_elements() * itemsize <= machine.shared_bytes
        )


#: Bytes of shared memory that a processor has for all workgroups that it runs at once: an H200's.
_SHARED: Final = 48 << 10

#: Registers that a processor has for all its invocations, and those of one beside its elements.
_REGISTERS: Final = 1 << 16
_OTHERS: Final = 13

#: Multiply-adds of a processor, as `_cost` counts them, in the time of one more launch: 18 µs.  The
#: second kernel takes 7 to 9 by now, but with 9 here a product of 1000³ takes 1.15-1.25, as
#: tiles that do not divide are estimated too low, though (32,512,2048) takes 0.6.
_LAUNCH: Final = 6 << 20

#: From the largest to the smallest; the pad is for slabs that are stored down a column.
CONFIGS: Final = (
    TiledConfig(128, 128, 16, 8, 8, stages=2, pad=4),
    TiledConfig(128, 128, 16, 8, 8, stages=2),
    TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4),
    TiledConfig(64, 128, 8, 8, 8, stages=2),
    TiledConfig(128, 128, 8, 8, 8, stages=2),
    TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4),
    TiledConfig(128, 128, 16, 8, 8, stages=1),
    TiledConfig(128, 64, 16, 8, 8, stages=1, pad=4),
    TiledConfig(128, 64, 16, 8, 4, stages=1, pad=4),
    TiledConfig(64, 64, 16, 8, 4, stages=1, pad=4),
    TiledConfig(64, 64, 16, 4, 4, stages=2),
    TiledConfig(64, 64, 16, 4, 4, stages=1, pad=4),
    TiledConfig(32, 64, 16, 4, 4, stages=2),
    TiledConfig(32, 32, 16, 4, 4, stages=2),
    TiledConfig(16, 64, 16, 4, 4, stages=2),
    TiledConfig(64, 16, 16, 4, 4, stages=2),
    TiledConfig(16, 16, 16, 4, 4, stages=2),
    TiledConfig(8, 128, 32, 4, 4, stages=1),
    TiledConfig(8, 32, 32, 4, 4, stages=2),
)  # fmt: skip


def candidates(product: Product, machine: Machine) -> list[TiledConfig]:
    """Return the configs that are right for a product on a device; the first is no favourite."""
    itemsize = product.accumulator.itemsize
    fitting = [c for c in CONFIGS if c.fits(machine, itemsize)]
    found = []
    for config in fitting:
        splits = _splits(product, config, machine)
        found += [_with_split(config, split) for split in splits]
    return found


def select(product: Product, machine: Machine) -> TiledConfig:
    """Return the candidate with the least estimated time; see `_cost`."""
    return min(candidates(product, machine), key=lambda c: _cost(product, c, machine))


def _with_split(config: TiledConfig, split: int) -> TiledConfig:
    c = config
    return TiledConfig(
        c.block_m, c.block_n, c.block_k, c.thread_m, c.thread_n, c.stages, c.pad, c.group, split
    )


def _splits(product: Product, config: TiledConfig, machine: Machine) -> list[int]:
    """1, and the powers of two that still leave each part some steps and the device not full."""
    found, split = [1], 2
    steps = -(-product.k // config.block_k)
    while split * 8 <= steps and workgroups(product, config) * split <= 4 * machine.workgroups:
        found.append(split)
        split *= 2
    return found


def _cost(product: Product, config: TiledConfig, machine: Machine) -> float:
    """What the processor with most workgroups does, in multiply-adds, over how busy it is.

    A step costs the multiply-adds of the tile, or the loads that feed them if these take longer: an
    invocation loads ``thread_m + thread_n`` elements from shared memory for each of its products'
    rows and columns, and its memory is slower by what the tile reuses.  A split adds the traffic of
    its partial sums, and a launch.
    """
    groups = workgroups(product, config)
    rounds = -(-groups // (machine.workgroups // 2))
    steps = -(-product.k // (config.block_k * config.split_k))
    work = config.block_m * config.block_n * config.block_k
    shared = 8 * work * (config.thread_m + config.thread_n) / (config.thread_m * config.thread_n)
    memory = 32 * config.block_k * (config.block_m + config.block_n)
    conflicts = 1.1 if _stores_down_columns(product) and config.pad == 0 else 1.0
    one = steps * (work + shared / 4 + memory) * conflicts + 4096 * 16
    at_once = _at_once(config, product.accumulator.itemsize)
    subgroups = min(rounds, at_once, 8) * config.threads / 32
    subgroups *= max(config.thread_m * config.thread_n / 64, 1)  # one waits less with more sums
    split = 0 if config.split_k == 1 else config.split_k * product.m * product.n * product.batch
    return rounds * one / _busy(subgroups) + split * 0.6 + (config.split_k > 1) * _LAUNCH


def _at_once(config: TiledConfig, itemsize: int) -> int:
    """Return how many workgroups a processor has the memory and the registers for."""
    c = config
    loads = c.block_k * (c.block_m + c.block_n) // c.threads
    elements = c.thread_m * c.thread_n + 2 * (c.thread_m + c.thread_n) + loads
    registers = c.threads * (elements * itemsize // 4 + _OTHERS)
    return max(min(_SHARED // (c.shared_elements() * itemsize + 1024), _REGISTERS // registers), 1)


def _busy(subgroups: float) -> float:
    """Return the share of its time in which a processor with so many subgroups multiplies.

    On an H200 4 take 1.7 times as long as 16, and 8 take 1.15 times.
    """
    return 1 - exp(-subgroups / 4.3)


def _stores_down_columns(product: Product) -> bool:
    return product.x.lane_stride(product.x.columns) == 1


def workgroups(product: Product, config: TiledConfig) -> int:
    """Return how many workgroups run a product."""
    tiles = pieces(product.m, config.block_m) * pieces(product.n, config.block_n)
    return tiles * product.batch * config.split_k
