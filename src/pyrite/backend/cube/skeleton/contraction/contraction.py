"""A contraction's launches: a product of matrices and what mends it, or the sums term by term."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.contraction.matrices import matrices_of
from pyrite.backend.cube.skeleton.contraction.product import contract, layout_of
from pyrite.backend.cube.skeleton.contraction.terms import add_terms, mend
from pyrite.backend.cube.skeleton.finish import Around
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.rule import Terms
from pyrite.types import DType


def takes_epilogue(terms: Terms, dtype: DType) -> bool:
    """Whether a contraction is a product alone, of which nothing has to be mended."""
    is_mended = bool(terms.bounds) and dtype.is_float
    return matrices_of(terms) is not None and not is_mended


def contract_terms(
    launcher: Launcher, terms: Terms, left: CubeTensor, right: CubeTensor, target: CubeTensor,
    biases: Sequence[CubeTensor] = (), epilogue: Epilogue | None = None,
) -> None:  # fmt: skip
    """Write what a contraction adds up, and biases, to a target, which has the axes of the terms.

    Or write what an epilogue makes of that, if it `takes_epilogue`.  Biases have the target's axes.
    """
    matrices = matrices_of(terms)
    if matrices is None:
        add_terms(launcher, terms, left, right, biases, target)
        return
    of_left, of_right, of_target = (layout_of(t, launcher.machine) for t in (left, right, target))
    matrices = matrices.split(of_left, of_right, of_target)
    product = matrices.product(of_left, of_right, of_target, launcher.machine)
    x, y = (right, left) if matrices.is_swapped else (left, right)
    lanes, machine = matrices.lanes(of_left, of_right, launcher.machine), launcher.machine
    around = Around.of(
        launcher, biases, epilogue, lambda t: matrices.result(layout_of(t, machine), lanes)
    )
    contract(
        launcher, product, x, y, target,
        fused=around.fused, sources=around.sources, outputs=around.outputs,
    )  # fmt: skip
    if epilogue is None:
        mend(launcher, terms, left, right, biases, target)
