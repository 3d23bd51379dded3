"""Convolutions as products through windows, of which the first sizes are built in.

A product with many digits an axis divides by their sizes at each step, which costs up to twice the
time where they are not known; so of the sizes that come first all but the batch is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.skeleton.contraction.product import (
    PRODUCT,
    SUM,
    PartialSums,
    Schedule,
    contract,
)
from pyrite.backend.cube.skeleton.finish import Source, bindings_around
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, Stage, foresee, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.extent import with_known
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import implicit_gemm
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.product import Product


@dataclass(frozen=True, slots=True)
class WindowedProduct:
    """A convolution as a product: of a weight and x, or for the weight's gradient of g and x.

    Rows of out are filled up to multiples of ``lanes``; ``is_transposed`` is as in `weight_map`.
    """

    windows: Windows
    left: OperandLayout
    x: OperandLayout
    out: OperandLayout
    lanes: int = 1
    is_transposed: bool = False
    is_gradient: bool = False

    @property
    def product(self) -> Product:
        """The product."""
        w = self.windows
        if self.is_gradient:
            return implicit_gemm.weight_gradient(w, self.x, self.left, self.out)
        return implicit_gemm.forward(
            w, self.x, self.left, self.out, self.lanes, is_transposed=self.is_transposed
        )

    def mapped(self, fused: Fused) -> Fused:
        """Return what is fused by maps of matrices, of layouts by the coordinates of out."""

        def map(of: Any) -> Any:
            if not isinstance(of, OperandLayout):
                return of
            if self.is_gradient:
                return implicit_gemm.weight_map(self.windows, of)
            return implicit_gemm.result_map(self.windows, of, self.lanes)

        stage = fused.epilogue
        if stage is not None:
            stage = Stage(stage.rule, tuple([map(s) for s in stage.sources]))
        outputs = tuple([map(of) for of in fused.outputs])
        return replace(fused, epilogue=stage, outputs=outputs)

    def with_batch(self, batch: int) -> WindowedProduct:
        """Return the same of other images."""
        return replace(self, windows=replace(self.windows, batch=batch))


class WindowedSkeleton:
    """Kernels of such products, for any batch."""

    name = "windowed product"

    def candidates(self, problem: WindowedProduct, machine: Machine) -> list[Schedule]:
        """Return the schedules that are right for the product."""
        return PRODUCT.candidates(problem.product, machine)

    def select(self, problem: WindowedProduct, machine: Machine) -> Schedule:
        """Return the schedule of the product."""
        return PRODUCT.select(problem.product, machine)

    def workgroups(self, problem: WindowedProduct, config: Schedule) -> int:
        """Return how many workgroups run the kernel."""
        return PRODUCT.workgroups(problem.product, config)

    def build(self, problem: WindowedProduct, config: Schedule, fused: Fused, grid: int) -> Kernel:
        """Return the kernel, as of the product."""
        known, around = with_known((problem.with_batch(0), fused))
        known = known.with_batch(problem.windows.batch)
        return PRODUCT.build(known.product, config, known.mapped(around), grid)


WINDOWED: Final = WindowedSkeleton()


def _foresee(launcher: Launcher, first: WindowedProduct, fused: Fused) -> None:
    """Have the kernels compiled ahead that serve other sizes than the first."""

    def compile(launcher: Launcher) -> None:
        product, mapped = first.product, first.mapped(fused)
        chosen = PRODUCT.select(product, launcher.machine)
        foresee(launcher, PRODUCT, product, chosen, mapped if chosen.parts == 1 else NOTHING)
        if chosen.parts > 1:
            foresee(launcher, SUM, PartialSums(product, chosen.parts), 0, mapped)

    launcher.compile_ahead((first.with_batch(0), fused), compile)


def contract_windows(
    launcher: Launcher, problem: WindowedProduct, left: CubeTensor, x: CubeTensor,
    target: CubeTensor, *, fused: Fused = NOTHING, sources: Sequence[Source] = (),
    outputs: Sequence[CubeTensor] = (), knows_first: bool = True,
) -> None:  # fmt: skip
    """Run the product on its operands; what is fused has layouts by the coordinates of out.

    ``sources`` are what the epilogue reads, ``outputs`` what is written in place of the target.
    With ``knows_first`` the kernel of the sizes that come first has them built in.
    """
    product, mapped = problem.product, problem.mapped(fused)
    # Lanes follow from the sizes: those of another size make it no other layer.
    # Of a layer that is not new it is not asked: other sizes' phases may lie as none came before.
    if not (knows_first and launcher.is_first(replace(problem, lanes=1).with_batch(0))):
        contract(launcher, product, left, x, target, fused=mapped, sources=sources, outputs=outputs)
        return
    _foresee(launcher, problem, fused)
    chosen = WINDOWED.select(problem, launcher.machine)
    operands = (x, left) if chosen.is_swapped else (left, x)
    inputs = [b for t in operands for b in bindings_of(t)]
    results = bindings_around(sources, outputs or (target,))
    if chosen.parts == 1:
        launch(launcher, WINDOWED, problem, [*inputs, *results], config=chosen, fused=fused)
        return
    count = product.batch * product.m * product.n * chosen.parts
    partial = launcher.allocate(count * product.accumulator.itemsize)
    launch(launcher, WINDOWED, problem, [*inputs, partial], config=chosen)
    sums = PartialSums(product, chosen.parts)
    launch(launcher, SUM, sums, [partial, *results], config=0, fused=mapped)
