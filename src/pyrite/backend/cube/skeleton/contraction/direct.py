"""Convolutions on CPUs that read windows where they lie: see `direct_convolution`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyrite.backend.cube.skeleton.finish import Finish
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel
from pyrite.kernel.extent import with_known
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import direct_config as direct
from pyrite.kernel.template.direct_config import DirectConfig
from pyrite.kernel.template.direct_convolution import direct_convolution
from pyrite.kernel.template.implicit_gemm import OperandLayout, weight_map
from pyrite.kernel.template.polyphase import Polyphase
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class DirectConvolution:
    """Convolutions of x; ``is_transposed`` is as in `weight_map`.

    The weight is given by its dtype, strides and offset: as a tuple, of which no number is an
    extent, since the inner loop reads it at known distances.  With ``is_first`` all but the batch
    is built in: else copies of few channels take up to 1.8 of the time, of 64 channels 1.05.
    """

    convolution: Polyphase
    weight: tuple[DType, tuple[int, ...], int | None]
    x: OperandLayout
    out: OperandLayout
    is_transposed: bool = False
    is_first: bool = False

    def with_batch(self, batch: int) -> DirectConvolution:
        """Return the same of other images."""
        p = self.convolution
        return replace(self, convolution=replace(p, windows=replace(p.windows, batch=batch)))


class DirectSkeleton:
    """Kernels of direct convolutions."""

    name = "direct convolution"

    def candidates(self, problem: DirectConvolution, machine: Machine) -> list[DirectConfig]:
        """Return the configs that are right for a convolution on a CPU; none for large windows."""
        return direct.candidates(problem.convolution, problem.x.dtype, machine)

    def select(self, problem: DirectConvolution, machine: Machine) -> DirectConfig:
        """Return the one with the least estimated time."""
        return direct.select(problem.convolution, problem.x.dtype, machine)

    def workgroups(self, problem: DirectConvolution, config: DirectConfig) -> int:
        """Return how many workgroups run the kernel."""
        return direct.workgroups(problem.convolution, config)

    def build(
        self, problem: DirectConvolution, config: DirectConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: the weight, x, the epilogue's sources, the outputs."""
        if problem.is_first:
            batch = problem.convolution.windows.batch
            known, config, fused = with_known((problem.with_batch(0), config, fused))
            problem = known.with_batch(batch)
        p, stage = problem.convolution, fused.epilogue
        w = replace(p.windows, kernel_size=p.kernel_size)
        filters = weight_map(w, OperandLayout(*problem.weight), is_transposed=problem.is_transposed)
        epilogue = None if stage is None else lambda b: Finish(b, stage)
        outputs = [of for of in fused.outputs if isinstance(of, OperandLayout)]
        assert len(outputs) == len(fused.outputs), "outputs lie by the coordinates of the result"
        return direct_convolution(
            p, problem.x, filters, problem.out, config, grid=grid, epilogue=epilogue,
            outputs=outputs,
        )  # fmt: skip


DIRECT: Final = DirectSkeleton()
