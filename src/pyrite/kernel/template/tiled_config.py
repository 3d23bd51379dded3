"""How a tiled product is cut up for a GPU, and which way is fastest; see `tiled_gemm`.

Measured on an H200 (benchmarks/gpu_matmul.py), whose processors have 48 KiB of shared memory each
through Vulkan, with cuBLAS' time as 1: 128 x 128 x 8 with 128 invocations of 16 x 8 and one stage,
of which two workgroups fit, takes 1.04 at 4096 and 1.03 at 2048; 256 invocations of 8 x 8 1.06 and
1.05, 1.09 with lanes in order; 256 x 128, of which one fits, 1.11; two stages 1.10 to 1.22.  Sizes
as arguments take no longer since the loop along K says that it is entered (`tiled_gemm`): 4096
takes 2,826 µs with 16 x 8, 2,852 with 8 x 8 and cuBLAS 2,690, 2048 takes 363, 364 and 342.

Of a GPT-2's products, with sizes as arguments, in µs with 16 x 8, 8 x 8 and by cuBLAS: (8192, 768)
(768, 3072)T 847, 876, 794; (8192, 768) (768, 768)T, whose last 120 of 384 workgroups run alone,
282, 229, 234; (8192, 3072) (3072, 768)T 850 in two parts, 893, 851; (768, 8192)T (8192, 3072) in
nine parts, which fill the device 4.9 times, 848, 839, 793.  Where a size is no whole number of
tiles 8 x 8 is faster: (8192, 768) (768, 50257)T 14,843, 14,110, 12,457; (8192, 50257) (50257, 768)
in two parts 14,007, 13,744, 12,933.  So it is where each of the sums is finished by more than a
bias: (8192, 768) (768, 3072)T with a GELU 913, 875; its gradient 1,000, 870.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import Final, NamedTuple

from pyrite.kernel.extent import extent, varying
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import Product

#: Elements of a vector: WGSL has no wider ones.
VECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class TiledConfig:
    """How a product is cut up.  ``group`` rows of tiles run together."""

    block_m: int = varying()
    block_n: int = varying()
    block_k: int = varying()
    thread_m: int = varying()
    thread_n: int = varying()
    stages: int = varying(default=2)
    pad: int = varying(default=0)
    group: int = varying(default=8)
    split_k: int = extent(default=1)

    @property
    def threads(self) -> int:
        """Invocations of a workgroup."""
        return (self.block_m // self.thread_m) * (self.block_n // self.thread_n)

    @property
    def swaps(self) -> bool:
        """Whether multiply-adds go there and back lane by lane; see `_TiledGemm.multiply`."""
        return self.thread_m * self.thread_n >= 32

    @property
    def is_large(self) -> bool:
        """Whether few workgroups of it run at once, so that the last ones count."""
        return self.block_m * self.block_n >= 128 * 128

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

#: How many times a split product may fill the device.
_TIMES: Final = 6

#: From the largest to the smallest; the pad is for slabs that are stored down a column.
CONFIGS: Final = (
    TiledConfig(128, 128, 16, 8, 8, stages=2, pad=4),
    TiledConfig(128, 128, 16, 8, 8, stages=2),
    TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4),
    TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4),
    TiledConfig(64, 128, 8, 8, 8, stages=2),
    TiledConfig(128, 128, 8, 8, 8, stages=2),
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


class _Sizes(NamedTuple):
    """What of a product decides: found once, as a choice asks for it some hundred times."""

    batch: int
    m: int
    n: int
    k: int
    itemsize: int
    is_lower: bool
    stores_down_columns: bool

    def tiles(self, config: TiledConfig) -> int:
        """Return how many tiles the product has."""
        of_rows = -(-self.m // config.block_m)
        return of_rows * -(-self.n // config.block_n) * self.batch


def _sizes_of(product: Product) -> _Sizes:
    x = product.x
    return _Sizes(
        product.batch, product.m, product.n, product.k, product.accumulator.itemsize,
        product.is_lower, x.lane_stride(x.columns) == 1,
    )  # fmt: skip


def candidates(product: Product, machine: Machine) -> list[TiledConfig]:
    """Return the configs that are right for a product on a device; the first is no favourite."""
    return _candidates(_sizes_of(product), machine)


def _candidates(of: _Sizes, machine: Machine) -> list[TiledConfig]:
    return [
        config if split == 1 else _with_split(config, split)
        for config in _fitting(machine, of.itemsize)
        for split in _splits(of, config, machine)
    ]


@lru_cache
def _fitting(machine: Machine, itemsize: int) -> tuple[TiledConfig, ...]:
    return tuple([c for c in CONFIGS if c.fits(machine, itemsize)])


def select(product: Product, machine: Machine, *, is_finished: bool = False) -> TiledConfig:
    """Return the candidate with the least estimated time; see `_cost`.

    ``is_finished`` says that an epilogue makes something else of the sums.
    """
    of = _sizes_of(product)
    found = _candidates(of, machine)
    return min(found, key=lambda c: _cost(of, c, machine, is_finished=is_finished))


def _with_split(config: TiledConfig, split: int) -> TiledConfig:
    c = config
    return TiledConfig(
        c.block_m, c.block_n, c.block_k, c.thread_m, c.thread_n, c.stages, c.pad, c.group, split
    )


def _splits(of: _Sizes, config: TiledConfig, machine: Machine) -> list[int]:
    """Return 1, and the splits that still leave each part some steps and the device not full.

    These are the powers of two, and of the largest tiles those that fill the device a whole number
    of times; less the parts that would be empty.
    """
    steps = -(-of.k // config.block_k)
    if of.is_lower or steps < 16:  # of which no part has eight
        return [1]
    tiles, full = of.tiles(config), machine.workgroups
    wanted, split = set(), 2
    if config.is_large:
        wanted = {times * full // tiles for times in range(1, _TIMES + 1)}
    while tiles * split <= 4 * full:
        wanted.add(split)
        split *= 2
    found = {-(-steps // -(-steps // split)) for split in wanted if 1 < split <= steps // 8}
    return sorted({1, *found})


def _cost(of: _Sizes, config: TiledConfig, machine: Machine, *, is_finished: bool = False) -> float:
    """What the processor with most workgroups does, in multiply-adds, over how busy it is.

    A step costs the multiply-adds of the tile, or the loads that feed them if these take longer: an
    invocation loads ``thread_m + thread_n`` elements from shared memory for each of its products'
    rows and columns, and its memory is slower by what the tile reuses.  A split adds the traffic of
    its partial sums, and a launch.
    """
    groups = of.tiles(config) * config.split_k
    rounds = -(-groups // (machine.workgroups // 2))
    steps = -(-of.k // (config.block_k * config.split_k))
    work = config.block_m * config.block_n * config.block_k
    shared = 8 * work * (config.thread_m + config.thread_n) / (config.thread_m * config.thread_n)
    memory = 32 * config.block_k * (config.block_m + config.block_n)
    slower = _slower(of, config, is_finished=is_finished)
    one = steps * (work + shared / 4 + memory) * slower + 4096 * 16
    taken = one * _taken(config, rounds, _at_once(config, of.itemsize))
    split = 0 if config.split_k == 1 else config.split_k * of.m * of.n * of.batch
    written = split * (1.0 if config.is_large else 0.6)
    return taken + written + (config.split_k > 1) * _LAUNCH


def _slower(of: _Sizes, config: TiledConfig, *, is_finished: bool) -> float:
    """Return how much longer a step takes than what is counted, as measured on an H200."""
    found, is_best = 1.0, False
    if of.stores_down_columns:
        found = 1.1 if config.pad == 0 else 1.0  # stores meet in banks
        is_own = config.split_k == 1 and is_finished  # else another kernel finishes them
        is_best = _is_whole(of, config) and not is_own
    if config.thread_m * config.thread_n > 64 and not is_best:
        found *= 1.06
    return found * 1.1 if config.stages == 2 and config.block_m * config.block_n > 8192 else found


def _is_whole(of: _Sizes, config: TiledConfig) -> bool:
    """Whether no tile is part of one, so that nothing that is read or written is masked."""
    sizes = (of.m, config.block_m), (of.n, config.block_n), (of.k, config.block_k)
    return all(size % block == 0 for size, block in sizes)


def _taken(config: TiledConfig, rounds: int, at_once: int) -> float:
    """Return what a processor takes for so many workgroups, by one of which it is always busy.

    Of large tiles the last may be fewer than run at once, and wait for more: on an H200 one of 128
    invocations of 16 x 8 takes 0.86 to 1.04 of what two take, one of 256 of 8 x 8 0.52 to 0.62.
    """
    of_one, sums = config.threads / 32, max(config.thread_m * config.thread_n / 64, 1)
    busy = _busy(min(rounds, at_once, 8) * of_one * sums**0.5)  # one waits less with more sums
    if not config.is_large or rounds % at_once == 0:
        return rounds / busy
    rest = rounds % at_once
    alone = _busy(rest * of_one * (0.75 if sums > 1 else 1.0))
    return (rounds - rest) / busy + rest / alone


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


def workgroups(product: Product, config: TiledConfig) -> int:
    """Return how many workgroups run a product."""
    tiles = pieces(product.m, config.block_m) * pieces(product.n, config.block_n)
    return tiles * product.batch * config.split_k
