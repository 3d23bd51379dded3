"""A contraction's launches: a product of matrices and what mends it, or the sums term by term."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.contraction.matrices import matrices_of
from pyrite.backend.cube.skeleton.contraction.product import contract, layout_of
from pyrite.backend.cube.skeleton.contraction.terms import add_terms, mend
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.rule import Terms


def contract_terms(
    launcher: Launcher, terms: Terms, left: CubeTensor, right: CubeTensor, target: CubeTensor
) -> None:
    """Write what a contraction adds up to a target, which has the axes of the terms."""
    matrices = matrices_of(terms)
    if matrices is None:
        add_terms(launcher, terms, left, right, target)
        return
    of_left, of_right, of_target = (layout_of(t, launcher.machine) for t in (left, right, target))
    matrices = matrices.split(of_left, of_right, of_target)
    product = matrices.product(of_left, of_right, of_target, launcher.machine)
    x, y = (right, left) if matrices.is_swapped else (left, right)
    contract(launcher, product, x, y, target)
    mend(launcher, terms, left, right, target)
