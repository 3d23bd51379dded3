"""Products of matrices, wherever their elements lie: which template runs them, and how.

The problem is a `pyrite.kernel.template.product.Product`; its sizes and strides choose one of the
templates of `pyrite.kernel.template`, and one of the template's configs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.skeleton.contraction.epilogue import fuse_of, outputs_of
from pyrite.backend.cube.skeleton.finish import Source, bindings_around
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.choice import chosen
from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import dot_product as dot
from pyrite.kernel.template import panel_config as panel
from pyrite.kernel.template import split_k
from pyrite.kernel.template import tiled_config as tiled
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.kernel.template.panel_gemm import panel_gemm
from pyrite.kernel.template.product import Product
from pyrite.kernel.template.tiled_gemm import tiled_gemm
from pyrite.runtime.protocol import Buffer
from pyrite.sized import asked
from pyrite.types import Number


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a product is run: by which template, and whether as the transposed product."""

    config: panel.PanelConfig | dot.DotConfig | tiled.TiledConfig
    is_swapped: bool = False

    @property
    def parts(self) -> int:
        """The number of partial sums of each element."""
        return self.config.split_k if isinstance(self.config, tiled.TiledConfig) else 1

    @property
    def aligns(self) -> bool:
        """Whether it matters where vectors begin."""
        config = self.config

        if isinstance(config, panel.PanelConfig):
            return config.aligns
        return isinstance(config, tiled.TiledConfig)

    def turned(self, product: Product) -> Product:
        """Return the product as it is run."""
        return product.transposed if self.is_swapped else product


#: Fewer rows than this share too little for a tile.
_DIRECT_ROWS: Final = 5

#: An invocation sums no more terms than this; longer sums are cut in parts, which run at once.  And
#: they have to be: Mesa's llvmpipe silently ends all loops of an invocation after 65535 rounds.
_DIRECT_TERMS: Final = (1 << 16) - 1


class ProductSkeleton:
    """Kernels of products; with `Schedule.parts` they are partial sums, which take no epilogue."""

    name = "product"

    def candidates(self, problem: Product, machine: Machine) -> list[Schedule]:
        """Return the schedules that are right for a product on a device."""
        if machine.kind == "cpu":
            found: list[Schedule] = []
            for of, is_swapped in ((problem, False), (problem.transposed, True)):
                found += [Schedule(c, is_swapped) for c in panel.candidates(of, machine)]
                found += [Schedule(c, is_swapped) for c in dot.candidates(of, machine)]
            return found
        by_tiles = [Schedule(c) for c in tiled.candidates(problem, machine)]
        if problem.is_lower:  # the others would read what is not there
            return by_tiles
        direct = panel.direct(problem), panel.direct(problem.transposed)
        return [Schedule(direct[0]), Schedule(direct[1], True), *by_tiles]

    def select(self, problem: Product, machine: Machine) -> Schedule:
        """Return a candidate: lanes along the longer side, tiles where rows share enough."""
        return _select(problem, machine, is_finished=False)

    def workgroups(self, problem: Product, config: Schedule) -> int:
        """Return how many workgroups run the kernel."""
        product, chosen = config.turned(problem), config.config
        if isinstance(chosen, tiled.TiledConfig):
            return tiled.workgroups(product, chosen)
        if isinstance(chosen, dot.DotConfig):
            return dot.workgroups(product, chosen)
        return panel.workgroups(product, chosen)

    def build(self, problem: Product, config: Schedule, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: the left operand, the right, the epilogue's, outputs."""
        product, chosen = config.turned(problem), config.config
        epilogue = fuse_of(fused.epilogue, is_swapped=config.is_swapped, aligns=config.aligns)
        outs = outputs_of(fused, is_swapped=config.is_swapped)
        if isinstance(chosen, tiled.TiledConfig):
            return tiled_gemm(product, chosen, grid=grid, epilogue=epilogue, outputs=outs)
        if isinstance(chosen, dot.DotConfig):
            return dot.dot_product(product, chosen, grid=grid, epilogue=epilogue, outputs=outs)
        return panel_gemm(product, chosen, grid=grid, epilogue=epilogue, outputs=outs)


@chosen(4096)
def _select(product: Product, machine: Machine, *, is_finished: bool) -> Schedule:
    if product.is_lower:
        return Schedule(tiled.select(product, machine, is_finished=is_finished))
    is_swapped = product.n < min(product.m, 8)
    if machine.kind == "cpu":
        is_swapped = is_swapped or _has_windows_along(product)
    turned = product.transposed if is_swapped else product
    if machine.kind == "cpu":
        return Schedule(dot.select(turned, machine) or panel.select(turned, machine), is_swapped)
    if min(product.m, product.n) < _DIRECT_ROWS and product.k <= _DIRECT_TERMS:
        return Schedule(panel.direct(turned), is_swapped)
    return Schedule(tiled.select(product, machine, is_finished=is_finished))


def _has_windows_along(product: Product) -> bool:
    """Whether y's columns are windows whose elements are neighbours along K.

    As rows of x they are copied by vectors, while as rows of y they would have to be turned.
    """
    y = product.y
    return bool(y.windows) and not y.reach(y.columns, 4) and y.reach(y.rows, 4) is not None


# ---- partial sums ----


@dataclass(frozen=True, slots=True)
class PartialSums:
    """So many partial sums of each element of a product."""

    product: Product
    parts: int = extent()


class SumSkeleton:
    """Kernels that add partial sums; there is one way."""

    name = "sum of parts"

    def candidates(self, problem: PartialSums, machine: Machine) -> list[int]:
        """Return the one config, which says nothing."""
        return [0]

    def select(self, problem: PartialSums, machine: Machine) -> int:
        """Return it."""
        return 0

    def workgroups(self, problem: PartialSums, config: int) -> int:
        """Return how many workgroups run the kernel."""
        return split_k.workgroups(problem.product)

    def build(self, problem: PartialSums, config: int, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: the sums, the epilogue's, outputs."""
        product = problem.product
        epilogue, outs = fuse_of(fused.epilogue), outputs_of(fused)
        return split_k.split_k(product, problem.parts, grid=grid, epilogue=epilogue, outputs=outs)


PRODUCT: Final = ProductSkeleton()
SUM: Final = SumSkeleton()


def contract(
    launcher: Launcher,
    product: Product,
    x: CubeTensor,
    y: CubeTensor,
    target: CubeTensor,
    *,
    schedule: Schedule | None = None,
    fused: Fused = NOTHING,
    sources: Sequence[Source] = (),
    outputs: Sequence[CubeTensor] = (),
) -> None:
    """Run a product on its operands.

    ``sources`` are what the epilogue reads, ``outputs`` what is written in place of the target.
    """
    is_finished = fused.epilogue is not None
    chosen = schedule or _select(product, launcher.machine, is_finished=is_finished)
    left, right = (y, x) if chosen.is_swapped else (x, y)
    inputs = [*bindings_of(left), *bindings_of(right)]
    results = bindings_around(sources, outputs or (target,))
    if chosen.parts == 1:
        launch(launcher, PRODUCT, product, [*inputs, *results], config=chosen, fused=fused)
    else:
        partial = partial_sums(launcher, product, inputs, chosen)
        sums = PartialSums(product, chosen.parts)
        launch(launcher, SUM, sums, [partial, *results], config=0, fused=fused)


def partial_sums(
    launcher: Launcher, product: Product, inputs: Sequence[Buffer | Number], schedule: Schedule
) -> Buffer:
    """Return the sums of the parts of a product."""
    count = product.batch * product.m * product.n * schedule.parts
    partial = launcher.allocate(count * product.accumulator.itemsize)
    launch(launcher, PRODUCT, product, [*inputs, partial], config=schedule)
    return partial


def layout_of(tensor: CubeTensor, machine: Machine | None = None) -> OperandLayout:
    """Return the layout, with what the offset divides by: at most 16, the widest vector.

    For a machine, if one is given, that is no more than its own; and for a processor 1: it does not
    care where vectors begin.
    """
    most = 16 if machine is None else 1 if machine.kind == "cpu" else machine.vector
    return OperandLayout(tensor.dtype, tensor.strides, asked(_divisor, tensor.offset, most))


def _divisor(offset: int, most: int) -> int | None:
    """Return the power of two by which an offset divides, None of no offset."""
    return min(offset & -offset, most) if offset else None
