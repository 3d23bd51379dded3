"""Gradients of a convolution's weight on CPUs: vectors along positions, or along outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyrite.backend.cube.skeleton.contraction.product import PartialSums
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.cached import cached
from pyrite.kernel import Kernel
from pyrite.kernel.choice import chosen, kept
from pyrite.kernel.extent import extent, with_known
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import gradient_blocks, outer_config, size_class
from pyrite.kernel.template import weight_gradient as along
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.outer_config import OuterConfig
from pyrite.kernel.template.outer_products import outer_products
from pyrite.kernel.template.weight_gradient import WeightGradientConfig
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class WeightGradient:
    """The gradient of a convolution's weight, and where its operands lie.

    With ``is_first`` all but the batch is built in, as of `DirectConvolution`.
    """

    windows: Windows
    x: OperandLayout
    g: OperandLayout
    is_first: bool = False

    def with_batch(self, batch: int) -> WeightGradient:
        """Return the same of other images."""
        return replace(self, windows=replace(self.windows, batch=batch))


@dataclass(frozen=True, slots=True)
class AnyParts(PartialSums):
    """Partial sums whose number depends on the batch: a loop adds them."""

    parts: int = extent()


#: How a gradient is summed up: by vectors along the positions, or along the outputs.
GradientConfig = WeightGradientConfig | OuterConfig


class WeightGradientSkeleton:
    """Kernels of weight gradients; with more than one part they are partial sums."""

    name = "weight gradient"

    def candidates(self, problem: WeightGradient, machine: Machine) -> list[GradientConfig]:
        """Return the configs that are right for a gradient on a CPU."""
        w, dtype = problem.windows, problem.x.dtype
        return [*along.candidates(w, dtype, machine), *outer_config.candidates(w, dtype, machine)]

    def select(self, problem: WeightGradient, machine: Machine) -> GradientConfig:
        """Return the one with the least estimated time for the class of its sizes."""
        return select(problem.windows, problem.x.dtype, machine)

    def workgroups(self, problem: WeightGradient, config: GradientConfig) -> int:
        """Return how many workgroups run the kernel."""
        return gradient_blocks.workgroups(problem.windows, config)

    def build(
        self, problem: WeightGradient, config: GradientConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: x, g, and the result or its partial sums."""
        p, dtype = problem, problem.x.dtype
        if p.is_first:
            known, cut = with_known((p.with_batch(0), replace(config, parts=1)))
            p, config = known.with_batch(p.windows.batch), replace(cut, parts=config.parts)
        if isinstance(config, OuterConfig):
            return outer_products(p.windows, p.x, p.g, dtype, config, grid=grid)
        return along.weight_gradient(p.windows, p.x, p.g, dtype, config, grid=grid)


def select(w: Windows, dtype: DType, machine: Machine) -> GradientConfig:
    """Return how the gradient of a weight is summed up: vectors lie where the estimate is least."""
    config, length = _select_for(w, dtype, machine)
    if isinstance(config, OuterConfig):
        return outer_config.fitted(config, length, w)
    return along.fitted(config, length, w)


def select_shared(w: Windows, first: Windows, dtype: DType, machine: Machine) -> GradientConfig:
    """Return the config of a kernel that serves many sizes: it is cut as for the first of them."""
    config, length = _select_for(first, dtype, machine)
    if isinstance(config, OuterConfig):
        return outer_config.shared(config, length, w)
    return along.shared(config, length, w)


@chosen(4096)
def _select_for(w: Windows, dtype: DType, machine: Machine) -> tuple[GradientConfig, int]:
    return _select(size_class.class_of(w), dtype, machine)


@cached(4096)
@kept
def _select(w: Windows, dtype: DType, machine: Machine) -> tuple[GradientConfig, int]:
    by_positions = along.select_for_class(w, dtype, machine)
    by_outputs = outer_config.select_for_class(w, dtype, machine)
    outer_cost = outer_config.cost(w, by_outputs[0], machine)
    is_outer = outer_cost < along.cost(w, dtype, by_positions[0], machine)
    return by_outputs if is_outer else by_positions


WEIGHT_GRADIENT: Final = WeightGradientSkeleton()
